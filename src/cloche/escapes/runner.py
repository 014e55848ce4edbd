"""Try techniques against a backend, each in a sandbox of its own beside an innocent one, and say what happened."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloche.errors import ClocheError
from cloche.escapes.canaries import PATIENCE, Canaries, Effect
from cloche.escapes.needs import missing, needs_of_user
from cloche.escapes.probes import reached_kernel
from cloche.escapes.technique import Technique, all_techniques
from cloche.factory import create_sandbox
from cloche.isolation import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cloche.escapes.neighbour import Neighbour
    from cloche.sandbox import SessionSandbox

DEADLINE_MS = 5_000
"""Cells that hang are part of the game; most are done in milliseconds."""
_FELT_BY_OTHERS = (Effect.STARVED, Effect.EXHAUSTED, Effect.NEIGHBOUR)
"""Aims after which the neighbour is asked for more than usual."""
_LARGEST_FILE = 1_000_000
_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a technique did to the host, and what it saw."""

    technique: Technique
    backend: str
    effects: frozenset[Effect]
    """On the host and on the session beside. Empty: the wall held."""
    neighbour: tuple[str, ...]
    """What the session beside noticed."""
    saw: str
    """The end of what the cell printed or died of."""
    ended: str
    """How the cell ended, as in `SandboxResult.outcome`."""
    reached: bool | None
    """Of a probe: whether the kernel looked at it. None: no probe, or no answer."""
    isolation: Isolation | None
    layers: tuple[str, ...]
    duration_ms: float

    @property
    def contained(self) -> bool:
        """No effect on the host or on a neighbour."""
        return not self.effects

    @property
    def expected(self) -> tuple[str, ...]:
        """Layers that are there against it at this tier; none: it was expected to get through."""
        return self.technique.expectation.at(self.isolation)

    @property
    def as_expected(self) -> bool:
        """It was held where it should be, and got through where nothing was said to hold it."""
        return self.contained == bool(self.expected)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "id": self.technique.id,
            "name": self.technique.name,
            "title": self.technique.title,
            "aim": self.technique.aim.value if self.technique.aim else None,
            "stopped_by": list(self.expected),
            "backend": self.backend,
            "contained": self.contained,
            "as_expected": self.as_expected,
            "effects": sorted(effect.value for effect in self.effects),
            "neighbour": list(self.neighbour),
            "reached_kernel": self.reached,
            "ended": self.ended,
            "saw": self.saw,
            "isolation": self.isolation.name if self.isolation is not None else None,
            "layers": list(self.layers),
            "duration_ms": round(self.duration_ms, 1),
        }


def run_techniques(
    backend: str = "auto",
    *,
    techniques: Iterable[Technique] | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
    **options: Any,
) -> list[Outcome]:
    """Try all techniques (or these) against `backend`; `options` go to `create_sandbox`.

    What would change this machine is tried only against a boundary.
    """
    outcomes = []
    with create_sandbox(backend=backend, **options) as first:
        boundary = first.isolation >= Isolation.CONFINED
    with Canaries() as canaries:
        for technique in techniques if techniques is not None else all_techniques():
            if technique.aim in (Effect.STATE, Effect.EXHAUSTED) and not boundary:
                continue
            outcomes.append(run_technique(technique, canaries, backend=backend, **options))
            if on_outcome is not None:
                on_outcome(outcomes[-1])
    return outcomes


def run_technique(technique: Technique, canaries: Canaries, *, backend: str = "auto", **options: Any) -> Outcome:
    """Try one technique in a fresh sandbox, beside a session that must not notice."""
    begun = time.perf_counter()
    neighbour = canaries.neighbours.beside(backend, options)
    options = {"timeout_ms": DEADLINE_MS, "grace_ms": 200, **options}
    tools = {"lookup": canaries.lookup}
    sandbox = create_sandbox(backend=backend, tools=tools, **options)
    needs = _Needs(canaries, neighbour) if technique.aim is Effect.EXHAUSTED else None
    with sandbox:
        with neighbour.during() as noticed:
            result = sandbox.execute(canaries.preamble(neighbour.pid) + technique.code)
        said = "\n".join([result.stdout, result.stderr, result.error or "", result.value or "", repr(result.displays)])
        used = _Using(sandbox)
        effects = canaries.look(said + used.text, starved=technique.aim is Effect.STARVED)
        if used.stuck:
            effects |= {Effect.STUCK}
        if needs is not None:  # while the session lives, and holds what it took
            if needs.missing_to_host():
                effects |= {Effect.EXHAUSTED}
            noticed.extend(needs.missing_to_neighbour())
        if not noticed:  # while whatever the cell left running is still there
            thorough = technique.aim in _FELT_BY_OTHERS
            noticed.extend(neighbour.look(endless=thorough, newcomer=thorough))
    if canaries.survivors():
        effects |= {Effect.SURVIVED}
    effects |= canaries.look("")  # what happens on the way out counts too
    noticed.extend(neighbour.look())
    if noticed:
        effects |= {Effect.NEIGHBOUR}
    return Outcome(
        technique=technique,
        backend=sandbox.backend,
        effects=effects,
        neighbour=tuple(noticed),
        saw=said.strip()[-_SHOWN:],
        ended=result.outcome,
        reached=reached_kernel(result.stdout) if technique.is_probe and result.outcome == "ok" else None,
        isolation=result.isolation,
        layers=result.layers,
        duration_ms=(time.perf_counter() - begun) * 1000,
    )


class _Needs:
    """What the host's user and a neighbour could get of the kernel, before."""

    def __init__(self, canaries: Canaries, neighbour: Neighbour) -> None:
        self._name = f"{canaries.token}-needed"
        self._neighbour = neighbour
        self._host_before = needs_of_user(self._name)
        self._neighbour_before = neighbour.needs(self._name)

    def missing_to_host(self) -> list[str]:
        """What the host's user cannot get any more."""
        return missing(self._host_before, needs_of_user(self._name))

    def missing_to_neighbour(self) -> list[str]:
        """The same of the neighbour, in words."""
        lost = missing(self._neighbour_before, self._neighbour.needs(self._name))
        return [f"cannot get {need} any more" for need in lost]


class _Using:
    """The results, used in a thread of its own: what never returns is given up."""

    def __init__(self, sandbox: SessionSandbox) -> None:
        self.text = ""
        thread = threading.Thread(target=self._use, args=(sandbox,), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        self.stuck = thread.is_alive()

    def _use(self, sandbox: SessionSandbox) -> None:
        self.text = _use_results(sandbox)


def _use_results(sandbox: SessionSandbox) -> str:
    """What a host does with a session afterwards: read its files and values, put a file in. All that it got."""
    got = []
    with suppress(ClocheError):
        for file in sandbox.list_files()[:100]:
            with suppress(ClocheError):
                got.append(sandbox.get_file(file.path).decode("utf-8", "replace")[:_LARGEST_FILE])
    for name in ("leak.txt", "link/secret.txt", "secret.txt", "pipe"):
        with suppress(ClocheError):
            got.append(sandbox.get_file(name).decode("utf-8", "replace")[:_LARGEST_FILE])
    with suppress(ClocheError):
        sandbox.put_file("drop/report.txt", b"by the host")
    for name in ("evil", "result"):
        with suppress(ClocheError):
            got.append(str(sandbox.get_variable(name)))
    with suppress(ClocheError):
        got.append(str(sandbox.list_variables()))
    return "\n".join(got)
