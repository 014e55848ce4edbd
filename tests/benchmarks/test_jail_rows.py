"""The rows of the jail, with less of everything: fewer sessions, fewer imports, less state."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from benchmarks import warm_jail
from benchmarks.discovery import find_rows
from benchmarks.measurement import Measurement
from benchmarks.memory import private_bytes, proportional_bytes
from benchmarks.peers import bwrap, one_shot
from benchmarks.row import Contender, NotHere, Row, Target
from benchmarks.rows import jail_branches, jail_memory, jail_session, jail_start
from benchmarks.runner import measure
from tests.benchmarks.made_up import giving, row

from cloche.backends.jail.houses import houses

ROWS = {found.name: found for found in find_rows() if found.name.startswith("jail.")}
TARGETS = {
    "jail.first_use": Target("ratio", "<=", 2),
    "jail.fresh": Target("ratio", "<=", 0.9),
    "jail.claim": Target("ratio", "<=", 0.05),
    "jail.roundtrip": Target("ratio", "<=", 0.03),
    "jail.fork": Target("ratio", "<=", 1),
    "jail.fork_500mb": Target("ratio", "<=", 1),
    "jail.fork_500mb.vs_small": Target("peer_ratio", "<=", 1.5),
    "jail.protected_cell": Target("ratio", "<=", 0.15),
    "jail.private_mb": Target("p50", "<=", 3),
    "jail.create_rate": Target("p50", ">=", 60),
}
WITHOUT_TARGET = {
    "jail.claim.burst", "jail.fork_many", "jail.undo", "jail.kill", "jail.private_mb_after_groupby",
    "jail.shared_context_mb", "jail.zygote_start",
    "jail.create_rate.one_at_a_time",
}  # fmt: skip


@pytest.fixture(autouse=True)
def less_of_everything(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(warm_jail, "PRELOAD", ("json",))
    monkeypatch.setattr(jail_branches, "LARGE_BYTES", 8_000_000)
    monkeypatch.setattr(jail_memory, "SESSIONS", 2)
    monkeypatch.setattr(jail_memory, "BUSY_SESSIONS", 1)
    monkeypatch.setattr(jail_memory, "CONTEXT_BYTES", 40_000_000)
    monkeypatch.setattr(jail_session, "CELLS_A_ROUND", 2)
    monkeypatch.setattr(jail_session, "SESSIONS_A_ROUND", 2)
    yield
    houses.close()


def measured(found: Row) -> Measurement:
    quiet = Contender("quiet", giving(1.0))
    try:
        return measure(row(name=found.name, ours=found.ours, reference=quiet, peer=quiet), rounds=1)
    except NotHere as exc:
        pytest.skip(f"{found.name} cannot be measured here: {exc}")


def test_every_row_that_was_promised_is_there():
    assert ROWS.keys() >= TARGETS.keys() | WITHOUT_TARGET


@pytest.mark.parametrize("name", TARGETS)
def test_target_is_the_one_that_was_promised(name):
    assert ROWS[name].targets == (TARGETS[name],)


# Those beside another peer have the same side of ours.
@pytest.mark.parametrize("name", [name for name in ROWS if ".vs_" not in name])
def test_our_side_of_a_row_really_runs(name):
    assert measured(ROWS[name]).p50 > 0


def test_memory_is_told_for_each_session():
    assert len(measured(ROWS["jail.private_mb"]).ours) == jail_memory.SESSIONS


def test_sessions_with_one_context_do_not_have_a_copy_each():
    copy = jail_memory.CONTEXT_BYTES / 1e6
    assert copy / jail_memory.SESSIONS < measured(ROWS["jail.shared_context_mb"]).p50 < copy


def test_fresh_session_is_not_made_ahead():
    with jail_start.fresh_session()() as sample:
        sample()
        broker = warm_jail.serving()
        before = broker.sessions
        sample()
        assert broker.sessions == before + 1


def test_claimed_session_is_made_ahead():
    with jail_start.claimed_spares(None)() as sample:
        sample()
        assert warm_jail.wait_for_spares() >= 1


def test_two_contenders_share_a_jail():
    with jail_branches.branches(1)() as one, jail_branches.branches(1)() as other:
        assert one()
        assert other()


def test_peer_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    measurement = measure(row(peer=bwrap.cold_python()), rounds=1)
    assert "apt install bubblewrap" in str(measurement.peer_trouble)


@pytest.mark.parametrize(
    "peer",
    [
        one_shot.burst(lambda: ["json"], 1, 2),
        one_shot.rate(lambda: ["json"], 2, 2),
        one_shot.cold_start(lambda: ["json"]),
        one_shot.private_memory(lambda: ["json"]),
    ],
    ids=["burst", "rate", "cold_start", "private_memory"],
)
def test_one_shot_processes_really_run(peer):
    measurement = measure(row(peer=peer), rounds=1)
    assert measurement.peer_trouble is None
    assert measurement.peer[0] > 0


def test_private_memory_is_part_of_what_a_process_needs():
    held = bytearray(os.urandom(10_000_000))
    assert len(held) <= private_bytes(os.getpid()) <= proportional_bytes([os.getpid()])


def test_memory_of_a_process_that_is_gone_is_not_made_up():
    with pytest.raises((NotHere, ProcessLookupError)):
        private_bytes(2**22)
