"""Finding a Python to run, and knowing it: version, search path, the guest compiled for it. Looked at once, cached."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cloche.errors import BackendUnavailableError, MachineError
from cloche.paths import cache_dir

OLDEST = (3, 8)
LOOK_TIMEOUT = 20.0
_PYC_REST = b"\0" * 12  # flags, time and size: not checked for a file that is run by path


class Interpreter(NamedTuple):  # half a millisecond less than a dataclass, in every process
    """A Python that can run the guest."""

    executable: str
    version: tuple[int, int, int]
    path: tuple[str, ...]
    prefix: str
    exec_prefix: str
    base_prefix: str
    flavour: str
    bundle: Path | None
    """The guest compiled for this interpreter; None when it starts from source, as the cache cannot be written."""
    located: str
    """What the host runs: the executable, or a link or a script that leads to it."""

    def command(self) -> list[str]:
        """How to start the guest."""
        flags = [self.executable, "-I", "-S", "-X", "utf8"]
        if self.bundle is not None:
            return [*flags, str(self.bundle)]
        return [*flags, str(guest_folder() / "bundle.py"), "run", self.flavour]


@cache
def guest_folder() -> Path:
    """Where the guest's source lies."""
    try:
        import cloche_guest
    except ImportError:
        raise MachineError(
            "the package cloche_guest is not installed", remedy="pip install --force-reinstall cloche"
        ) from None
    return Path(cloche_guest.__file__).parent


@cache
def _source_marks() -> str:
    """Changes with the guest's source. By size and time: reading it all would cost each process a millisecond."""
    marks, folders = [], [str(guest_folder())]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    marks.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
                elif "." not in entry.name and entry.is_dir():
                    folders.append(entry.path)
    return "\0".join(sorted(marks))


def locate(python: str | os.PathLike[str] | None) -> str:
    """The executable that was asked for: a path, a name on PATH, or this process's own interpreter."""
    if python is None:
        candidate = sys.executable or shutil.which("python3") or shutil.which("python")
        if not candidate:
            raise BackendUnavailableError(
                "no Python interpreter was found", remedy="install Python 3.8 or later, or pass python=/path/to/python"
            )
        return candidate
    name = os.fspath(python)
    found = shutil.which(name)
    if found is None:
        raise BackendUnavailableError(
            f"there is no Python interpreter at {name!r}", remedy="pass python=/path/to/python3 (3.8 or later)"
        )
    return os.path.abspath(found)


_known: dict[tuple[str, str], tuple[tuple[int, ...], Interpreter]] = {}


def examine(python: str | os.PathLike[str] | None = None, flavour: str = "guest") -> Interpreter:
    """Everything about an interpreter; from memory or the cache when nothing has changed on disk."""
    located = locate(python)
    known = _known.get((located, flavour))
    if known is not None and _marks_of(located, known[1]) == known[0]:
        return known[1]
    interpreter = _from_cache(located, flavour) or _look(located, flavour)
    _known[located, flavour] = (_marks_of(located, interpreter), interpreter)
    return interpreter


def _marks_of(located: str, interpreter: Interpreter) -> tuple[int, ...]:
    """What must not have changed: also the compiled guest, since a cache may be removed at any time."""
    bundle = () if interpreter.bundle is None else (str(interpreter.bundle),)
    return _signature(located, interpreter.path + bundle)


def version_of(python: str) -> tuple[int, int, int]:
    """The version by ``python --version``; raises `BackendUnavailableError` when it is too old or not Python."""
    import subprocess

    try:
        done = subprocess.run(
            [python, "--version"],
            capture_output=True,
            text=True,
            timeout=LOOK_TIMEOUT,
            stdin=subprocess.DEVNULL,
            check=False,
            cwd=os.sep,
        )
        words = (done.stdout or done.stderr).split()
        parts = words[1].split(".")
        version = (int(parts[0]), int(parts[1]), int("".join(c for c in parts[2] if c.isdigit()) or 0))
    except (OSError, subprocess.SubprocessError, IndexError, ValueError) as exc:
        raise BackendUnavailableError(
            f"{python} is not a working Python",
            cause=f"--version: {exc}",
            remedy="pass python=/path/to/python3 (3.8 or later)",
        ) from None
    if version < OLDEST:
        raise BackendUnavailableError(
            f"{python} is Python {'.'.join(map(str, version))}; the guest needs 3.8 or later",
            remedy="pass python=/path/to/a/newer/python3",
        )
    return version


def _signature(located: str, path: tuple[str, ...]) -> tuple[int, ...]:
    """Changes when the interpreter or a folder of its search path does (a package was installed)."""
    marks = []
    for name in (located, *path):
        try:
            status = os.stat(name)
            marks += [status.st_mtime_ns, status.st_size]
        except OSError:
            marks += [0, 0]
    return tuple(marks)


def _key(located: str, flavour: str) -> str:
    """What a file in the cache is for. Its name is a mere sum of this, which is checked again in the file."""
    return f"{located}\0{flavour}\0{_source_marks()}"


def _cache_file(located: str, flavour: str) -> Path | None:
    try:
        folder = cache_dir() / "guests"
        folder.mkdir(mode=0o700, exist_ok=True)
    except (OSError, MachineError):
        return None
    key = os.fsencode(_key(located, flavour))
    return folder / f"{zlib.crc32(key):08x}{zlib.adler32(key):08x}.json"


def _from_cache(located: str, flavour: str) -> Interpreter | None:
    file = _cache_file(located, flavour)
    if file is None:
        return None
    try:
        data = json.loads(file.read_text("utf-8"))
        interpreter = _interpreter(located, data, flavour, file.with_suffix(".pyc"))
        fresh = data["key"] == _key(located, flavour)
        fresh = fresh and list(_signature(located, interpreter.path)) == data["signature"]
        whole = file.with_suffix(".pyc").stat().st_size == data["size"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return interpreter if fresh and whole else None


def _look(located: str, flavour: str) -> Interpreter:
    """Ask the interpreter about itself, and have it compile the guest.

    That runs as the host, unjailed: ``-S``, so that no code of its site-packages runs, which a guest may have written.
    """
    import subprocess  # not needed where the answer is known

    try:
        done = subprocess.run(
            [located, "-I", "-S", "-X", "utf8", str(guest_folder() / "bundle.py"), "describe", flavour],
            capture_output=True, timeout=LOOK_TIMEOUT, stdin=subprocess.DEVNULL, check=True, cwd=os.sep,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": os.path.expanduser("~")},
        )  # fmt: skip
        line, _, code = done.stdout.partition(b"\n")
        data = json.loads(line)
    except (OSError, subprocess.SubprocessError, ValueError) as exc:
        version_of(located)  # names an old or broken interpreter
        detail = getattr(exc, "stderr", b"") or b""
        raise BackendUnavailableError(
            f"{located} could not prepare the guest", cause=detail.decode("utf-8", "replace").strip()[-300:] or str(exc)
        ) from None
    if tuple(data["version"]) < OLDEST:
        version_of(located)
    if data.get("implementation") != "cpython":
        raise BackendUnavailableError(
            f"{located} is {data.get('implementation')}; the guest needs CPython",
            remedy="pass python=/path/to/a/cpython (3.8 or later)",
        )
    return _interpreter(located, data, flavour, _store(located, flavour, data, code))


def _store(located: str, flavour: str, data: dict[str, Any], code: bytes) -> Path | None:
    """Keep it for later starts; new file first, then switch, so that a reader never sees half of one."""
    compiled = bytes.fromhex(data["magic"]) + _PYC_REST + code
    file = _cache_file(located, flavour)
    if file is None:
        return _unkept(flavour, compiled)
    bundle = file.with_suffix(".pyc")
    data |= {
        "key": _key(located, flavour),
        "signature": list(_signature(located, tuple(data["path"]))),
        "size": len(compiled),
    }
    try:
        for target, content in (
            (bundle, compiled),
            (file, json.dumps(data).encode()),
        ):
            fresh = target.with_name(f".{target.name}.{os.urandom(6).hex()}")
            fresh.write_bytes(content)
            fresh.replace(target)
    except OSError:
        return _unkept(flavour, compiled)
    return bundle


def _unkept(flavour: str, compiled: bytes) -> Path | None:
    """Where the cache cannot be written: the jail's guest in memory, which its init opens through this process. Other
    guests start from their source."""
    if flavour != "jail" or sys.platform != "linux":
        return None
    try:
        memory = os.memfd_create("cloche-guest", os.MFD_CLOEXEC)
        os.write(memory, compiled)
    except OSError:
        return None
    return Path(f"/proc/{os.getpid()}/fd/{memory}")


def _interpreter(located: str, data: dict[str, Any], flavour: str, bundle: Path | None) -> Interpreter:
    major, minor, micro = data["version"]
    return Interpreter(
        executable=str(data["executable"]),
        version=(int(major), int(minor), int(micro)),
        path=tuple(map(str, data["path"])),
        prefix=str(data["prefix"]),
        exec_prefix=str(data["exec_prefix"]),
        base_prefix=str(data["base_prefix"]),
        flavour=flavour,
        bundle=bundle,
        located=located,
    )
