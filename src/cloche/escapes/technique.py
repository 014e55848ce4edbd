"""A technique: a cell of hostile code, and what it aims at.

Each lies in a file of its own whose first lines say what it is::

    # T01: Walk from a tuple to every class, and take os from one of them.
    # aim: written
    # stopped by: view
    <the cell>

A cell finds the addresses of the canaries in `canary` (a plain dictionary, no secrets in it) and may touch nothing
else. Outside a wall it must reach its aim. What cannot be tried without harm is a probe (see `probes`): it has no aim.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from cloche.escapes.canaries import Effect
from cloche.escapes.probes import PROBES, probe_code

_FOLDER = Path(__file__).parent / "techniques"
_HEAD = re.compile(r"# (?P<id>[A-Z]\d+): (?P<title>.+)\n# aim: (?P<aim>\w+)\n# stopped by: (?P<layers>.+)\n")


@dataclass(frozen=True, slots=True)
class Technique:
    """One way to try."""

    id: str
    name: str
    title: str
    aim: Effect | None
    """What happens to the host where there is no wall; None for a probe."""
    stopped_by: tuple[str, ...]
    """Layers of a wall that are there against it; it is the canaries that decide."""
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
    layers = tuple(part.strip() for part in found["layers"].split(","))
    return Technique(found["id"], path.stem, found["title"], Effect(found["aim"]), layers, code)


@functools.cache
def all_techniques() -> tuple[Technique, ...]:
    """All of them: cells by id, then the probes."""
    cells = sorted((read_technique(path) for path in _FOLDER.glob("*.py")), key=lambda found: (found.id, found.name))
    probes = [
        Technique(f"S{number:02}", f"probe_{probe.name}", probe.title, None, ("seccomp",), probe_code(probe))
        for number, probe in enumerate(PROBES, 1)
    ]
    return (*cells, *probes)


def find_technique(wanted: str) -> Technique:
    """By id or name."""
    for technique in all_techniques():
        if wanted in (technique.id, technique.name):
            return technique
    raise KeyError(wanted)
