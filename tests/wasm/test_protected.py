"""protect_state: a cell that ends its session costs what it did, and nothing else."""

from __future__ import annotations

import pytest
from tests.wasm.sessions import value, wasm

import cloche

PREPARE = """
import json, collections
class Point:
    def __init__(self, x): self.x = x
point, numbers = Point(3), {n: str(n) for n in range(2000)}
def double(x): return x * 2
generator = (n for n in range(5)); next(generator)
"""

ENDS = {
    "fuel": ("while True: pass", "out_of_fuel"),
    "exit": ("import os; os._exit(3)", "exited"),
    "kill": ("import itertools; sum(itertools.repeat(0))", "timeout"),
}


@pytest.mark.parametrize("way", ENDS)
def test_a_cell_that_ends_the_session_returns_to_the_state_before_it(way: str):
    code, outcome = ENDS[way]
    budget = 2_000_000_000 if way == "fuel" else None
    with wasm(protect_state=True, fuel_budget=budget, grace_ms=100) as sandbox:
        sandbox.execute(PREPARE).check()
        sandbox.execute("point.x += 1").check()
        result = sandbox.execute(f"point.x = 99\n{code}", timeout_ms=500 if way == "kill" else 20_000)
        assert (result.outcome, result.session_state) == (outcome, "restored")
        found = value(
            sandbox, "point.x, double(21), numbers[7], next(generator), json.dumps([1]), type(point).__name__"
        )
        assert found == "(4, 42, '7', 1, '[1]', 'Point')"


def test_it_works_again_and_again():
    with wasm(protect_state=True) as sandbox:
        sandbox.execute("n = 0").check()
        for turn in range(1, 4):
            sandbox.execute("n += 1").check()
            assert sandbox.execute("n = 99; import os; os._exit(1)").session_state == "restored"
            assert value(sandbox, "n") == str(turn)


def test_a_session_that_has_grown_is_restored_whole():
    with wasm(protect_state=True) as sandbox:
        sandbox.execute("block = bytearray(range(256)) * 100_000; import hashlib").check()
        before = value(sandbox, "hashlib.sha256(block).hexdigest()")
        sandbox.execute("del block; import os; os._exit(1)")
        assert value(sandbox, "hashlib.sha256(block).hexdigest()") == before


def test_files_and_output_work_after_a_return():
    with wasm(protect_state=True) as sandbox:
        sandbox.execute("f = open('a', 'w'); f.write('kept'); f.close()").check()
        sandbox.execute("import os; os._exit(1)")
        result = sandbox.execute("import sys; print(open('/app/a').read()); print('err', file=sys.stderr)")
        assert (result.stdout, result.stderr) == ("kept\n", "err\n")


def test_a_session_with_open_files_is_not_protected_and_says_reset():
    """A file that is open belongs to the instance that has ended."""
    with wasm(protect_state=True) as sandbox:
        sandbox.execute("f = open('a', 'w')").check()
        assert sandbox.execute("import os; os._exit(1)").session_state == "reset"
        assert value(sandbox, "1 + 1") == "2"


def test_the_context_and_bridges_are_there_after_a_return():
    with wasm(protect_state=True, on_llm_query=lambda prompt: prompt.upper()) as sandbox:
        sandbox.initialize("the context")
        sandbox.execute("x = 1").check()
        sandbox.execute("import os; os._exit(1)")
        assert value(sandbox, "x, context, llm_query('hi')") == "(1, 'the context', 'HI')"


def test_a_variable_that_was_set_from_outside_is_protected_too():
    with wasm(protect_state=True) as sandbox:
        sandbox.execute("x = 1").check()
        sandbox.set_variable("x", 2)
        sandbox.execute("import os; os._exit(1)")
        assert value(sandbox, "x") == "2"


def test_a_protected_session_can_still_be_interrupted_after_a_return():
    with wasm(protect_state=True) as sandbox:
        sandbox.execute("x = 1; import os").check()
        sandbox.execute("os._exit(1)")
        assert sandbox.execute("while True: pass", timeout_ms=100).session_state == "kept"
        assert value(sandbox, "x") == "1"


def test_when_the_worker_had_to_be_killed_the_copy_is_gone_too():
    with wasm(protect_state=True, grace_ms=100) as sandbox:
        sandbox.execute("x = 1").check()
        result = sandbox.execute("import select; select.select([], [], [], 1000)", timeout_ms=300)
        assert result.session_state == "reset"
        assert isinstance(sandbox.execute("1 + 1"), cloche.SandboxResult)
