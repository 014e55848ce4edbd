"""Saving the variables and putting them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cloche.errors import SnapshotError
from cloche.snapshot import Snapshot, SnapshotEntry, SnapshotPiece

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


@pytest.mark.parametrize("stream", [b"", b"garbage", b"\x80\x05N.", b"\x80\x05]."])
def test_a_damaged_variable_costs_only_itself(sandbox: SessionSandbox, stream: bytes) -> None:
    sandbox.execute("x = 1; y = 2")
    whole = sandbox.snapshot()
    damaged = SnapshotEntry(("x",), ("int",), (SnapshotPiece(stream),))
    sandbox.execute("x = 3; y = 4")
    failed = sandbox.restore(Snapshot((damaged, *whole.entries[1:])))
    assert [item.name for item in failed] == ["x"]
    assert sandbox.execute("(x, y)").value == "(3, 2)"


def test_one_changed_bit_is_noticed_before_anything_is_read(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = 'the quick brown fox'")
    data = bytearray(sandbox.snapshot().to_bytes())
    data[data.index(b"quick")] ^= 1
    with pytest.raises(SnapshotError, match="damaged"):
        sandbox.restore(bytes(data))
    assert sandbox.get_variable("x") == "the quick brown fox"


def test_variables_that_share_an_object_still_share_it(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute("shared = [1]; a = {'s': shared}; b = (shared, 'x'); alone = [1]")
    other.restore(one.snapshot())
    other.execute("shared.append(2)")
    assert other.execute("(a['s'], b[0] is shared, alone)").value == "([1, 2], True, [1])"


def test_a_cycle_through_several_variables_comes_back(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute("a = []; b = {'a': a}; a.append(b); a.append(a)")
    other.restore(one.snapshot())
    assert other.execute("a[0] is b and b['a'] is a and a[1] is a").value == "True"


def test_what_is_shared_with_something_that_cannot_be_saved_is_saved(sandbox: SessionSandbox) -> None:
    sandbox.execute("shared = [1]; bad = [shared, (i for i in ())]; good = [shared]")
    snapshot = sandbox.snapshot()
    assert set(snapshot.variables) == {"shared", "good"}
    assert list(reasons(snapshot)) == ["bad"]


def test_closures_come_back_and_share_what_they_closed_over(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute(
        "def make():\n    n = 0\n    def step():\n        nonlocal n\n        n += by\n        return n\n"
        "    def look(): return n\n    def again(k): return k and again(k - 1)\n    return step, look, again\n"
        "by = 1; step, look, again = make(); step()"
    )
    assert other.restore(one.snapshot()) == ()
    other.execute("by = 10; step()")
    assert other.execute("look(), again(3)").value == "(11, 0)"


def test_a_function_that_is_reached_in_two_ways_is_one(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute("def f(): return f.calls\nf.calls = 3; table = {'f': f}")
    other.restore(one.snapshot())
    assert other.execute("table['f'] is f, f()").value == "(True, 3)"


def test_a_save_after_another_sends_only_what_changed(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute("big = bytes(range(256)) * 40_000; small = 1")
    first = one.snapshot()
    one.execute("small = 2")
    second = one.snapshot(first)
    assert first.sent_bytes > 10_000_000
    assert second.sent_bytes < 10_000
    other.restore(second.to_bytes())
    assert other.execute("big == bytes(range(256)) * 40_000, small").value == "(True, 2)"


def test_a_save_on_the_base_of_a_save_that_was_kept_elsewhere(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute("big = bytes(range(256)) * 4_000")
    kept = Snapshot.from_bytes(one.snapshot().to_bytes())
    other.restore(kept)
    other.execute("more = 1")
    second = other.snapshot(kept)
    assert second.sent_bytes < 10_000
    assert set(second.variables) == {"big", "more"}


def test_a_snapshot_that_is_too_large_for_the_sandbox_is_refused_with_a_figure(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox(snapshot_max_bytes=100_000)
    one.execute("x = bytes(200_000)")
    with pytest.raises(SnapshotError, match="100000"):
        other.restore(one.snapshot())
    assert other.execute("1").success


def test_variables_go_through_one_text(open_sandbox: OpenSandbox) -> None:
    one, other = open_sandbox(), open_sandbox()
    one.execute("x = {'a': [1, (2,)]}; again = x; generator = (i for i in ())\ndef f(): return x['a'][0]")
    saved = one.save_text()
    assert saved.text is not None
    other.load_text(saved.text)
    other.execute("x['a'][0] = 7")
    assert other.execute("again is x, f(), 'generator' in globals()").value == "(True, 7, False)"


@pytest.mark.parametrize("text", ["", "garbage", "AAAA", "é", "BCJNGGBwc3w="])
def test_a_text_that_is_no_state_is_refused_and_changes_nothing(sandbox: SessionSandbox, text: str) -> None:
    sandbox.execute("x = 1")
    with pytest.raises(SnapshotError):
        sandbox.load_text(text)
    assert sandbox.get_variable("x") == 1


def test_a_snapshot_says_what_it_holds_without_being_read(sandbox: SessionSandbox) -> None:
    sandbox.execute("numbers = list(range(1000)); text = 'a'")
    snapshot = Snapshot.from_bytes(sandbox.snapshot().to_bytes())
    assert [(entry.names, entry.types) for entry in snapshot.entries] == [
        (("numbers",), ("list",)),
        (("text",), ("str",)),
    ]
    assert snapshot.entries[0].size > snapshot.entries[1].size > 0
    assert snapshot.python.startswith("3.")


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
