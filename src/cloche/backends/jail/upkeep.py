"""What this process keeps outside of itself while it has sessions: cgroups, a register, and a reaper for both.

Opened with the first jail, closed with the last. What a process that died left behind is swept when the next opens.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cloche.backends.jail.cgroups import Meter, meter_for, remove_groups
from cloche.backends.jail.hierarchies import DELEGATION_REMEDY, Hierarchy, NoGroups, find
from cloche.backends.jail.reaper import Reaper
from cloche.errors import MachineError
from cloche.guarantees import LAYERS
from cloche.host.removal import remove_tree
from cloche.isolation import Layer, masked_layers
from cloche.paths import sessions_dir
from cloche.session.callback_threads import threads
from cloche.session.hosts import Host
from cloche.session.register import read_register, register

LAYER = "cgroup"


class Upkeep:
    """The one of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened = False
        self._reaper: Reaper | None = None
        self._meter: Meter | None = None
        self._why_not = ""
        self._swept = False
        self._proven = False
        os.register_at_fork(after_in_child=self._leave)

    def meter(self) -> Meter | None:
        """Where groups are made; None where that cannot be done, or is switched off. Found out once, by doing it."""
        with self._lock:
            self._open()
            return None if LAYER in masked_layers() else self._meter

    def layer(self) -> Layer:
        """What there is to say about it."""
        purpose = LAYERS["jail"][LAYER]
        meter = self.meter()
        if LAYER in masked_layers():
            return Layer(LAYER, False, purpose, "unset CLOCHE_MASK_LAYERS")
        if meter is None:
            return Layer(LAYER, False, f"{purpose}: {self._why_not}", DELEGATION_REMEDY)
        return Layer(LAYER, True, f"{purpose} (version {meter.version}: {', '.join(meter.controllers)})")

    def tell(self, path: str) -> None:
        """Of a file or folder that is about to be made, and is to go with this process."""
        with self._lock:
            self._open()
            if self._reaper is not None:
                self._reaper.tell(path)

    def _open(self) -> None:
        """Look for groups, start the reaper, then make the folder of groups: it has heard of it by then."""
        if self._opened:
            if self._reaper is not None and not self._reaper.alive:
                self._reaper.dismiss()
                self._start_reaper()
            elif self._reaper is not None:
                with suppress(MachineError):
                    self._reaper.tell(register.path)
            return
        self._opened = True
        host = Host.here()
        try:
            self._meter = meter_for(host)
        except NoGroups as exc:
            self._meter, self._why_not = None, str(exc)
        self._start_reaper()
        try:
            if self._meter is not None:
                register.groups = self._meter.tops
                self._meter.open(try_out=not self._proven)
                self._proven = True
        except NoGroups as exc:
            self._meter, self._why_not = None, str(exc)
        if not self._swept:
            self._swept = True
            trees = () if self._meter is None else self._meter.trees
            left = leftovers(trees)  # looked for now: what we make ourselves in a moment is not held yet
            if left:
                threads.run(lambda: _remove(left))

    def _start_reaper(self) -> None:
        self._reaper = None
        with suppress(OSError, MachineError):  # without one, the next start sweeps
            self._reaper = Reaper((*(self._meter.tops if self._meter is not None else ()), register.path))

    def close(self) -> None:
        """Remove everything. The next session opens it again."""
        with self._lock:
            meter, self._meter = self._meter, None
            reaper, self._reaper = self._reaper, None
            self._opened = False
            if meter is not None:
                meter.close()
            register.close()
            if reaper is not None:
                reaper.dismiss()

    def _leave(self) -> None:
        """In a forked child: it is all the parent's."""
        self._lock = threading.Lock()
        if self._meter is not None:
            self._meter.leave()
        if self._reaper is not None:
            self._reaper.leave()
        self._meter, self._reaper, self._opened = None, None, False


class Leftover(NamedTuple):
    """Something that carries the name of a host that is gone."""

    path: str
    is_group: bool

    def remove(self) -> bool:
        """Whether it is gone now."""
        if self.is_group:
            return remove_groups(self.path)
        remove_tree(Path(self.path))
        return not os.path.lexists(self.path)


def leftovers(trees: tuple[Hierarchy, ...] | None = None) -> list[Leftover]:
    """What dead hosts left: registers, the groups named in them, and groups beside which ours would be made."""
    groups: dict[str, None] = {}
    registers: list[Leftover] = []
    with suppress(OSError, MachineError):
        for path in _left_in(str(sessions_dir())):
            registers.append(Leftover(path, is_group=False))
            # a file that anybody of ours can have written: only what looks like a group, and by name is a dead one's
            for folder in read_register(Path(path))[1]:
                host = Host.parse(os.path.basename(folder))
                if host is not None and os.path.isfile(f"{folder}/cgroup.procs") and host.has_left(folder):
                    groups[folder] = None
    with suppress(OSError, NoGroups):
        for tree in find() if trees is None else trees:
            groups |= dict.fromkeys(_left_in(tree.parent))
    return [*(Leftover(folder, is_group=True) for folder in groups), *registers]


def _left_in(place: str) -> list[str]:
    found = []
    for name in os.listdir(place):
        host = Host.parse(name)
        path = os.path.join(place, name)
        if host is not None and host.has_left(path):
            found.append(path)
    return found


def _remove(left: list[Leftover]) -> None:
    for leftover in left:
        leftover.remove()


upkeep = Upkeep()
