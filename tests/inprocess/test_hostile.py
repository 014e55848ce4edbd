"""Cells that mean harm, behind guard-rails: most are not run at all, and the rest does what it can to a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests import hostile_corpus
from tests.hostile_corpus import read_cell

from cloche import ExecutionPolicy, SessionSandbox, create_sandbox
from cloche.backends.inprocess.guards import violations_in
from cloche.errors import ClocheError, SessionLostError
from cloche.result import SandboxResult
from cloche_guest.guarded.members import MODULES
from cloche_guest.guarded.refusals import GuardrailError
from cloche_guest.guarded.restricted import Restriction

CELLS = {name: read_cell(name) for name in hostile_corpus.CELLS}
POLICY = ExecutionPolicy(timeout_ms=200, grace_ms=300, memory_bytes=512 * 2**20)
RESTRICTION = Restriction(MODULES)


def is_let_through(code: str, guard: str) -> bool:
    if guard == "ast":
        return not violations_in(code)
    try:
        RESTRICTION.compile(code, "<cell>")
    except GuardrailError:
        return False
    return True


LET_THROUGH = [(guard, name) for guard in ("ast", "restricted") for name in CELLS if is_let_through(CELLS[name], guard)]
TRIED = [(guard, name) for guard, name in LET_THROUGH if guard == "ast" or ("ast", name) not in LET_THROUGH]
"""The worker is the same for both guards: what it survives behind one it need not be shown again behind the other."""


@pytest.fixture(scope="module", params=["ast", "restricted"])
def guarded(request: pytest.FixtureRequest) -> Iterator[tuple[str, SessionSandbox]]:
    with create_sandbox(backend="inprocess", guard=request.param, policy=POLICY) as sandbox:
        yield request.param, sandbox


def test_what_the_guard_refuses_is_not_run(guarded: tuple[str, SessionSandbox]):
    guard, sandbox = guarded
    refused = [name for name in CELLS if (guard, name) not in LET_THROUGH]
    assert len(refused) > len(CELLS) / 2
    for name in refused:
        result = sandbox.execute(CELLS[name], timeout_ms=10_000)
        assert (result.outcome, result.session_state) == ("error", "kept"), name
        assert result.exception is not None
        assert result.exception.type == "GuardrailError", name
    assert sandbox.execute("1 + 1", timeout_ms=10_000).value == "2"


@pytest.mark.parametrize(
    ("guard", "name"), [*TRIED, ("restricted", "hang_swallow_nested"), ("restricted", "flood_value")]
)
def test_every_call_returns_and_the_session_recovers(guard: str, name: str):
    with create_sandbox(backend="inprocess", guard=guard, policy=POLICY) as sandbox:
        assert isinstance(sandbox.execute(CELLS[name]), SandboxResult)
        for ask in (sandbox.list_variables, sandbox.snapshot, lambda: sandbox.get_variable("x")):
            try:
                ask()
            except ClocheError:
                pass
        sandbox.reset()
        assert sandbox.execute("1 + 1", timeout_ms=10_000).value == "2"


@pytest.mark.parametrize("guard", ["ast", "restricted"])
def test_a_time_out_cannot_be_swallowed(guard: str):
    code = "kept = 1\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"
    with create_sandbox(backend="inprocess", guard=guard, policy=POLICY) as sandbox:
        assert sandbox.execute(code).outcome == "timeout"
        try:
            assert sandbox.execute("1 + 1", timeout_ms=10_000).value == "2"
        except SessionLostError:
            pytest.fail("the session was lost between two calls")
