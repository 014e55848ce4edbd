"""Takes the samples: reference, ours and peer in turn, so that a busy moment of the machine hits all."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from typing import TYPE_CHECKING

from benchmarks.measurement import Measurement

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.row import Row, Sampler


def measure(row: Row, rounds: int, on_round: Callable[[int], None] | None = None) -> Measurement:
    """Measure one row. A peer that fails is noted; a failure of our own or of the reference is raised."""
    with_peer = _spread(rounds, row.peer_rounds)
    measurement = Measurement(row)
    with ExitStack() as stack:
        reference = stack.enter_context(row.reference.open())
        ours = stack.enter_context(row.ours())
        peer = _open_peer(row, stack, measurement)
        for sampler in (reference, ours):
            sampler()  # the first of everything is not typical: caches, lazy imports
        # What one contender imported must not be walked by the collector during another's samples.
        gc.collect()
        gc.freeze()
        stack.callback(gc.unfreeze)
        for done in range(rounds):
            measurement.reference += reference()
            measurement.ours += ours()
            if peer is not None and measurement.peer_trouble is None and done in with_peer:
                _sample_peer(peer, measurement)
            if on_round is not None:
                on_round(done + 1)
    return measurement


def _spread(rounds: int, wanted: int | None) -> set[int]:
    """The rounds in which a slow peer takes part: evenly among all."""
    count = rounds if wanted is None else min(wanted, rounds)
    return {step * rounds // count for step in range(count)}


def _open_peer(row: Row, stack: ExitStack, measurement: Measurement) -> Sampler | None:
    try:
        peer = stack.enter_context(row.peer.open())
        peer()
    except Exception as exc:  # noqa: BLE001 - whatever a foreign package raises means that it did not run
        measurement.peer_trouble = _describe(exc)
        return None
    return peer


def _sample_peer(peer: Sampler, measurement: Measurement) -> None:
    try:
        measurement.peer += peer()
    except Exception as exc:  # noqa: BLE001 - as above
        measurement.peer_trouble = _describe(exc)


def _describe(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}".strip(": ").splitlines()[0][:200]
