"""A technique: a cell of hostile code, what it aims at, and what is expected of walls of each kind.

Each lies in a file of its own whose first lines say what it is::

    # T01: Walk from a tuple to every class, and take os from one of them.
    # aim: written
    # sealed: view
    # confined: landlock
    # process: nothing
    <the cell>

The three lines after the aim name the layers that are there against it, by tier; ``nothing``: it gets through, which
is what a mere process is honest about. A metered wall is a sealed one. Layers are for the reader: it is the canaries
that decide. A cell finds the addresses of the canaries in `canary` (a plain dictionary, no secrets in it) and may touch
nothing else. Outside a wall it must reach its aim. Cells in ``resources`` try to use up what the kernel counts by user
or by machine, and say how much of it they took; see `needs` for how that is judged. What cannot be tried without harm
is a probe (see `probes`): it has no aim.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from cloche.escapes.canaries import Effect
from cloche.escapes.probes import PROBES, probe_code
from cloche.isolation import Isolation

_FOLDERS = [Path(__file__).parent / name for name in ("techniques", "resources")]
_HEAD = re.compile(
    r"# (?P<id>[A-Z]\d+): (?P<title>.+)\n# aim: (?P<aim>\w+)\n"
    r"# sealed: (?P<sealed>.+)\n# confined: (?P<confined>.+)\n# process: (?P<process>.+)\n"
)
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Expectation:
    """Layers of a wall that are there against a technique, by tier; none: it gets through."""

    sealed: tuple[str, ...] = ()
    confined: tuple[str, ...] = ()
    process: tuple[str, ...] = ()

    def at(self, tier: Isolation | None) -> tuple[str, ...]:
        """Those of one tier."""
        if tier is None or tier <= Isolation.NONE:
            return ()
        if tier >= Isolation.SEALED:
            return self.sealed
        return self.confined if tier is Isolation.CONFINED else self.process


@dataclass(frozen=True, slots=True)
class Technique:
    """One way to try."""

    id: str
    name: str
    title: str
    aim: Effect | None
    """What happens to the host where there is no wall; None for a probe."""
    expectation: Expectation
    code: str

    @property
    def is_probe(self) -> bool:
        """A system call with arguments that cannot work: it has no effect anywhere, and only tells who answered."""
        return self.aim is None


def read_technique(path: Path) -> Technique:
    """The technique in this file."""
    code = path.read_text("utf-8")
    found = _HEAD.match(code)
    if found is None:
        raise ValueError(f"{path.name} does not begin with its id, aim and layers")
    expectation = Expectation(*(_layers(found[tier]) for tier in ("sealed", "confined", "process")))
    return Technique(found["id"], path.stem, found["title"], Effect(found["aim"]), expectation, code)


def _layers(text: str) -> tuple[str, ...]:
    return () if text == NOTHING else tuple(part.strip() for part in text.split(","))


_FILTERED = Expectation(sealed=("seccomp",), confined=("seccomp",), process=("process",))
"""Of a probe: it has no effect, whoever answers."""


@functools.cache
def all_techniques() -> tuple[Technique, ...]:
    """All of them: cells by id, then the probes."""
    files = [path for folder in _FOLDERS for path in folder.glob("*.py")]
    cells = sorted(map(read_technique, files), key=lambda found: (found.id, found.name))
    probes = [
        Technique(f"S{number:02}", f"probe_{probe.name}", probe.title, None, _FILTERED, probe_code(probe))
        for number, probe in enumerate(PROBES, 1)
    ]
    return (*cells, *probes)


def find_technique(wanted: str) -> Technique:
    """By id or name."""
    for technique in all_techniques():
        if wanted in (technique.id, technique.name):
            return technique
    raise KeyError(wanted)
