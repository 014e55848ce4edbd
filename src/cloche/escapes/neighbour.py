"""A neighbour: an innocent session beside the one that a technique runs in, which must not notice anything.

It is a session of the same host, backend and options, so that it shares with a technique what real neighbours share:
zygote, worker, user, control group, memory of the runtime. While a technique runs and after it, the neighbour is asked
for its variables, its files, what the kernel knows of its process, and for a piece of work within its deadline. One
neighbour stays for all techniques of a wall, until something happens to it: then another takes its place.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cloche.errors import ClocheError
from cloche.escapes.needs import NEEDS
from cloche.factory import create_sandbox
from cloche.isolation import MASK_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloche.sandbox import SessionSandbox

DEADLINE_MS = 10_000
"""For a piece of work of some milliseconds: a neighbour that needs longer stands still."""
_ENDLESS_MS = 100
_GRACE_MS = 2_000
_LATE = 5.0
"""Seconds after deadline and grace: a busy machine answers by then."""
_SLOW = 1.0
_SLOWER = 100
"""Slowed down is what takes a hundred times as long as before, and a second, each time out of several."""
_TRIES = 5
_FIRST_PAUSE = 0.5
_PAUSE = 0.5
_PLAIN_PATIENCE = 2.0
"""Seconds, in a control: the process has nothing to do but to answer."""
_LEDGER = "every plant has its own bell"

SETTLE = f"""
ledger = {_LEDGER!r}
with open("ledger.txt", "w") as _handle:
    _handle.write(ledger)
"""
"""What makes a neighbour of a Python process."""

LOOK = """
def _look():
    import json, os
    def ask(question):
        try:
            return question()
        except Exception:
            return None
    def limits():
        import resource
        return [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    def pending():
        import signal
        return sorted(int(number) for number in signal.sigpending())
    with open("ledger.txt") as handle:
        written = handle.read()
    return json.dumps({
        "variable": ledger,
        "file": written,
        "files": sorted(os.listdir(".")),
        "process": ask(lambda: os.getpid()),
        "user": ask(lambda: (os.getuid(), os.getgid())),
        "priority": ask(lambda: os.getpriority(os.PRIO_PROCESS, 0)),
        "scheduling": ask(lambda: os.sched_getscheduler(0)),
        "processors": ask(lambda: sorted(os.sched_getaffinity(0))),
        "limits": ask(limits),
        "pending signals": ask(pending),
        "work": sum(number * number for number in range(10_000)),
    })
"""
"""Defines what a neighbour tells of itself."""

_OF_THE_KIND = ("priority", "scheduling", "processors")
"""What a session that begins after the technique has in common with one that began before."""

PLAIN = f"""
import sys
{SETTLE}
{LOOK}
print(_look(), flush=True)
for _line in sys.stdin:
    print(_look(), flush=True)
"""
"""A neighbour without a wall, for controls: tells of itself at the start and for each line of input."""


class Neighbour:
    """One session, and what it said of itself at the start."""

    def __init__(self, backend: str, options: dict[str, Any]) -> None:
        self._backend = backend
        self._options = {**options, "timeout_ms": DEADLINE_MS, "grace_ms": _GRACE_MS}
        self._turn = threading.Lock()
        self._settle()

    @property
    def pid(self) -> int | None:
        """Its process, as the host numbers it."""
        return self._sandbox.guest_pid

    def look(self, *, endless: bool = False, newcomer: bool = False) -> tuple[str, ...]:
        """What happened to it, in words; then another is in its place.

        `endless`: also whether its deadline holds for a cell that does not end. `newcomer`: also whether a session that
        begins now finds what it found.
        """
        with self._turn:
            changes = self._changes()
            if not changes and endless:
                changes = self._overdue() or self._changes()
            if not changes and newcomer:
                changes = self._newcomer()
            if changes:
                self._sandbox.destroy()
                self._settle()
            return tuple(changes)

    def needs(self, name: str) -> dict[str, bool]:
        """What it can get of the kernel now; `name` is for a socket."""
        code = f"NAME = {name!r}\n{NEEDS}\nprint(__import__('json').dumps(_needs()))"
        with self._turn:
            try:
                found: dict[str, bool] = json.loads(self._sandbox.execute(code).check().stdout)
            except (ClocheError, ValueError):
                return {}
        return found

    @contextmanager
    def during(self) -> Iterator[list[str]]:
        """Looks again and again while the block runs, if that takes time. The list is complete after the block."""
        found: list[str] = []
        done = threading.Event()

        def watch() -> None:
            endless, pause = True, _FIRST_PAUSE
            while not found and not done.wait(pause):
                found.extend(self.look(endless=endless))
                endless, pause = False, _PAUSE

        thread = threading.Thread(target=watch, name="neighbour", daemon=True)
        thread.start()
        try:
            yield found
        finally:
            done.set()
            thread.join()

    def close(self) -> None:
        """End it."""
        self._sandbox.destroy()

    def _settle(self) -> None:
        self._sandbox = create_sandbox(backend=self._backend, **self._options)
        self._sandbox.execute(SETTLE + LOOK).check()
        # a deadline that passes costs some walls the session
        self._survives_deadlines = self._end_endless_cell(self._sandbox) is None and self._is_settled()
        if not self._survives_deadlines:
            self._sandbox.execute(SETTLE + LOOK).check()
        asked = [self._ask(self._sandbox) for _ in range(3)]
        self._before, self._usual = asked[-1][0], max(taken for _, taken in asked)

    def _is_settled(self) -> bool:
        return self._sandbox.execute("ledger").value == repr(_LEDGER)

    def _ask(self, sandbox: SessionSandbox) -> tuple[dict[str, Any], float]:
        """What it says of itself, and how long that took; raises what a session raises that is not well."""
        begun = time.monotonic()
        told = json.loads(sandbox.execute("print(_look())").check().stdout)
        return told, time.monotonic() - begun

    def _changes(self) -> list[str]:
        try:
            now, taken = self._ask(self._sandbox)
            for _ in range(_TRIES - 1):
                if taken < max(_SLOW, _SLOWER * self._usual):
                    break
                taken = min(taken, self._ask(self._sandbox)[1])
            else:
                return [f"slowed down: {taken:.1f} s, {self._usual:.4f} s before"]
            now["file seen by the host"] = self._sandbox.get_file("ledger.txt").decode("utf-8", "replace")
        except (ClocheError, ValueError) as exc:
            return [f"does not answer: {type(exc).__name__}: {exc}"]
        return _differences({**self._before, "file seen by the host": _LEDGER}, now)

    def _overdue(self) -> list[str]:
        if not self._survives_deadlines:
            return []
        trouble = self._end_endless_cell(self._sandbox)
        return [] if trouble is None else [trouble]

    def _end_endless_cell(self, sandbox: SessionSandbox) -> str | None:
        """Runs a cell that only its deadline ends. None: it did, in time."""
        begun = time.monotonic()
        try:
            outcome = sandbox.execute("while True: pass", timeout_ms=_ENDLESS_MS).outcome
            sandbox.execute("pass")  # takes an interrupt that comes late: the host's own, and not a technique's
        except ClocheError as exc:
            return f"does not answer: {type(exc).__name__}: {exc}"
        late = time.monotonic() - begun - (_ENDLESS_MS + _GRACE_MS) / 1000
        if outcome != "timeout":
            return f"an endless cell ended with {outcome!r}"
        return None if late < _LATE else f"its deadline passed {late:.1f} s before the cell was ended"

    def _newcomer(self) -> list[str]:
        """What differs for a session that begins now."""
        try:
            with create_sandbox(backend=self._backend, **self._options) as sandbox:
                sandbox.execute(SETTLE + LOOK).check()
                now = self._ask(sandbox)[0]
        except (ClocheError, ValueError) as exc:
            return [f"a new session does not answer: {type(exc).__name__}: {exc}"]
        shared = {name: self._before[name] for name in _OF_THE_KIND}
        return [f"in a new session {change}" for change in _differences(shared, now)]


class Neighbours:
    """The neighbours of one set of canaries: one for each backend, options and masked layers."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Neighbour] = {}

    def beside(self, backend: str, options: dict[str, Any]) -> Neighbour:
        """The one for sessions of this kind. It has a workspace of its own, also where theirs is given."""
        options = {name: value for name, value in options.items() if name not in ("workspace", "tools")}
        key = (backend, repr(sorted(options.items(), key=lambda item: item[0])), os.environ.get(MASK_VARIABLE, ""))
        if key not in self._found:
            self._found[key] = Neighbour(backend, options)
        return self._found[key]

    def close(self) -> None:
        """End them all."""
        while self._found:
            self._found.popitem()[1].close()


class PlainNeighbour:
    """A neighbour without a wall, reached by two pipes: what a technique does to a process beside its own."""

    def __init__(self) -> None:
        self._answers, self.stdout = os.pipe()
        self.stdin, self._questions = os.pipe()

    def started(self) -> None:
        """The process has its ends now, and tells of itself."""
        os.close(self.stdin)
        os.close(self.stdout)
        self._before = self._answer(DEADLINE_MS / 1000)

    def look(self) -> list[str]:
        """What happened to it."""
        with suppress(OSError):
            os.write(self._questions, b"?\n")
        now = self._answer(_PLAIN_PATIENCE)
        return ["does not answer"] if now is None else _differences(self._before or {}, now)

    def close(self) -> None:
        """Take the pipes away, which ends it."""
        os.close(self._questions)
        os.close(self._answers)

    def _answer(self, patience: float) -> dict[str, Any] | None:
        said = b""
        while not said.endswith(b"\n"):
            if not select.select([self._answers], [], [], patience)[0]:
                return None
            part = os.read(self._answers, 1 << 16)
            if not part:
                return None
            said += part
        return dict(json.loads(said))


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {now.get(name)!r:.200}, before {value!r:.200}"
        for name, value in before.items()
        if now.get(name) != value
    ]
