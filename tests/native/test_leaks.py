"""Nothing is left: no descriptor, no process, no thread, no folder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tests.native.watching import children, open_descriptors

from cloche import ClocheError, ExecutionPolicy, Isolation, IsolationError, NativePythonSandbox, StartError


@pytest.fixture(autouse=True)
def own_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sessions"
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(folder))
    return folder


def use(number: int) -> None:
    """A short life, of one kind or another."""
    with NativePythonSandbox(ExecutionPolicy(grace_ms=0), tools={"echo": lambda value: value}) as sandbox:
        kind = number % 10
        if kind == 1:
            sandbox.execute("import os\nos._exit(3)")
        elif kind == 2:
            sandbox.execute("while True: pass", timeout_ms=1)
        elif kind == 3:
            sandbox.execute("echo(1)")
        elif kind == 4:
            sandbox.reset()
        elif kind == 5:
            return
        sandbox.execute("open('file', 'w')")


@pytest.mark.slow
def test_two_hundred_sessions_leave_nothing(own_sessions):
    use(0)
    use(3)
    descriptors, processes = open_descriptors(), children()
    for number in range(200):
        use(number)
    assert open_descriptors() <= descriptors  # what earlier tests left to end by itself may have ended
    assert set(children()) <= set(processes)
    assert os.listdir(own_sessions) == []


def test_failed_starts_leave_nothing(own_sessions, monkeypatch):
    use(0)
    descriptors, processes = open_descriptors(), children()
    for _ in range(5):
        sandbox = NativePythonSandbox(ExecutionPolicy(minimum_isolation=Isolation.SEALED))
        with pytest.raises(IsolationError):
            sandbox.execute("1")
        sandbox.destroy()

    def refuse(*args: object, **options: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refuse)
    for _ in range(5):
        sandbox = NativePythonSandbox()
        with pytest.raises(StartError, match="Resource temporarily unavailable"):
            sandbox.execute("1")
        sandbox.destroy()
    assert open_descriptors() <= descriptors  # what earlier tests left to end by itself may have ended
    assert set(children()) <= set(processes)
    assert os.listdir(own_sessions) == []


def test_host_functions_keep_no_more_than_a_few_idle_threads():
    def count() -> int:
        return sum(thread.name == "cloche-callback" for thread in threading.enumerate())

    for _ in range(3):
        with NativePythonSandbox(ExecutionPolicy(max_concurrent=40), on_llm_query=lambda prompt: prompt) as sandbox:
            assert sandbox.execute("len(llm_query_batched(['x'] * 200))").value == "200"
    assert count() <= 17


def test_running_out_of_descriptors_is_an_error_and_leaves_nothing():
    import resource

    use(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare: list[int] = []
    refused = 0
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(open_descriptors()) + 40, hard))
        while True:
            try:
                spare.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break
        for _ in range(24):  # each time there is room for one more
            os.close(spare.pop())
            before = len(os.listdir("/proc/self/fd"))
            sandbox = NativePythonSandbox()
            try:
                sandbox.execute("1")
            except (OSError, ClocheError):
                refused += 1
            sandbox.destroy()
            assert len(os.listdir("/proc/self/fd")) == before
    finally:
        for descriptor in spare:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert 5 < refused < 24
    use(3)
