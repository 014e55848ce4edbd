"""The conformance suite on this wall: the scenarios of its specification, and what it cannot do.

A start takes half a second of a processor, so the whole suite (`pytest tests/conformance --backend=pyodide`) is not
part of every run.
"""

from __future__ import annotations

import pytest
from tests.test_seeds import REPL_SANDBOX

from cloche import SessionSandbox
from cloche.conformance import load_behaviours
from cloche.conformance.fixtures import cloche_api, open_sandbox, portal, run_on, sandbox
from cloche.conformance.limits import cannot
from cloche.conformance.test_context_tools import CONTEXT, GOLDEN
from cloche.errors import CodeError, IsolationError, UnsupportedError
from cloche.factory import find_backend

__all__ = ["cloche_api", "open_sandbox", "portal", "sandbox"]

SCENARIOS = {entry.partition("::")[2] for entries in REPL_SANDBOX.values() for entry in entries}
BESIDES = {
    "test_what_the_backend_cannot_do_is_refused_with_a_typed_error",
    "test_cancel_does_not_reach_the_next_cell",
    "test_cancel_stops_a_cell_that_waits_for_the_host",
    "test_files_written_by_a_cell_that_died_are_reported",
    "test_a_link_out_of_the_workspace_is_not_followed",
    "test_a_cell_cannot_write_a_file_over_the_quota",
    "test_variables_come_back_in_another_sandbox",
    "test_a_flood_of_output_is_bounded",
    "test_the_network_is_off_when_the_policy_says_so",
    "test_running_out_of_memory_is_its_own_outcome",
}

unknown = (SCENARIOS | BESIDES) - load_behaviours().keys()
assert not unknown, unknown  # else they would be left out unsaid

IN_ONE_SESSION = "test_every_function_gives_the_answer_of_the_table"
"""Has a case for each function; below, all of them in one session."""

globals().update(
    {name: test for name, test in load_behaviours().items() if name in (SCENARIOS | BESIDES) - {IN_ONE_SESSION}}
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on(metafunc, ("pyodide",))


@pytest.fixture(autouse=True)
def set_up(pyodide: object) -> None:
    """The runtime is there, or the registry cannot be reached and all of this is skipped."""


def test_every_function_gives_the_answer_of_the_table_in_one_session(shared: SessionSandbox):
    shared.initialize(CONTEXT)
    for call, answer in GOLDEN.items():
        shared.execute(f"answer = {call}").check()
        assert shared.get_variable("answer") == answer, call


def test_the_list_of_what_it_cannot_do_is_known():
    assert cannot(find_backend("pyodide")) == {
        "fork": UnsupportedError,
        "fork_many": UnsupportedError,
        "savepoint": UnsupportedError,
        "undo": UnsupportedError,
        "fuel_budget": UnsupportedError,
        "network=True": UnsupportedError,
        "mounts": UnsupportedError,
        "protect_state": UnsupportedError,
        "threads": CodeError,
        "subprocess": CodeError,
        "site_packages": CodeError,
        "minimum_isolation": IsolationError,
    }
