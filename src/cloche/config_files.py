"""Configuration files: which count, whose they must be, and what a file that was merely found may not set.

A file that the user named (``$CLOCHE_CONFIG``) or keeps in the configuration folder is obeyed as it is. One that is
found from the working directory upwards may have been written by anyone who can write there, the code of an earlier
session included. It counts only if nobody else can change it, and it may set limits, not what is run or opened.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cloche.errors import PolicyError
from cloche.host import guest_files
from cloche.isolation import Isolation

FILE_NAMES = ("cloche.toml", "pyproject.toml")
CONFIG_VARIABLE = "CLOCHE_CONFIG"
MAX_SIZE = 1 << 20
WALLS = ("auto", "jail", "pyodide", "wasm")
"""Backends that a file which was found may choose: real boundaries."""
KEPT_BACK = ("python", "workspace", "options", "mounts", "packages", "preload", "environment")
"""Keys that decide what is run or opened."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file that counts. `origin`: how it came to count."""

    path: Path
    origin: Literal["own", "named", "found"]

    def read(self) -> dict[str, Any]:
        """Its settings: the whole of cloche.toml, or ``[tool.cloche]`` of pyproject.toml."""
        import tomllib

        try:
            if self.origin == "found":
                content = guest_files.read_file(self.path, limit=MAX_SIZE)
            else:
                content = self.path.read_bytes()
            data = tomllib.loads(content.decode())
        except (OSError, ValueError, RecursionError) as exc:  # the last: lists in lists without end
            elsewhere = f", or unset {CONFIG_VARIABLE}" if self.origin == "named" else ""
            raise PolicyError(f"cannot read {self.path}: {exc}", remedy=f"correct the file{elsewhere}") from None
        if self.path.name == FILE_NAMES[1]:
            data = data.get("tool", {}).get("cloche", {})
        if self.origin == "found":
            self._refuse_kept_back(data)
        return data

    def _refuse_kept_back(self, data: Mapping[str, Any]) -> None:
        nested = data.get("policy")
        for given in (data, nested if isinstance(nested, Mapping) else {}):
            for key, value in given.items():
                name = snake_case(key)
                if name in KEPT_BACK:
                    self._refuse(key, "it decides what is run or opened")
                elif name == "backend" and isinstance(value, str) and value not in WALLS:
                    self._refuse(f"{key} = {value!r:.60}", f"it may choose among {', '.join(WALLS)}")
                elif name == "network" and value is True:
                    self._refuse(f"{key} = true", "it may close the network, not open it")
                elif name == "minimum_isolation" and _is_weak(value):
                    self._refuse(f"{key} = {value!r:.60}", "it may demand more than CONFINED, not less")

    def _refuse(self, what: str, why: str) -> None:
        raise PolicyError(
            f"{self.path} may not set {what}",
            cause=f"it was found from the current folder, where the code of a session may have written it; {why}",
            remedy=f"if you wrote it: {CONFIG_VARIABLE}={self.path}, or move the key to {own_file()}",
        )


def config_files(start: Path | None, environ: Mapping[str, str]) -> list[ConfigFile]:
    """Files that count, in rising order of precedence: the user's own, then the named or the found one."""
    found = []
    own = own_file(environ)
    if _is_callers(own):
        found.append(ConfigFile(own, "own"))
    nearest = nearest_file(start, environ)
    if nearest is not None and nearest.path != own:
        found.append(nearest)
    return found


def _is_callers(own: Path) -> bool:
    """Whether there is such a file of the caller's. Root may have been given another user's home."""
    try:
        status = own.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and (not hasattr(os, "getuid") or status.st_uid in (os.getuid(), 0))


def own_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The user's configuration folder. Not made here."""
    environ = os.environ if environ is None else environ
    return Path(environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "cloche"


def own_file(environ: Mapping[str, str] | None = None) -> Path:
    """Where the user's own settings are, if there are any."""
    return own_folder(environ) / FILE_NAMES[0]


def nearest_file(start: Path | None, environ: Mapping[str, str]) -> ConfigFile | None:
    """The file that ``$CLOCHE_CONFIG`` names; else the nearest upwards from `start` that may be trusted."""
    named = environ.get(CONFIG_VARIABLE)
    if named:
        path = Path(named)
        if not path.is_file():
            raise PolicyError(
                f"{CONFIG_VARIABLE} names {named}, which is not a file",
                field=CONFIG_VARIABLE,
                remedy=f"correct it, or unset {CONFIG_VARIABLE}",
            )
        return ConfigFile(path, "named")
    found = next((path for path, why in _upwards(start) if why is None), None)
    return None if found is None else ConfigFile(Path(found), "found")


def passed_over(start: Path | None = None) -> list[tuple[Path, str]]:
    """Files that would count if they could be trusted, each with why not."""
    if os.environ.get(CONFIG_VARIABLE):
        return []
    return [(Path(path), why) for path, why in _upwards(start) if why is not None]


def _upwards(start: Path | None) -> list[tuple[str, str | None]]:
    """(file, why it cannot be trusted), nearest first, up to the first that can."""
    found: list[tuple[str, str | None]] = []
    try:
        folder = os.path.abspath(start) if start is not None else os.getcwd()
    except FileNotFoundError:  # the working directory was removed
        return found
    while True:  # with plain strings: this is done for every sandbox
        base = folder.rstrip("/") + "/"
        for name in FILE_NAMES:
            if os.path.lexists(base + name):
                why = _why_not_trusted(base + name)
                if why == _ABSENT or (name == FILE_NAMES[1] and not _speaks_of_us(base + name)):
                    continue
                found.append((base + name, why))
                if why is None:
                    return found
        parent = os.path.dirname(folder)
        if parent == folder:
            return found
        folder = parent


_ABSENT = "it is no plain file"


def _why_not_trusted(path: str) -> str | None:
    """None for a plain file that nobody but the caller and root can change, or put another in the place of."""
    try:
        status, folder = os.lstat(path), os.stat(os.path.dirname(path))
    except OSError:
        return _ABSENT
    if not stat.S_ISREG(status.st_mode):
        return "it is a link" if stat.S_ISLNK(status.st_mode) else _ABSENT
    if not hasattr(os, "getuid"):  # Windows: folders have lists of rights, which say nothing here
        return None
    for what, each in (("it", status), ("its folder", folder)):
        if each.st_uid not in (os.getuid(), 0):
            return f"{what} belongs to another user (uid {each.st_uid})"
    if _others_can_write(status):
        return "others can write it"
    if _others_can_write(folder) and not folder.st_mode & stat.S_ISVTX:
        return "others can write its folder"
    return None


def _others_can_write(status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private_group(status.st_gid)


def _is_private_group(number: int) -> bool:
    """Whether a group has the user alone in it: many systems give each user such a one, which may write everything."""
    import grp
    import pwd

    if number != os.getgid():
        return False
    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


_looked_at: dict[str, tuple[tuple[int, int, int], bool]] = {}


def _speaks_of_us(project: str) -> bool:
    """Whether this pyproject.toml has a table of ours. Read again only when it has changed."""
    try:
        status = os.lstat(project)
        mark = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = _looked_at.get(project)
        if known is None or known[0] != mark:
            content = guest_files.read_file(project, limit=MAX_SIZE)
            known = _looked_at[project] = (mark, b"[tool.cloche" in content)
    except OSError:  # none there, not ours to read, or no file of a project
        return False
    return known[1]


def _is_weak(value: Any) -> bool:
    try:
        return Isolation.parse(value) < Isolation.CONFINED
    except (KeyError, ValueError):
        return False  # refused as no tier


def snake_case(name: str) -> str:
    """A key of either style in the style of Python."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
