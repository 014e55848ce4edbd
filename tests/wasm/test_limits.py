"""Fuel, time and memory; what ends a session, and what becomes of its neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.wasm.sessions import value, wasm

import cloche
from cloche.conformance.waiting import Background, start_cell, wait_until
from cloche.session.processes import process_start

STUCK = "import select; select.select([], [], [], 1000)"
"""A wait in the system itself, where no instruction of the guest is left to be stopped at."""


def test_the_budget_is_for_each_cell():
    with wasm(fuel_budget=50_000_000) as sandbox:
        for _ in range(5):
            assert sandbox.execute("for _ in range(10_000): pass").outcome == "ok"


def test_the_same_cell_costs_the_same_in_every_session():
    used = set()
    for _ in range(5):
        with wasm() as sandbox:
            used.add(sandbox.execute("sum(i * i for i in range(1000))").fuel_consumed)
    assert len(used) == 1


def test_the_kernels_own_work_is_not_the_users():
    with wasm() as sandbox:
        assert (sandbox.execute("None").fuel_consumed or 0) < 50_000


WORLD = "import sys\nworld = sys.modules['wit_world']\n"
"""The functions of the host can be found in the guest: whoever calls them pays for it."""
STEPS = "n = 0\nwhile True:\n    n += 1\n    if n % 1000 == 0: print(n, flush=True)"
CHEATS = {
    "a mark that ends the user's part": "world.mark()\n" + STEPS,
    "marks without end": "world.mark(); world.mark(); world.mark()\n" + STEPS,
    "a mark, and none of the kernel's": "world.mark()\nworld.session._link.host = None\n" + STEPS,
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_marks_of_a_cells_own_buy_no_fuel_and_hide_none(cheat: str):
    with wasm(fuel_budget=100_000_000, stdout_max_bytes=50_000_000) as sandbox:
        honest = sandbox.execute(STEPS)
        assert (honest.outcome, honest.fuel_consumed) == ("out_of_fuel", 100_000_000)
        each = 100_000_000 / int(honest.stdout.split()[-1])
        result = sandbox.execute(WORLD + CHEATS[cheat])
        assert result.outcome == "out_of_fuel"
        used = each * int(result.stdout.split()[-1])
        assert used < 220_000_000, "the kernel's allowance for one cell is all there is beside the budget"
        assert (result.fuel_consumed or 0) > 0.9 * used


def test_a_kernel_that_a_cell_has_replaced_has_no_fuel_of_its_own():
    with wasm(fuel_budget=100_000_000) as sandbox:
        sandbox.execute(WORLD + "world.session.serve = lambda frame: [None for _ in iter(int, 1)]").check()
        result = sandbox.execute("1")
        assert result.outcome == "out_of_fuel"
        assert (result.fuel_consumed or 0) > 190_000_000


def test_marks_cost_what_they_cost_the_host():
    with wasm() as sandbox:
        few = sandbox.execute(WORLD + "for _ in range(10): world.mark()").fuel_consumed or 0
        many = sandbox.execute(WORLD + "for _ in range(1000): world.mark()").fuel_consumed or 0
        assert many - few > 990 * 50_000


GREEDY = {
    "an attachment without end": "while True: world.attach('\xff' * 1_000_000)",
    "one large attachment": "world.attach('\xff' * 10_000_000)",
    "a wide attachment": "world.attach('x' * 5_000_000 + chr(0x1F600))",
    "a wide frame": "world.tell('x' * 5_000_000 + chr(0x1F600))",
    "a frame that is too large": "world.ask('x' * 12_000_000)",
    "a reply that is too large": "world.session.serve = lambda frame: 'x' * 20_000_000",
}


@pytest.mark.parametrize("greed", GREEDY)
def test_what_a_guest_hands_to_the_host_is_bounded_by_the_guests_memory(greed: str):
    limit = 64 * 2**20
    with wasm(memory_bytes=limit, grace_ms=300) as sandbox:
        sandbox.execute("1").check()
        pid = sandbox.guest_pid
        assert pid is not None
        before = peak_bytes(pid)
        sandbox.execute(WORLD + GREEDY[greed], timeout_ms=5000)
        sandbox.execute("1")
        assert peak_bytes(pid) - before < 3 * limit


def peak_bytes(pid: int) -> int:
    """The most that a process had in memory; none where it has ended."""
    try:
        text = Path("/proc", str(pid), "status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM")), 0)


def test_fuel_is_counted_without_a_budget():
    with wasm() as sandbox:
        small = sandbox.execute("for _ in range(1000): pass").fuel_consumed or 0
        large = sandbox.execute("for _ in range(100_000): pass").fuel_consumed or 0
        assert large > 50 * small > 0


def test_time_out_of_pure_computation_keeps_the_variables():
    with wasm() as sandbox:
        sandbox.execute("x = 1")
        result = sandbox.execute("while True: pass", timeout_ms=100)
        assert (result.outcome, result.session_state) == ("timeout", "kept")
        assert value(sandbox, "x") == "1"


def test_a_computation_that_listens_to_nobody_is_ended_and_says_so():
    """One call that runs for hours and never looks whether a signal has come."""
    with wasm(grace_ms=200) as sandbox:
        result = sandbox.execute("import itertools; sum(itertools.repeat(0))", timeout_ms=200)
        assert (result.outcome, result.session_state) == ("timeout", "reset")
        assert value(sandbox, "1 + 1") == "2"


def test_a_process_stuck_in_a_wait_of_the_system_is_killed():
    with wasm(grace_ms=100) as sandbox:
        sandbox.execute("1").check()
        pid = sandbox.guest_pid
        assert pid is not None
        result = sandbox.execute(STUCK, timeout_ms=300)
        assert (result.outcome, result.session_state) == ("timeout", "reset")
        wait_until(lambda: process_start(pid) is None)
        assert value(sandbox, "1 + 1") == "2"


def test_other_sessions_do_not_notice_one_that_had_to_be_killed():
    with wasm(grace_ms=100) as stuck, wasm() as idle, wasm() as busy:
        idle.execute("x = 1").check()
        busy.execute("1").check()
        running = start_cell(busy, "print('on', flush=True)\nimport time; time.sleep(1000)", timeout_ms=60_000)
        assert stuck.execute(STUCK, timeout_ms=300).session_state == "reset"
        busy.cancel()
        ended = running.result()
        assert (ended.outcome, ended.session_state) == ("cancelled", "kept")
        assert value(idle, "x") == "1"


def test_a_hard_exit_keeps_its_status():
    with wasm() as sandbox:
        result = sandbox.execute("import os; os._exit(7)")
        assert (result.outcome, result.exit_code, result.session_state) == ("exited", 7, "reset")


def test_one_session_that_ends_does_not_end_another():
    with wasm() as one, wasm() as other:
        other.execute("x = 1").check()
        one.execute("import os; os._exit(1)")
        assert value(other, "x") == "1"
        assert one.execute("1").success


def test_the_memory_limit_is_hard_and_the_session_goes_on():
    with wasm(memory_bytes=100_000_000) as sandbox:
        for _ in range(3):
            assert sandbox.execute("blocks = [bytearray(10_000_000) for _ in range(100)]").outcome == "memory"
        assert value(sandbox, "1 + 1") == "2"


def test_a_context_that_no_guest_of_32_bits_can_hold_is_refused_with_the_figures():
    with wasm(memory_bytes=64 * 2**20) as sandbox:
        sandbox.initialize("small")
        with pytest.raises(cloche.ValueTransferError, match=r"50000000 .* 67108864") as caught:
            sandbox.initialize("x" * 50_000_000)
        assert "memory_bytes" in str(caught.value.remedy)
        assert value(sandbox, "context") == "'small'"


def test_a_large_context_that_fits_arrives():
    text = "0123456789" * 5_000_000
    with wasm() as sandbox:
        sandbox.initialize(text)
        assert value(sandbox, "len(context), context[-3:]") == f"({len(text)}, '789')"


def test_no_file_can_be_larger_than_the_quota():
    with wasm(workspace_bytes=1_000_000) as sandbox:
        result = sandbox.execute("f = open('big', 'wb', buffering=0)\nwhile True: f.write(b'x' * 65536)")
        assert result.outcome == "error"
        assert sum(path.size for path in sandbox.list_files()) <= 1_000_000


def test_the_next_session_has_the_process_of_one_that_ended_and_nothing_of_it():
    with wasm() as kept:
        kept.execute("1").check()
        pids = set()
        for _ in range(3):
            with wasm() as sandbox:
                assert sandbox.execute("x").outcome == "error"
                assert value(sandbox, "import os; x = 1; f = open('a', 'w'); len(os.listdir('/app'))") == "1"
                pids.add(sandbox.guest_pid)
        assert len(pids) == 1
        assert kept.guest_pid not in pids


def test_a_process_that_held_much_is_not_used_again():
    with wasm() as sandbox:
        sandbox.execute("x = bytearray(200_000_000)").check()
        large = sandbox.guest_pid
    with wasm() as sandbox:
        sandbox.execute("1").check()
        assert sandbox.guest_pid != large


def test_many_sessions_at_once_have_a_process_each():
    sandboxes = [wasm() for _ in range(20)]
    try:
        calls = [Background(lambda s=s, n=n: s.execute(f"{n} * 2")) for n, s in enumerate(sandboxes)]  # type: ignore[misc]  # defaults of a lambda have no types
        assert [call.result().value for call in calls] == [str(n * 2) for n in range(20)]
        assert len({sandbox.guest_pid for sandbox in sandboxes}) == 20
    finally:
        for sandbox in sandboxes:
            sandbox.destroy()
