"""Places from which the host runs code, or which it obeys: no guest writes there, whatever folder it is given.

A workspace or a writable mount may contain them: a project with its virtual environment in it, a home folder with the
cache and the configuration. Where a wall has a view, these parts are covered read-only in it, and the folders on the
way to them are pinned, so that none can be moved away and another put in its place. Where it has none, the folder is
refused.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from cloche.backends.daemon.places import Places
from cloche.backends.interpreter import guest_folder
from cloche.backends.jail.outside_users import LOCK_FOLDER
from cloche.config_files import own_folder
from cloche.errors import MachineError, WorkspaceFileError
from cloche.paths import cache_dir, sessions_dir, state_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloche.backends.interpreter import Interpreter
    from cloche.session.workspace import Workspace

SYSTEM_PREFIXES = ("/", "/usr", "/usr/local")
"""Prefixes of interpreters that hold much besides: of these, the search path and the executable are protected."""
PARTS_OF_PREFIX = ("bin", "lib", "lib64", "include", "pyvenv.cfg")
LANDMARKS = ("pyvenv.cfg", "._pth", "pybuilddir.txt")
"""Ends of names of files beside or above a Python which tell it where its library is, also one that had none before."""
_PACKAGES = ("site-packages", "dist-packages")
MAX_COVERS = 64


class Cover(NamedTuple):
    """What of a folder is not the guest's, by path below it: `covered` read-only, `pinned` in its place."""

    covered: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()


class ProtectedPlaces:
    """What is to be kept from the guests of this process. Paths as they are used, with the links on them."""

    def __init__(self, interpreter: Interpreter | None = None, more: Iterable[str] = ()) -> None:
        """`interpreter`: that of the session, beside the one that this process runs in. `more`: of a client."""
        prefixes, self._places = _places_of_interpreters(interpreter)
        self._prefixes = sorted(prefixes)
        self._places |= {*_own_packages(), os.path.dirname(LOCK_FOLDER), *more}
        for find in (cache_dir, state_dir, sessions_dir):
            with suppress(MachineError):
                self._places.add(str(find()))
        # whose names are made up as they are needed; a folder in there is anybody's
        self._temporary = os.path.realpath(tempfile.gettempdir())
        self._to_be_made = (str(own_folder()), str(Places.default().folder))

    def all(self) -> list[str]:
        """As they are sent to a daemon, which has an interpreter of its own."""
        return sorted({*self._places, *self._prefixes, *self._to_be_made})

    def within(self, folder: str) -> Cover:
        """What must be covered in a folder that a guest may write. Raises where that cannot be done."""
        root = os.path.realpath(folder)
        if root == "/":
            raise _refused(folder, "/", "it holds the host itself")
        covered: set[str] = set()
        for place in self._concerned(root):
            links, real = _resolved(place)
            if _lies_in(root, real):
                raise _refused(folder, place, "the folder lies in it")
            if not _lies_in(real, root):
                real = ""
            if any(_lies_in(link, root) and not any(_lies_in(link, other) for other in covered) for link in links):
                raise _refused(folder, place, "it is reached by a link in the folder, which could be replaced")
            if real and not any(_lies_in(real, other) for other in covered):
                covered = {other for other in covered if not _lies_in(other, real)} | {real}
        for place in self._places:
            if place.endswith(LANDMARKS) and not os.path.lexists(place):
                real = os.path.realpath(place)
                if _lies_in(real, root) and not any(_lies_in(real, other) for other in covered):
                    raise _refused(folder, place, "it is not there, and cannot be kept from being made")
        if len(covered) > MAX_COVERS:
            raise _refused(folder, min(covered), f"it and {len(covered) - 1} others lie in the folder")
        inside = sorted(os.path.relpath(path, root) for path in covered)
        return Cover(tuple(inside), tuple(sorted({above for path in inside for above in _folders_above(path)})))

    def refuse(self, folder: str) -> None:
        """For a wall that cannot cover anything: raise if there is something to be covered."""
        cover = self.within(folder)
        if cover.covered:
            raise _refused(folder, os.path.join(folder, cover.covered[0]), "this wall cannot keep a part read-only")

    def _concerned(self, root: str) -> list[str]:
        """Existing places, outermost first. Of a prefix that is or holds the folder, what Python reads in it."""
        places = set(self._places)
        for prefix in self._prefixes:
            if _lies_in(root, os.path.realpath(prefix)):
                places |= {os.path.join(prefix, part) for part in PARTS_OF_PREFIX}
            else:
                places.add(prefix)
        if _lies_in(self._temporary, root):
            places.add(self._temporary)
        for place in self._to_be_made:
            if _lies_in(os.path.realpath(place), root):  # of these, only the files directly in them count
                with suppress(OSError):  # else the guest could make it, and would be obeyed
                    os.makedirs(place, mode=0o700, exist_ok=True)
                places.add(place)
        return sorted(place for place in places if os.path.lexists(place))


def refuse_protected(workspace: Workspace) -> None:
    """For walls that give a folder of the host as it is."""
    ProtectedPlaces(more=workspace.protected).refuse(str(workspace.root))


def _places_of_interpreters(interpreter: Interpreter | None) -> tuple[set[str], set[str]]:
    """(prefixes that are an interpreter's alone, other places)."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    searched, executables = {*sys.path}, {sys.executable}
    if interpreter is not None:
        prefixes |= {interpreter.prefix, interpreter.exec_prefix, interpreter.base_prefix}
        searched |= {*interpreter.path}
        executables |= {interpreter.executable, interpreter.located}
    prefixes = {os.path.abspath(prefix) for prefix in prefixes if prefix}
    places = {path for path in executables if path}
    for path in {*places, *map(os.path.realpath, places)} - _scripts(interpreter):
        folder = os.path.dirname(path)
        places |= {os.path.join(os.path.dirname(folder), LANDMARKS[0]), f"{path}._pth"}
        places |= {os.path.join(folder, name) for name in (LANDMARKS[0], LANDMARKS[2])}
    # what else is searched may be a project's own source, which is the guest's to change
    for path in searched:
        if os.path.isabs(path) and (
            os.path.basename(path) in _PACKAGES or any(path != prefix and _lies_in(path, prefix) for prefix in prefixes)
        ):
            places.add(path)
    return {prefix for prefix in prefixes if prefix not in SYSTEM_PREFIXES}, places


def _scripts(interpreter: Interpreter | None) -> set[str]:
    """What leads to an interpreter and is none itself: no more than the file counts."""
    if interpreter is None or os.path.realpath(interpreter.located) == os.path.realpath(interpreter.executable):
        return set()
    return {interpreter.located, os.path.realpath(interpreter.located)}


def _own_packages() -> list[str]:
    """Where we are ourselves, also where that is a checkout."""
    return [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), str(guest_folder())]


def _resolved(path: str) -> tuple[list[str], str]:
    """(links on the way, each by the path that leads to it without links; where the path leads)."""
    links: list[str] = []
    real, pending = "/", [part for part in reversed(os.path.abspath(path).split("/")) if part]
    while pending:
        part = pending.pop()
        if part == "..":
            real = os.path.dirname(real)
            continue
        here = os.path.join(real, part)
        try:
            target = os.readlink(here)
        except OSError:  # no link, or nothing
            real = here
            continue
        links.append(here)
        if len(links) > 40:
            break
        if target.startswith("/"):
            real = "/"
        pending += [each for each in reversed(target.split("/")) if each not in ("", ".")]
    return links, real


def _folders_above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _refused(folder: str, place: str, why: str) -> WorkspaceFileError:
    return WorkspaceFileError(
        f"{folder} cannot be given to a guest to write to",
        cause=f"the host runs code from {place} or obeys what is in it; {why}",
        remedy="give a folder that neither holds it nor lies in it, or mount it read-only; the jail with namespaces"
        " (cloche doctor) covers such a part of a folder",
    )
