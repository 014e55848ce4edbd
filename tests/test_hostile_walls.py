"""A guest that speaks the wire itself, behind every wall: frames of every method, in every phase, at every size.

The host keeps its bounds, each call returns in time with a result or an error of the tree, and a neighbour session
keeps its variable. What the hostile session itself then says may be forged: only its own results are.
`tests/session/test_hostile_peer.py` does the same without processes, for volume.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.hostile_frames import HARMLESS, SHAPES, speech
from tests.measured_host import SPEAK, peak_of

from cloche.errors import ClocheError
from cloche.factory import create_sandbox
from cloche.policy import ExecutionPolicy
from cloche.result import SandboxResult
from cloche.session.machine import FRAME_SLACK

MIB = 1 << 20
VALUE = 64 << 10
LIMIT = VALUE + FRAME_SLACK
GRACE_MS = 300
SLACK = 15.0
"""Seconds beyond deadline and grace: tells a hang from a busy machine."""
MOST_GROWN = 96 * MIB
"""Two directions of the budget (8 MiB each), the frame that is read, its decoded form, and what a test needs."""
POLICY = ExecutionPolicy(
    value_max_bytes=VALUE, display_max_bytes=VALUE, timeout_ms=5_000, grace_ms=GRACE_MS, bridge_timeout_ms=2_000,
    total_timeout_ms=10_000, max_bridge_calls=300,
)  # fmt: skip
FRAMES = (Path(__file__).parent / "hostile_frames.py").read_text("utf-8")
SPEAK_IN_WASM = """
import wit_world

def say(data):
    wit_world.tell(data.decode("latin-1").rstrip("\\n"))
"""
SPEAK_WITH_GUARD_RAILS = """
import os
for number in range(3, 1000):
    try:
        if os.fstat(number).st_mode & 0o170000 == 0o140000:
            os.write(number, DATA)
    except OSError:
        pass
"""
WALLS = ("native", "jail", "inprocess", "wasm", "pyodide")
WITH_THREADS = ("native", "jail")

BEHAVIOURS = {
    "running": "speak()",
    "idle": "threading.Thread(target=lambda: (time.sleep(0.02), speak())).start()",
    "calling": "threading.Thread(target=speak).start()\nslow('x')",
    "cancelled": "try:\n    while True: pass\nexcept BaseException:\n    speak()",
    "dying": "speak()\nimport os\nos._exit(3)",
    "as a child": "import os\nif os.fork() == 0:\n    time.sleep(0.02)\n    speak()\n    os._exit(0)\nos._exit(3)",
}


def cell(wall: str, phase: str, seed: int, count: int, shapes: str) -> str:
    """Code that takes its own wire over and speaks."""
    if wall == "inprocess":  # its guard refuses most of the below, so the frames are made here
        assert phase == "running"
        kinds = {"HARMLESS": HARMLESS, "SHAPES[:9]": SHAPES[:9]}.get(shapes, ("sized",))
        data = b"".join(speech(seed, min(count, 50), 50_000, kinds))
        return f"DATA = {data!r}\n{SPEAK_WITH_GUARD_RAILS}"
    say = SPEAK_IN_WASM if wall == "wasm" else SPEAK
    if phase == "as a child":
        say = say.replace("wire, *_ = wires()", "wire = os.dup(next(wires()))")  # a fork closes the one that it knows
    lines = (
        f"{FRAMES}{say}\nimport time\n"
        f"def speak():\n    for data in speech({seed}, {count}, {LIMIT}, {shapes}):\n        say(data)\n"
    )
    if wall in WITH_THREADS:
        lines += "import threading\n"
    return lines + BEHAVIOURS[phase]


def slow(*args: object) -> int:
    time.sleep(0.02)  # a host function takes its time
    return len(args)


class HostileWall(RuleBasedStateMachine):
    """One hostile session, whose guest is replaced when it ends, and an innocent one beside it."""

    wall: ClassVar[str]
    make: ClassVar[Callable[[], Any]]
    count: ClassVar[int] = 60
    spoken: ClassVar[int] = 0
    sandbox: ClassVar[Any]
    neighbour: ClassVar[Any]
    calls: ClassVar[ThreadPoolExecutor]

    def call(self, method: str, *args: Any, limit_ms: int, **options: Any) -> Any:
        """What came of it: a value, or an error of the tree. Anything else fails the test, and so does a hang."""
        with peak_of() as grown:
            future = self.calls.submit(getattr(self.sandbox, method), *args, **options)
            try:
                found = future.result((limit_ms + POLICY.total_timeout_ms + GRACE_MS) / 1000 + SLACK)
            except ClocheError as exc:
                found = exc
            assert grown() < MOST_GROWN
        return found

    def speak(self, phase: str, seed: int, count: int, shapes: str, limit_ms: int = 4_000) -> None:
        code = cell(self.wall, phase, seed, count, shapes)
        result = self.call("execute", code, timeout_ms=limit_ms, limit_ms=limit_ms)
        type(self).spoken += count
        assert isinstance(result, SandboxResult), f"an accepted cell gave no result: {result!r}"

    def has_threads(self) -> bool:
        return self.wall in WITH_THREADS

    @rule(seed=st.integers(0, 2**32), shapes=st.sampled_from(["HARMLESS", "SHAPES[:9]"]))
    def while_running(self, seed: int, shapes: str) -> None:
        self.speak("running", seed, self.count, shapes)

    @rule(seed=st.integers(0, 2**32))
    def at_every_size(self, seed: int) -> None:
        self.speak("running", seed, 3, "('sized', 'nested')")

    @precondition(lambda self: self.wall != "inprocess")
    @rule(seed=st.integers(0, 2**32))
    def when_cancelled(self, seed: int) -> None:
        self.speak("cancelled", seed, self.count, "HARMLESS", 150)

    @precondition(lambda self: self.wall != "inprocess")
    @rule(seed=st.integers(0, 2**32))
    def when_dying(self, seed: int) -> None:
        self.speak("dying", seed, self.count, "HARMLESS")

    @precondition(has_threads)
    @rule(seed=st.integers(0, 2**32))
    def between_cells(self, seed: int) -> None:
        self.speak("idle", seed, self.count, "HARMLESS")
        self.use()

    @precondition(has_threads)
    @rule(seed=st.integers(0, 2**32), shapes=st.sampled_from(["HARMLESS", "SHAPES"]))
    def during_a_call(self, seed: int, shapes: str) -> None:
        self.speak("calling", seed, self.count, shapes)

    @precondition(has_threads)
    @rule(seed=st.integers(0, 2**32))
    def after_death(self, seed: int) -> None:
        self.speak("as a child", seed, self.count, "HARMLESS")

    @rule()
    def use(self) -> None:
        """What else a host does with a session. Its answers may be forged; they are of the right type."""
        assert isinstance(self.call("execute", "1 + 1", timeout_ms=4_000, limit_ms=4_000), SandboxResult | ClocheError)
        found = self.call("list_variables", timeout_ms=4_000, limit_ms=4_000)
        assert isinstance(found, dict | ClocheError), found
        self.call("get_variable", "x", timeout_ms=4_000, limit_ms=4_000)

    @rule()
    def begin_again(self) -> None:
        assert self.call("reset", limit_ms=4_000) is None
        result = self.call("execute", "1 + 1", timeout_ms=30_000, limit_ms=30_000)
        assert isinstance(result, SandboxResult), repr(result)
        assert result.value == "2"

    @invariant()
    def the_neighbour_keeps_its_variable(self) -> None:
        assert self.neighbour.execute("x", timeout_ms=20_000).value == "41"


def attack(wall: str, steps: int, examples: int, count: int) -> int:
    """How many frames were spoken."""
    options: dict[str, Any] = {"backend": wall, "policy": POLICY, "tools": {"slow": slow, "f": slow}}
    if wall == "inprocess":
        options |= {"guard": "restricted", "modules": ["os"]}
    with (
        create_sandbox(**options) as sandbox,
        create_sandbox(**options) as neighbour,
        ThreadPoolExecutor(1) as calls,
    ):
        neighbour.execute("x = 41", timeout_ms=120_000).check()
        sandbox.execute("1", timeout_ms=120_000).check()
        given = {"wall": wall, "sandbox": sandbox, "neighbour": neighbour, "calls": calls, "count": count, "spoken": 0}
        machine = type("Hostile" + wall.title(), (HostileWall,), given)
        run_state_machine_as_test(
            machine,
            # A real guest is not the same twice: examples are neither repeated nor made smaller.
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                phases=(Phase.generate,),
                suppress_health_check=list(HealthCheck),
                database=None,
            ),
        )
        return int(machine.spoken)  # type: ignore[attr-defined]  # of the class above


@pytest.mark.parametrize(
    "wall", [*WALLS[:-1], pytest.param("pyodide", marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
)
def test_no_guest_that_speaks_the_wire_itself_harms_the_host_or_its_neighbour(wall: str):
    attack(wall, steps=8, examples=2, count=100)


def test_a_cell_that_says_that_it_was_refused_gives_a_result_all_the_same():
    refused = SPEAK + """say(b'{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no"}}\\n')\nwhile True: pass"""
    with create_sandbox(backend="native", policy=POLICY) as sandbox:
        result = sandbox.execute(refused)
        assert (result.outcome, result.session_state) == ("killed", "reset")
        assert sandbox.execute("1 + 1").value == "2"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("wall", WALLS)
def test_thousands_of_frames_from_behind_each_wall(wall: str):
    spoken = 0
    while spoken < 5_000:
        spoken += attack(wall, steps=20, examples=3, count=300)
