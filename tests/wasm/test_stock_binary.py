"""`wasm_binary_path` may name a stock ``python.wasm``: the same kernel, fed through its standard input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.wasm.sessions import value
from tests.wasm.stock import stock_binary

from cloche import ExecutionPolicy, PythonSandbox
from cloche.backends.wasm import building

pytestmark = pytest.mark.timeout(240)  # the first of them compiles it
BOOT_MS = 60_000


def stock(**fields: Any) -> PythonSandbox:
    policy = ExecutionPolicy(**{"timeout_ms": BOOT_MS, **fields})
    return PythonSandbox(policy, wasm_binary_path=stock_binary(), on_llm_query=lambda prompt: prompt.upper())


@pytest.fixture(scope="module")
def shared() -> Iterator[PythonSandbox]:
    building.ensure(stock_binary(), building.silent())
    with stock() as sandbox:
        sandbox.execute("1").check()
        yield sandbox


def test_it_is_another_python(shared: PythonSandbox):
    assert value(shared, "import sys; sys.version_info[:2]") == "(3, 12)"


def test_variables_output_and_errors_are_as_everywhere(shared: PythonSandbox):
    shared.execute("x = 41").check()
    result = shared.execute("import sys; print('out', x + 1); print('err', file=sys.stderr)")
    assert (result.stdout, result.stderr) == ("out 42\n", "err\n")
    failed = shared.execute("\nraise ValueError('test')")
    assert failed.exception is not None
    assert (failed.exception.type, failed.exception.line) == ("ValueError", 2)


def test_host_functions_can_be_called(shared: PythonSandbox):
    assert value(shared, "llm_query('hi')") == "'HI'"


def test_a_context_and_a_snapshot_cross_the_wall(shared: PythonSandbox):
    shared.initialize("text " * 100_000)
    assert value(shared, "len(context)") == "500000"
    shared.execute("kept = list(range(50_000))").check()
    snapshot = shared.snapshot()
    shared.execute("kept = None").check()
    shared.restore(snapshot)
    assert value(shared, "len(kept)") == "50000"


def test_only_app_exists(shared: PythonSandbox):
    assert shared.execute("open('/app/made', 'w').close()").files_created == ("made",)
    for path in ("/etc/passwd", "/app/../etc/passwd"):
        assert shared.execute(f"open({path!r})").exception is not None
    assert shared.execute("open('/cloche/planted', 'w')").exception is not None


def test_fuel_is_counted_and_bounded(shared: PythonSandbox):
    small = shared.execute("for _ in range(1000): pass").fuel_consumed or 0
    assert (shared.execute("for _ in range(100_000): pass").fuel_consumed or 0) > 20 * small > 0
    with stock(fuel_budget=50_000_000) as sandbox:
        assert sandbox.execute("1 + 1").value == "2"
        result = sandbox.execute("while True: pass")
        assert (result.outcome, result.session_state) == ("out_of_fuel", "reset")


def test_a_cell_that_gives_way_by_itself_gets_no_fuel_for_it():
    """What the kernel says with `sched_yield` the user's code can say too; a reply of the host's is no new cell."""
    policy = ExecutionPolicy(timeout_ms=BOOT_MS, fuel_budget=50_000_000)
    with PythonSandbox(policy, wasm_binary_path=stock_binary(), on_llm_query=lambda prompt: prompt) as sandbox:
        sandbox.execute("1").check()
        result = sandbox.execute("import os\nos.sched_yield()\nllm_query('x')\nos.sched_yield()\nwhile True: pass")
        assert (result.outcome, result.session_state) == ("out_of_fuel", "reset")
        assert (result.fuel_consumed or 0) > 1_000_000_000, "what was left of the kernel's allowance is told"


def test_it_cannot_be_interrupted_only_ended(shared: PythonSandbox):
    with stock(grace_ms=100) as sandbox:
        sandbox.execute("x = 1").check()
        result = sandbox.execute("while True: pass", timeout_ms=300)
        assert (result.outcome, result.session_state) == ("timeout", "reset")
        assert sandbox.execute("1 + 1").value == "2"
