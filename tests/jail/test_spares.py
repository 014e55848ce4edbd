"""Sessions made ahead: who gets them, how many there are, and when they go."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from tests.jail.sessions import Environment, jail, value

import cloche
from cloche.backends.interpreter import examine
from cloche.backends.jail import spares as keeping
from cloche.backends.jail.houses import House, houses
from cloche.backends.jail.spares import MOST, Demand
from cloche.conformance.waiting import wait_until
from cloche.session.processes import process_start

BARE: tuple[str, ...] = ("json",)
"""A set that is imported in no time."""


@pytest.fixture
def house() -> House:
    return houses.warm(examine(None, "jail"), BARE)


def ready(house: House) -> list[int]:
    """Processes of the spares that are there."""
    assert house.serving is not None
    assert house.serving.stock is not None
    kinds = list(house.serving.stock._kinds.values())
    return [pid for kind in kinds for _, channel in list(kind._ready) if (pid := channel.pid) is not None]


def session(**options: object) -> cloche.SessionSandbox:
    return jail(preload=BARE, **options)


def use_one(**options: object) -> int | None:
    with session(**options) as sandbox:
        sandbox.execute("1").check()
        return sandbox.guest_pid


def test_a_session_is_one_that_was_made_ahead(house: House) -> None:
    use_one()
    wait_until(lambda: ready(house))
    spares = ready(house)
    assert use_one() in spares


def test_no_spare_serves_twice(house: House) -> None:
    used = [use_one() for _ in range(12)]
    assert len(set(used)) == 12


def test_policies_that_differ_in_what_a_session_is_told_share_their_spares(house: House) -> None:
    use_one()
    wait_until(lambda: ready(house))
    spares = ready(house)
    options = {"environment": {"COLOUR": "red"}, "open_files": 100, "memory_bytes": 1 << 30, "timeout_ms": 20_000}
    with session(**options) as sandbox:
        told = value(
            sandbox, "import os, resource\nos.environ['COLOUR'], resource.getrlimit(resource.RLIMIT_NOFILE)[0]"
        )
        assert told == "('red', 100)"
        assert sandbox.guest_pid in spares


def test_a_session_with_another_quota_does_not_get_a_spare_with_the_usual_one(house: House) -> None:
    use_one()
    wait_until(lambda: ready(house))
    with session(workspace_bytes=100_000) as sandbox:
        assert sandbox.execute("open('f', 'wb').write(bytes(200_000))").outcome == "error"


@pytest.mark.parametrize("victim", ["worker", "PID 1"])
def test_a_spare_that_died_is_not_handed_out(house: House, victim: str) -> None:
    use_one()
    wait_until(lambda: ready(house))
    assert house.serving is not None
    assert house.serving.stock is not None
    dead = []
    for kind in house.serving.stock._kinds.values():
        for seat, channel in list(kind._ready):
            handle = channel.handle() if victim == "worker" else seat.answer().seat
            dead.append(channel.pid)
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    assert dead
    wait_until(lambda: all(pid is None or process_start(pid) is None for pid in dead))
    assert use_one() not in dead


def test_a_burst_of_three_times_the_spares_is_served(house: House) -> None:
    for _ in range(MOST):
        use_one()
    wait_until(lambda: len(ready(house)) >= MOST)
    served: list[int | None] = []

    def serve() -> None:
        with session() as sandbox:
            assert value(sandbox, "6 * 7") == "42"
            served.append(sandbox.guest_pid)

    callers = [threading.Thread(target=serve) for _ in range(3 * MOST)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(set(served)) == 3 * MOST


def test_spares_are_given_up_when_it_is_quiet(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "HALF_LIFE", 0.2)
    for _ in range(4):
        use_one()
    seen: set[int] = set()

    def gone() -> bool:
        now = ready(house)
        seen.update(now)
        return bool(seen) and not now

    wait_until(gone)
    wait_until(lambda: not any(process_start(pid) for pid in seen))
    assert use_one() not in seen


def test_there_are_never_more_than_all_kinds_together_may_have(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_OF_ALL", 2)
    for _ in range(3):
        use_one()
        use_one(workspace_bytes=1_000_000)
    wait_until(lambda: len(ready(house)) == 2)
    use_one(workspace_bytes=2_000_000)
    wait_until(lambda: len(ready(house)) == 2)
    assert keeping.Spares._all == 2


def test_the_kinds_that_are_kept_are_few(house: House) -> None:
    for size in range(keeping.KINDS + 2):
        use_one(workspace_bytes=1_000_000 + size)
    assert house.serving is not None
    assert house.serving.stock is not None
    assert len(house.serving.stock._kinds) == keeping.KINDS


def test_who_takes_over_has_its_spares_already(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    house = houses.warm(examine(environment.python, "jail"), BARE)
    use_one(python=environment.python)
    wait_until(lambda: ready(house))
    old = house.serving
    environment.install("new", "")
    house.warm(examine(environment.python, "jail"))
    assert house.serving is not old
    spares = ready(house)
    assert spares
    assert use_one(python=environment.python) in spares


def test_what_was_rehearsed_left_nothing(house: House) -> None:
    use_one()
    wait_until(lambda: ready(house))
    with session() as sandbox:
        first = sandbox.execute(
            "import sys\nsys.path.count('/app'), [type(f).__name__ for f in sys.meta_path].count('SiteOnDemand'), "
            "'_' in globals()"
        )
        assert first.value == "(1, 1, False)"
        assert (first.stdout, first.stderr) == ("", "")
        assert sandbox.list_variables() == {"sys": "module"}
        assert value(sandbox, "import os\nsorted(map(int, os.listdir('/proc/self/fd')))[:3]") == "[0, 1, 2]"


def test_a_forked_child_leaves_its_parents_spares_alone(house: House) -> None:
    use_one()
    wait_until(lambda: ready(house))
    spares = ready(house)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if use_one() not in spares else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert use_one() in spares


# -- how many ----------------------------------------------------------------------------------


def test_as_many_are_wanted_as_come_at_a_time() -> None:
    demand = Demand()
    assert demand.wanted(0.0) == 0
    for n in range(5):
        demand.note(100 + n / 10)
    assert demand.wanted(100.5) == 5


def test_no_demand_is_met_without_bound() -> None:
    demand = Demand()
    for n in range(1000):
        demand.note(100 + n / 1000)
    assert demand.wanted(101) == MOST


def test_one_now_and_then_keeps_one_ready() -> None:
    demand = Demand()
    for n in range(20):
        demand.note(100.0 + 10 * n)
    assert demand.wanted(291) == 1


def test_demand_fades_and_ends() -> None:
    demand = Demand()
    for n in range(8):
        demand.note(100 + n / 10)
    wanted = [demand.wanted(100 + seconds) for seconds in (1, 16, 31, 61, 300)]
    assert wanted == sorted(wanted, reverse=True)
    assert (wanted[0], wanted[3], wanted[4]) == (8, 1, 0)
