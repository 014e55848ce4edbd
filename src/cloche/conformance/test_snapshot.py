"""Saving the variables and putting them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cloche.errors import SnapshotError
from cloche.snapshot import Snapshot

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox


def reasons(snapshot: Snapshot) -> dict[str, str]:
    """Why each skipped variable was skipped."""
    return {item.name: item.reason for item in snapshot.skipped}


def test_variables_come_back_in_another_sandbox(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute("x = {'a': [1, (2,)]}; y = 'text'")
    assert other.restore(one.snapshot()) == ()
    assert other.execute("(x, y)").value == "({'a': [1, (2,)]}, 'text')"


def test_a_snapshot_goes_through_bytes(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute("x = 1")
    other.restore(one.snapshot().to_bytes())
    assert other.get_variable("x") == 1


def test_a_snapshot_names_what_it_holds(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = 1; y = 2")
    assert sandbox.snapshot().variables == ("x", "y")


def test_a_snapshot_of_nothing_is_empty(sandbox: SessionSandbox) -> None:
    snapshot = sandbox.snapshot()
    assert (snapshot.variables, snapshot.skipped) == ((), ())
    assert sandbox.restore(snapshot) == ()


def test_restore_goes_back_to_the_saved_values(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = [1]")
    snapshot = sandbox.snapshot()
    sandbox.execute("x.append(2)")
    sandbox.restore(snapshot)
    assert sandbox.get_variable("x") == [1]


def test_what_cannot_be_saved_is_named_with_its_reason(sandbox: SessionSandbox) -> None:
    """Known defect 2.4.7: variables that could not be pickled were dropped silently."""
    sandbox.execute("x = 1; generator = (i for i in ()); import types; made = types.ModuleType('made')")
    snapshot = sandbox.snapshot()
    assert set(snapshot.variables) == {"x", "types"}
    assert "pickle" in reasons(snapshot)["generator"]
    assert "cannot be imported" in reasons(snapshot)["made"]


def test_a_module_is_imported_again(sandbox: SessionSandbox) -> None:
    sandbox.execute("import math, os.path as where")
    snapshot = sandbox.snapshot()
    sandbox.reset()
    assert sandbox.restore(snapshot) == ()
    assert sandbox.execute("math.floor(2.5), where.basename('/a/b')").check().value == "(2, 'b')"


@pytest.mark.parametrize(
    "body",
    [
        "def __reduce__(self): raise ValueError('no')",
        "def __reduce__(self): raise SystemExit(1)",
        "def __reduce__(self): raise GeneratorExit",
        "def __reduce__(self): return 5",
        "def __reduce__(self): return self.__reduce__()",
        "__class__ = property(lambda self: 1 / 0)",
    ],
)
def test_an_object_that_refuses_to_be_saved_costs_only_itself(sandbox: SessionSandbox, body: str) -> None:
    sandbox.execute(f"class Bad:\n    {body}\nbad = Bad(); x = 1")
    snapshot = sandbox.snapshot()
    assert "bad" in reasons(snapshot)
    assert "x" in snapshot.variables


def test_an_object_that_refuses_to_be_restored_costs_only_itself(sandbox: SessionSandbox) -> None:
    sandbox.execute("class Bad:\n    def __reduce__(self): return (eval, ('1 / 0',))\nbad = Bad(); x = 1")
    snapshot = sandbox.snapshot()
    failed = sandbox.restore(snapshot)
    assert [item.name for item in failed if item.name != "Bad"] == ["bad"]
    assert sandbox.get_variable("x") == 1


def test_functions_come_back_and_see_the_live_variables(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute("rate = 2\ndef scale(n, plus=1): return n * rate + plus")
    other.restore(one.snapshot())
    other.execute("rate = 10")
    assert other.execute("scale(3)").value == "31"


def test_our_names_are_not_in_a_snapshot(sandbox: SessionSandbox) -> None:
    sandbox.initialize("context")
    sandbox.execute("x = 1")
    snapshot = sandbox.snapshot()
    assert (snapshot.variables, snapshot.skipped) == (("x",), ())


def test_restore_leaves_other_variables_alone(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = 1")
    snapshot = sandbox.snapshot()
    sandbox.execute("x = 2; other = 3")
    sandbox.restore(snapshot)
    assert sandbox.execute("(x, other)").value == "(1, 3)"


@pytest.mark.parametrize("data", [b"", b"garbage", b"CLSN", b"\x80\x04N.", b"CLSN\x01\xff\xff\xff\xff"])
def test_bytes_that_are_no_snapshot_are_refused(sandbox: SessionSandbox, data: bytes) -> None:
    with pytest.raises(SnapshotError):
        sandbox.restore(data)
    assert sandbox.execute("1").success


@pytest.mark.parametrize("payload", [b"", b"garbage", b"cloche-state-1\n", b"cloche-state-1\ngarbage"])
def test_a_damaged_snapshot_is_refused(sandbox: SessionSandbox, payload: bytes) -> None:
    sandbox.execute("x = 1")
    with pytest.raises(SnapshotError):
        sandbox.restore(Snapshot(("x",), (), payload))
    assert sandbox.get_variable("x") == 1


def test_what_a_snapshot_runs_when_it_is_read_runs_inside_the_wall(sandbox: SessionSandbox) -> None:
    sandbox.execute(
        "class Spy:\n    def __reduce__(self): return (eval, ('__import__(\"os\").getpid()',))\nspy = Spy()"
    )
    snapshot = Snapshot.from_bytes(sandbox.snapshot().to_bytes())
    sandbox.restore(snapshot)
    assert sandbox.execute("import os; spy == os.getpid()").value == "True"


def test_a_variable_over_the_limit_is_skipped(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(snapshot_max_bytes=100_000)
    sandbox.execute("big = bytes(200_000); small = 1")
    snapshot = sandbox.snapshot()
    assert snapshot.variables == ("small",)
    assert "bytes" in reasons(snapshot)["big"]


def test_a_large_snapshot_comes_back(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute("x = bytes(range(256)) * 80_000")
    other.restore(one.snapshot())
    assert other.execute("x == bytes(range(256)) * 80_000").value == "True"


def test_a_snapshot_outlives_its_session(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = 1")
    snapshot = sandbox.snapshot()
    sandbox.execute("import os; os._exit(1)")
    sandbox.restore(snapshot)
    assert sandbox.get_variable("x") == 1
