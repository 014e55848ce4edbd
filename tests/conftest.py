"""Settings for the whole test run: hypothesis without a stop-watch, and an honest last word on skips."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Generator, Iterable

import pytest
from hypothesis import settings

# No deadline: on a busy machine a slow example is no defect, and correctness tests never assert a time.
# In CI the examples are the same each time: a run tells of the change, not of luck.
settings.register_profile("cloche", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("cloche")
# A run that was started in the background ignores Ctrl-C, and so would every program that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# With nohup it is the same with a hang-up. A handler is not inherited: we stay deaf to it, and our programs are not.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)
# A daemon of whoever runs the tests is none of their business; tests that want one start their own.
os.environ["CLOCHE_DAEMON_SOCKET"] = "/nonexistent/daemon.sock"


def skip_reasons(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> Counter[str]:
    """Count skipped tests by the reason that each gave."""
    reasons: Counter[str] = Counter()
    for report in reports:
        # pytest stores a skip as (path, line, "Skipped: reason").
        message = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[message.removeprefix("Skipped: ")] += 1
    return reasons


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Print the skips after everything else: outermost wrapper, so pytest's own summary comes first."""
    yield
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(session.config, "workerinput"):
        return  # a pytest-xdist worker; the controller hears of every skip
    reasons = skip_reasons(terminal.stats.get("skipped", []))
    terminal.write_line(f"skipped: {reasons.total()}")
    for reason, count in reasons.most_common():
        terminal.write_line(f"  {count:4} x {reason}")
