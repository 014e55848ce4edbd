"""No session can use up what the kernel counts by user or by machine: the host's user and a neighbour still get it."""

from __future__ import annotations

import pytest

from cloche.escapes import Canaries, Effect, all_techniques, run_technique
from cloche.escapes.technique import Technique
from cloche.factory import probe_backends

QUICK = ("queued_signals", "descriptors_in_flight", "epoll_watches", "namespaces")
TECHNIQUES = [
    pytest.param(found, id=f"{found.id}-{found.name}", marks=() if found.name in QUICK else pytest.mark.slow)
    for found in all_techniques()
    if found.aim is Effect.EXHAUSTED
]
OBJECTS = """
processes process_numbers queued_signals timers descriptors_in_flight pipes epoll_watches file_watches keys
message_queues shared_memory locked_memory locks terminals namespaces mounts control_groups entropy ports
abstract_names open_files
"""
"""Of the kernel, that are counted by user or by machine."""


def test_there_is_a_technique_for_each_kind_of_object() -> None:
    found = {technique.name for technique in all_techniques() if technique.aim is Effect.EXHAUSTED}
    assert found == set(OBJECTS.split())


@pytest.mark.skipif(not probe_backends()["jail"].available, reason="the jail cannot run on this machine")
@pytest.mark.parametrize("mask", ["", "cgroup"], ids=["metered", "sealed"])
@pytest.mark.parametrize("technique", TECHNIQUES)
def test_the_host_and_a_neighbour_still_get_what_they_need(
    technique: Technique, mask: str, canaries: Canaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", mask)
    outcome = run_technique(technique, canaries, backend="jail")
    assert outcome.contained, (outcome.effects, outcome.neighbour, outcome.saw)
    assert set(outcome.expected) <= {*outcome.layers, "process"}
