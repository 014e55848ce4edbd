"""Checkpoints: everything comes back, elsewhere too, and nothing of what is no checkpoint."""

from __future__ import annotations

import json

import pytest

from cloche import REPLEnvironment, SnapshotError, UnsupportedError

VARIABLES = (
    "def f(n): return n + 1\n"
    "t = (1, (2,)); s = {1, 2}; z = frozenset([3]); d = {1: 'a', (1, 2): 3}; b = b'x'; c = 1j\n"
    "twice = lambda n: f(n) * 2\n"
    "class P:\n    def __init__(self): self.v = 7\n"
    "p = P(); hits = grep('line'); artifacts['kept'] = {1}\nimport math as m\n"
)
SHOW = "f(1), t, s, z, d, b, c, twice(1), p.v, list(hits), artifacts, m.floor(1.5)"


@pytest.fixture(scope="module")
def saved() -> bytes:
    with REPLEnvironment("line 1\nline 2", {"guard": "off"}, backend="native") as env:
        assert env.execute(VARIABLES).error is None
        env.execute("for n in range(3000): print('row', n)")
        env.execute("mark_finding('found', tags=['a'], source='context')")
        return env.checkpoint()


@pytest.mark.parametrize("wall", ["native", "jail", "inprocess"])
def test_variables_of_every_kind_come_back_behind_another_wall(saved, wall):
    with REPLEnvironment("line 1\nline 2", {"guard": "off"}, backend=wall) as env:
        env.execute("gone = 1")
        assert env.restore(saved) == ()
        assert env.execute(SHOW).output == (
            "(2, (1, (2,)), {1, 2}, frozenset({3}), {1: 'a', (1, 2): 3}, b'x', 1j, 4, 7, ['line 1', 'line 2'], "
            "{'kept': {1}}, 1)"
        )
        assert "gone" not in env.get_state()
        assert env.execute("peek('out:2', 5), list_findings()[0]['tags']").output == "('row 0', ['a'])"
        assert env.execute("print('x' * 9000)").spilled == "out:6"


def test_what_could_not_be_saved_is_named_when_the_rest_comes_back():
    with REPLEnvironment("text", {"guard": "off"}, backend="native") as env:
        env.execute("x = 1; running = (n for n in [1])")
        saved = env.checkpoint()
        assert [missing.name for missing in env.restore(saved)] == ["running"]
        assert env.execute("x").output == "1"


def test_a_wall_that_cannot_restore_says_so_and_loses_nothing(saved):
    with REPLEnvironment("line 1\nline 2", backend="inprocess", worker="inline") as env:
        env.execute("mine = 1; mark_finding('mine')")
        with pytest.raises(UnsupportedError):
            env.restore(saved)
        assert env.execute("mine, len(list_findings())").output == "(1, 1)"


def test_another_context_is_noticed_before_anything_is_changed(saved):
    with REPLEnvironment("other", backend="native") as env:
        env.execute("mine = 1")
        with pytest.raises(SnapshotError, match="another context"):
            env.restore(saved)
        assert env.execute("mine").output == "1"


def changed(saved: bytes, **fields: object) -> bytes:
    size = int.from_bytes(saved[5:13], "big")
    head = json.dumps({**json.loads(saved[13 : 13 + size]), **fields}).encode()
    return saved[:5] + len(head).to_bytes(8, "big") + head + saved[13 + size :]


@pytest.mark.parametrize(
    "fields",
    [
        {"turns": float("inf")}, {"looks": None}, {"findings": [{}]}, {"findings": 5}, {"findings": [5]},
        {"outputs": []}, {"outputs": {"x": "y"}}, {"outputs": {"-1": "y"}}, {"outputs": {"1": 5}}, {"turns": -1},
        {"turns": 10**12}, {"turns": 1.5}, {"looks": -1}, {"looks": True}, {"summary": None},
        {"findings": [{"id": "x", "content": 1, "tags": [], "source": None, "turn": 1}]},
    ],
)  # fmt: skip
def test_a_changed_checkpoint_is_refused_and_changes_nothing(saved, fields, env):
    with pytest.raises(SnapshotError, match="not a checkpoint"):
        env.restore(changed(saved, **fields))
    assert env.execute("mine").output == "1"


@pytest.mark.parametrize("cut", [slice(0, 0), slice(0, 50), slice(0, -10), slice(5, None)])
def test_a_part_of_a_checkpoint_is_refused_and_changes_nothing(saved, cut, env):
    with pytest.raises(SnapshotError):
        env.restore(saved[cut])
    assert env.execute("mine").output == "1"


@pytest.fixture(scope="module")
def env():
    with REPLEnvironment("line 1\nline 2", {"guard": "off"}, backend="native") as one:
        one.execute("mine = 1")
        yield one
