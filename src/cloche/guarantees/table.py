"""A row of the table: what holds against one kind of attempt, by which layers, and what proves it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from cloche.isolation import Isolation

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST = "host"
"""Stands among layers: not part of a wall, but how the host treats whatever comes from a guest."""

SEALED = (Isolation.SEALED, Isolation.METERED)
METERED = (Isolation.METERED,)
UNMETERED = (Isolation.SEALED,)
CONFINED = (Isolation.CONFINED,)
PROCESS = (Isolation.PROCESS,)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What holds against one kind of attempt, behind one wall at some tiers."""

    wall: str
    tiers: tuple[Isolation, ...]
    attempt: str
    """What code may try: a key of `ATTEMPTS`."""
    holds: str
    """What is true nevertheless, in a sentence; of nothing that holds, why."""
    layers: tuple[str, ...] = ()
    """By what. None: nothing is guaranteed."""
    proofs: tuple[str, ...] = ()
    """Names of techniques (``cloche escapes``), and tests as ``folder/file.py::name``."""


ATTEMPTS: Mapping[str, str] = MappingProxyType(
    {
        "files": "read or change your files",
        "obeyed": "change, in a folder that it was given, what the host runs or obeys later",
        "network": "reach the network or a service of this machine",
        "processes": "see, signal, trace, change or slow down other processes",
        "neighbours": "reach a session beside",
        "branches": "reach a branch or its session",
        "survival": "outlive its session or its host",
        "rights": "gain rights",
        "kernel": "reach little-used parts of the kernel",
        "memory": "use more memory than its limit",
        "number": "start processes without end",
        "cpu": "take more of the processors than its share",
        "counted": "use up what the kernel counts by user",
        "disk": "fill the disk",
        "secrets": "find the host's secrets in its own memory or environment",
        "host": "have the host follow links, wait for pipes, or believe, unpickle or hoard what it sends",
        "deadline": "run on after its deadline",
    }
)

_HOST_PROOFS = (
    "linked_artifact", "swapped_artifact", "blocking_artifact", "linked_folder", "forged_calls", "pickled_values",
    "session/test_machine_budget.py::test_a_guest_whose_calls_fill_the_budget_is_not_read_until_one_is_answered",
    "session/test_machine_budget.py::test_a_nested_frame_ends_the_guest_undecoded",
    "conformance/test_files.py::test_a_pipe_in_the_workspace_does_not_block",
)  # fmt: skip
_DEADLINE_PROOFS = (
    "conformance/test_time.py::test_a_cell_that_hears_no_signal_is_killed",
    "conformance/test_time.py::test_a_host_function_that_never_returns_is_abandoned",
    "session/test_machine_budget.py::test_calls_that_wait_for_others_cannot_hold_the_deadline_beyond_the_ceiling",
)


def by_the_host(wall: str, tiers: tuple[Isolation, ...], layer: str) -> tuple[Guarantee, ...]:
    """What the host itself sees to, behind every wall."""
    return (
        Guarantee(
            wall, tiers, "host",
            "links are not followed, pipes not opened, messages checked and bounded, nothing is unpickled",
            (HOST, layer), _HOST_PROOFS,
        ),
        Guarantee(
            wall, tiers, "deadline", "every call returns within its deadline and grace", (HOST, layer), _DEADLINE_PROOFS
        ),
    )  # fmt: skip
