"""Where cgroups can be made: below the group that this process is in, so that its own limits hold for them too.

Version 1 has a tree of groups for each controller (or few), version 2 one for all. What a controller's files are
called is known here and nowhere else.

Version 2 is tested automatically only with a controller that is free on the machines at hand, whose memory is bound to
version 1; with memory, and with units of systemd that have ``Delegate=yes``, by hand on Linux 6.1 and systemd 252. That
of a user's own manager (``systemd-run --user``) is untested.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple

NEEDED = ("memory", "pids")
USEFUL = ("cpu", "cpuacct")
ROUNDS = 3
"""Looks at a group that is to be emptied: processes may be starting others."""
PERIOD = 100_000
"""Microseconds over which a CPU quota is measured out: the kernel's default."""
PLACE_VARIABLE = "CLOCHE_CGROUP"
"""Names a folder of version 2 that is given to us, where that cannot be seen from the folder itself."""

DELEGATION_REMEDY = (
    "run the host in a unit that has Delegate=yes: systemd-run --scope -p Delegate=yes -- COMMAND, as an ordinary user "
    "with --user (untested)"
)


class NoGroups(Exception):
    """No cgroups can be had here. Says why."""


class Hierarchy(NamedTuple):
    """A tree of groups, and the folder in it below which ours go."""

    version: int
    controllers: tuple[str, ...]
    parent: str

    @property
    def join_file(self) -> str:
        """What a process writes "0" to in order to join.

        In version 1 it may move as a single thread, for which nobody waits. A process in version 2 always moves as a
        whole, and the kernel first lets all others take notice: milliseconds, unless somebody has just done it.
        """
        return "tasks" if self.version == 1 else "cgroup.procs"

    def own_group(self) -> str:
        """The folder of the group that this process is in."""
        if self.version == 1:
            return self.parent
        mounts = [mount.locate(_own_groups().get("", "/")) for mount in _mounts() if mount.version == 2]
        return mounts[0] or self.parent

    def prepare(self) -> None:
        """Have the controllers in groups below `parent`; in version 1 they always are. Raises `NoGroups`."""
        if self.version == 2:
            _enable(self.parent, self.controllers)


def find(needed: tuple[str, ...] = NEEDED, useful: tuple[str, ...] = USEFUL) -> tuple[Hierarchy, ...]:
    """The trees that together have all `needed` controllers, and the `useful` ones that are there."""
    mounts = _mounts()
    own = _own_groups()
    found: list[Hierarchy] = []
    missing = []
    for controller in (*needed, *useful):
        if any(controller in tree.controllers for tree in found):
            continue
        mount = next((mount for mount in mounts if mount.version == 1 and controller in mount.options), None)
        if mount is None:
            if controller in needed:
                missing.append(controller)
            continue
        parent = mount.locate(own.get(controller, "/"))
        if parent is not None and os.access(parent, os.W_OK):
            wanted = tuple(name for name in (*needed, *useful) if name in mount.options)
            found.append(Hierarchy(1, wanted, parent))
        elif controller in needed:
            raise NoGroups(f"{parent or mount.point} is not ours to write to")
    if not missing:
        return tuple(found)
    if len(missing) < len(needed):
        raise NoGroups("the controllers are split between cgroup versions 1 and 2")
    unified = next((mount for mount in mounts if mount.version == 2), None)
    parent = None if unified is None else unified.locate(own.get("", "/"))
    if parent is None:
        raise NoGroups("there are no cgroups here")
    return (Hierarchy(2, *_delegated(parent, needed, useful)),)


# -- version 2 ---------------------------------------------------------------------------------------------------------


def _delegated(own: str, needed: tuple[str, ...], useful: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """(controllers, folder) of a group that was given to us: our own one, or the one around it (a unit with
    ``DelegateSubgroup=``). Others' groups are left alone, even where we could write to them."""
    named = os.environ.get(PLACE_VARIABLE)
    for place in (named,) if named else (own, os.path.dirname(own)):
        if not named and not _is_given(place):
            continue
        available = _words(place, "cgroup.controllers")
        if not all(name in available for name in needed) or not os.access(place, os.W_OK):
            continue
        return tuple(name for name in (*needed, *useful) if name in available), place
    raise NoGroups(f"{named or own} is not delegated to us with {', '.join(needed)}")


def _is_given(place: str) -> bool:
    """Whether a manager of groups has handed it over. The top of a container's view is its own."""
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(place, name) == b"1":
                return True
    return not os.path.exists(os.path.join(os.path.dirname(place), "cgroup.procs"))


def _enable(place: str, controllers: tuple[str, ...]) -> None:
    """Have the controllers in the groups below. A group that does so must hold no process itself: those that are in
    it, we and whoever was given it with us, go into a group beside those of our sessions."""
    missing = [name for name in controllers if name not in _words(place, "cgroup.subtree_control")]
    if not missing:
        return
    order = " ".join(f"+{name}" for name in missing)
    inner = os.path.join(place, "cloche-members")
    trouble = ""
    for _ in range(ROUNDS):
        try:
            _write(place, "cgroup.subtree_control", order)
            return
        except OSError as exc:
            trouble = exc.strerror or ""
        with suppress(OSError):
            os.mkdir(inner)
        for pid in _words(place, "cgroup.procs"):
            with suppress(OSError):  # it has ended
                _write(inner, "cgroup.procs", pid)
    raise NoGroups(f"{place} does not pass on its controllers: {trouble}")


# -- what the kernel says ----------------------------------------------------------------------------------------------


class _Mount(NamedTuple):
    version: int
    point: str
    root: str
    options: frozenset[str] = frozenset()

    def locate(self, group: str) -> str | None:
        """The folder of a group, as this mount shows it; None where it lies outside."""
        inside = os.path.relpath(group, self.root)
        if inside.startswith("..") or not os.path.isdir(os.path.join(self.point, inside)):
            return None
        return os.path.normpath(os.path.join(self.point, inside))


def _mounts() -> list[_Mount]:
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as handle:
        for line in handle:
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            if kind in ("cgroup", "cgroup2"):
                root, point = (_unescape(text) for text in before.split(" ")[3:5])
                names = frozenset(options.strip().split(",")) if kind == "cgroup" else frozenset()
                found.append(_Mount(1 if kind == "cgroup" else 2, point, root, names))
    return found


def _own_groups() -> dict[str, str]:
    """Controller -> our group; "" stands for version 2."""
    found = {}
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as handle:
        for line in handle:
            _, names, group = line.rstrip("\n").split(":", 2)
            for name in names.split(","):
                found[name] = group
    return found


def _unescape(text: str) -> str:
    """The kernel writes blanks in names as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _words(folder: str, name: str) -> list[str]:
    try:
        with open(os.path.join(folder, name), encoding="ascii") as handle:
            return handle.read().split()
    except OSError:
        return []


def _write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="ascii") as handle:
        handle.write(text)
