"""The cgroup of a session: memory, processes and CPU of all that runs in it, counted and bounded as a whole.

Each session and each branch of one has a group of its own, so that running out in one ends nothing in another. All
groups of a process lie in one folder that carries its name (see `session.hosts`). What runs in a session joins by
writing to a descriptor that comes with the request for it, before it does anything else; so nothing untrusted has
ever run outside of the group.
"""

from __future__ import annotations

import errno
import itertools
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

from cloche.backends.jail.gauges import FILES, Gauges
from cloche.backends.jail.hierarchies import PERIOD, Hierarchy, NoGroups, find
from cloche.backends.jail.programs import programs
from cloche.backends.jail.spawning import Child
from cloche.session.deadline import CLEAN_UP, time_left
from cloche.session.hosts import Host, hold

if TYPE_CHECKING:
    from cloche.policy import ExecutionPolicy

MARGIN = 64 << 20
"""What a group may hold beyond its memory: the kernel's own share (stacks, pipes, names of files), and room for the
guest's interpreter to raise MemoryError, which leaves the session alive, before the kernel has to kill."""
PAGE_TABLES = 256
"""One part in so many of the memory goes into the tables that describe it; twice what is needed for small pages."""
LEAST_QUOTA = 1_000
"""Microseconds in a period: the kernel takes no less."""
PROBE_PATIENCE = 5.0
REMOVE_PATIENCE = 2.0
SHELL = "/bin/sh"
_PROBE = "probe"


class Limits(NamedTuple):
    """What a session may use as a whole; None: no limit."""

    memory: int | None = None
    pids: int | None = None
    cpus: float | None = None

    @classmethod
    def of(cls, policy: ExecutionPolicy) -> Limits:
        """Files of a session are memory too: their quota is on top."""
        memory = policy.memory_bytes
        if memory is not None:
            memory += memory // PAGE_TABLES + MARGIN + policy.workspace_bytes
        return cls(memory, policy.processes, policy.cpus)


class Group:
    """One session's group: a folder in each tree."""

    def __init__(self, trees: tuple[Hierarchy, ...], tops: tuple[str, ...], name: str) -> None:
        self._owner = os.getpid()
        self._limits = Limits()
        self._folders: dict[str, str] = {}
        self._joins: list[str] = []
        made: list[str] = []
        self._made = made
        self.gauges = Gauges(trees[0].version, {})
        """What was used."""
        try:
            for tree, top in zip(trees, tops, strict=True):
                folder = f"{top}/{name}"
                os.mkdir(folder)
                made.append(folder)
                self._joins.append(f"{folder}/{tree.join_file}")
                for controller in tree.controllers:
                    self._folders[controller] = folder
        except OSError:
            self.remove()
            raise
        self._version = trees[0].version
        files = FILES[self._version].items()
        paths = {gauge: f"{self._folders[which]}/{name}" for gauge, (which, name) in files if which in self._folders}
        self.gauges = Gauges(self._version, paths)

    # -- bounds --------------------------------------------------------------------------------

    def limit(self, limits: Limits) -> None:
        """Set what may be used; cheap when nothing changes."""
        before, self._limits = self._limits, limits
        self.gauges.memory = limits.memory
        if limits.memory != before.memory:
            self._limit_memory(limits.memory)
        if limits.pids != before.pids:
            self._set("pids", "pids.max", "max" if limits.pids is None else str(limits.pids))
        if limits.cpus != before.cpus:
            quota = None if limits.cpus is None else max(LEAST_QUOTA, int(limits.cpus * PERIOD))
            if self._version == 1:
                self._set("cpu", "cpu.cfs_quota_us", "-1" if quota is None else str(quota))
            else:
                self._set("cpu", "cpu.max", f"{'max' if quota is None else quota} {PERIOD}")

    def _limit_memory(self, amount: int | None) -> None:
        if self._version == 2:
            self._set("memory", "memory.max", "max" if amount is None else str(amount))
            with suppress(OSError):  # no swap here
                self._set("memory", "memory.swap.max", "max" if amount is None else "0")
            return
        text = "-1" if amount is None else str(amount)
        # The second counts swap too and may never be below the first: which one to write first depends on the way.
        plain, swap = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
        if not os.path.exists(f"{self._folders['memory']}/{swap}"):
            self._set("memory", plain, text)
            return
        try:
            self._set("memory", plain, text)
            self._set("memory", swap, text)
        except OSError:
            self._set("memory", swap, text)
            self._set("memory", plain, text)

    # -- members -------------------------------------------------------------------------------

    def open_joins(self) -> list[int]:
        """Descriptors through which a process puts itself into the group by writing "0" to each."""
        with ExitStack() as opened:
            found = []
            for path in self._joins:
                found.append(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
                opened.callback(os.close, found[-1])
            opened.pop_all()
        return found

    def join(self, pid: int) -> None:
        """Put a process into the group from outside. The first to do so after a quiet moment waits for milliseconds
        (see `Hierarchy.join_file`), so this is for a process that cannot be trusted to do it itself."""
        if pid <= 0:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))  # to the kernel 0 is ourselves
        for path in self._joins:
            _write(os.path.join(os.path.dirname(path), "cgroup.procs"), str(pid))

    def has(self, pid: int) -> bool:
        """Whether a process is in it, in every tree."""
        if not self._made:
            return False
        ours = "/".join(self._made[0].split("/")[-2:])  # the host's folder and ours in it: of nobody else
        try:
            places = [line.split(":", 2)[2] for line in _read(f"/proc/{pid}/cgroup").splitlines()]
        except OSError:
            return False
        return sum(place.endswith(f"/{ours}") for place in places) == len(self._made)

    def members(self) -> set[int]:
        """Processes in it, as we number them."""
        found = set()
        for folder in self._made:
            with suppress(OSError):
                found |= {int(word) for word in _read(f"{folder}/cgroup.procs").split()}
        return found - {0}  # somebody in another namespace

    def _set(self, controller: str, name: str, text: str) -> None:
        folder = self._folders.get(controller)
        if folder is None:
            raise NoGroups(f"there is no {controller} controller here")
        _write(f"{folder}/{name}", text)

    # -- end -----------------------------------------------------------------------------------

    def remove(self) -> None:
        """End what is left in it, and it. A forked child leaves its parent's alone."""
        self.gauges.close()
        if self._owner == os.getpid():
            made, self._made = self._made, []
            for folder in made:
                remove_group(folder)


class Meter:
    """The groups of this process's sessions: where they are made."""

    def __init__(self, host: Host, trees: tuple[Hierarchy, ...]) -> None:
        self.trees = trees
        self.tops = tuple(f"{tree.parent}/{host}" for tree in trees)
        self._held: list[int] = []
        self._making = threading.Lock()
        self._numbers = itertools.count(1)

    @property
    def controllers(self) -> tuple[str, ...]:
        """What is counted and bounded."""
        return tuple(name for tree in self.trees for name in tree.controllers)

    @property
    def version(self) -> int:
        """Of the interface: 1 or 2."""
        return self.trees[0].version

    def open(self, *, try_out: bool = True) -> None:
        """Make the folder of this process in each tree, and see whether groups in it do what they should."""
        try:
            for tree, top in zip(self.trees, self.tops, strict=True):
                self._make_top(tree, top)
            if try_out:
                self._try_out()
        except OSError as exc:
            self.close()
            raise NoGroups(f"{exc.filename or 'a group'}: {exc.strerror}") from None
        except NoGroups:
            self.close()
            raise

    def _make_top(self, tree: Hierarchy, top: str) -> None:
        tree.prepare()
        os.mkdir(top)
        self._held.append(os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        hold(self._held[-1])
        if tree.version == 2:
            _write(f"{top}/cgroup.subtree_control", " ".join(f"+{name}" for name in tree.controllers))
        if "cpu" in tree.controllers:
            _weigh(tree, top)

    def _make_missing_tops(self) -> None:
        """While no session runs the folders are empty, and whoever tidies the trees may have removed them."""
        with self._making:
            for tree, top in zip(self.trees, self.tops, strict=True):
                if not os.path.isdir(top):
                    self._make_top(tree, top)

    def _try_out(self) -> None:
        """Make a group, bound it, let a process join, remove it."""
        group = Group(self.trees, self.tops, _PROBE)
        try:
            group.limit(Limits(1 << 30, 64, 1.0 if "cpu" in self.controllers else None))
            joins = [f"{top}/{_PROBE}/{tree.join_file}" for top, tree in zip(self.tops, self.trees, strict=True)]
            joiner = Child([*_joiner(), *joins])
            if not joiner.wait(PROBE_PATIENCE):
                joiner.kill()
                raise NoGroups("a process could not join a group in time")
            if joiner.status != 0:
                raise NoGroups("a process could not join a group")
        finally:
            group.remove()

    @property
    def joining_waits(self) -> bool:
        """Whether a process that joins by itself waits too (see `Hierarchy.join_file`)."""
        return self.version == 2

    def stir(self) -> None:
        """Pay for the wait that moving a process begins with (see `Hierarchy.join_file`), by moving ourselves to
        where we are. Whoever moves one within the next moments need not wait."""
        with suppress(OSError):
            _write(f"{self.trees[0].own_group()}/cgroup.procs", str(os.getpid()))

    def make_group(self, limits: Limits | None = None) -> Group:
        """A group for one session. Without a quota it stays out of a tree that is for CPU shares alone: there all
        sessions together would be served like one process of another user, each when its turn comes."""
        pairs = [
            (tree, top)
            for tree, top in zip(self.trees, self.tops, strict=True)
            if tree.controllers != ("cpu",) or (limits is not None and limits.cpus is not None)
        ]
        trees, tops = zip(*pairs, strict=True)
        name = str(next(self._numbers))
        try:
            group = Group(trees, tops, name)
        except FileNotFoundError:
            self._make_missing_tops()
            group = Group(trees, tops, name)
        try:
            group.limit(limits or Limits())
        except (OSError, NoGroups):
            group.remove()
            raise
        return group

    def close(self) -> None:
        """Remove everything, whatever is still in it."""
        for top in self.tops:
            remove_groups(top)
        self.leave()

    def leave(self) -> None:
        """Let go of the folders without touching them: a forked child, whose parent's they are."""
        for descriptor in self._held:
            os.close(descriptor)
        self._held = []


def meter_for(host: Host) -> Meter:
    """A meter under this name, not opened yet. Raises `NoGroups` with the reason where there can be none."""
    try:
        return Meter(host, find())
    except OSError as exc:
        raise NoGroups(f"{exc.filename}: {exc.strerror}") from None


# -- removal -----------------------------------------------------------------------------------------------------------


def remove_groups(top: str) -> bool:
    """Remove a host's folder of groups and all that is in it. False when something would not go."""
    try:
        names = [entry.name for entry in os.scandir(top) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return not os.path.exists(top)
    for name in names:
        remove_group(f"{top}/{name}")
    with suppress(OSError):
        os.rmdir(top)
    return not os.path.exists(top)


def remove_group(folder: str) -> None:
    """Remove one group; what still runs in it is ended first."""
    end = time.monotonic() + time_left(REMOVE_PATIENCE, least=CLEAN_UP)
    while True:
        try:
            os.rmdir(folder)
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > end:
                return
        with suppress(OSError):
            for word in _read(f"{folder}/cgroup.procs").split():
                if int(word) > 1:  # 0: somebody whom we cannot name
                    with suppress(OSError):
                        os.kill(int(word), signal.SIGKILL)
        time.sleep(0.002)


def _weigh(tree: Hierarchy, top: str) -> None:
    """Where time is short, all sessions of this process count as much as one process on each processor."""
    processors = os.cpu_count() or 1
    name, share = ("cpu.shares", 1024) if tree.version == 1 else ("cpu.weight", 100)
    _write(f"{top}/{name}", str(min(share * processors, 10_000 if tree.version == 2 else 262_144)))


def _joiner() -> list[str]:
    """A program that joins the groups whose files it is given, and ends."""
    compiled = programs()
    if compiled is not None:
        return [compiled.init, "--join"]
    if os.path.exists(SHELL):  # starts in a tenth of the time
        return [SHELL, "-c", 'for file do echo 0 > "$file" || exit 1; done', "sh"]
    return [sys.executable, "-I", "-S", "-c", "import sys\nfor name in sys.argv[1:]: open(name, 'w').write('0')"]


def _read(path: str) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, 65536).decode("ascii", "replace")
    finally:
        os.close(handle)


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, text.encode("ascii"))
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, path) from None
    finally:
        os.close(handle)
