"""What a session is started from: Deno, the files of Pyodide, and a snapshot of an interpreter that has booted.

Made once per user, Deno and version of the guest, by ``cloche setup pyodide`` or by the first session.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cloche.backends.interpreter import guest_folder
from cloche.backends.pyodide import release
from cloche.errors import BackendUnavailableError
from cloche.paths import cache_dir, private_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NAMED = "CLOCHE_DENO"
INSTALL = "pip install 'cloche[pyodide]'"
FREEZE_TIMEOUT = 300.0
KEPT = 3
"""Snapshots of other versions; each is as large as the interpreter's memory."""
CLOSED = (
    "--no-prompt", "--no-config", "--no-lock",
    # Loading modules has rules of its own: without these three, import() reaches the network whatever is denied.
    "--no-remote", "--no-npm", "--cached-only",
    "--deny-net", "--deny-env", "--deny-run", "--deny-ffi", "--deny-sys", "--deny-import",
)  # fmt: skip
ENVIRONMENT = {
    "HOME": "/nonexistent",
    "NO_COLOR": "1",
    "DENO_NO_UPDATE_CHECK": "1",
    "DENO_DIR": "/dev/null/none",  # nothing is kept: what a guest stored would be there for the next one
}


@dataclass(frozen=True, slots=True)
class Runtime:
    """Everything that a session needs."""

    deno: str
    folder: Path
    snapshot: Path

    def command(self, v8_flags: Sequence[str]) -> list[str]:
        """How a session's process is started."""
        return [
            self.deno, "run", *CLOSED, "--deny-write", f"--allow-read={','.join(self.readable())}",
            f"--v8-flags={','.join(v8_flags)}", f"{_programs()}/driver.mjs", self.folder.as_uri(),
            self.snapshot.as_uri(),
        ]  # fmt: skip

    def readable(self) -> list[str]:
        """What it reads while it starts."""
        return [str(self.folder), str(self.snapshot), _programs()]


_looking = threading.Lock()


def _programs() -> str:
    return os.path.realpath(os.path.dirname(__file__))


def find_deno() -> str:
    """The Deno that is named, that is installed beside us, or that is on the search path."""
    named = os.environ.get(NAMED)
    if named:
        if not os.access(named, os.X_OK):
            raise BackendUnavailableError(f"there is no Deno at {named}", remedy=f"correct or unset {NAMED}")
        return os.path.realpath(named)
    try:
        from deno import find_deno_bin

        with _looking:  # it asks sysconfig, which answers a second thread before it knows
            return os.path.realpath(str(find_deno_bin()))
    except (ImportError, OSError):
        found = shutil.which("deno")
    if found is None:
        raise BackendUnavailableError("Deno is not installed", remedy=INSTALL)
    return os.path.realpath(found)


def ready() -> Runtime | None:
    """The runtime, where it has been set up."""
    runtime = _place()
    return runtime if runtime.snapshot.is_file() and release.is_whole(runtime.folder) else None


def set_up(tell: Callable[[str], object]) -> Runtime:
    """Fetch and build what is missing. Waits for another process that is at it."""
    runtime = _place()
    with _alone(runtime.folder.parent, tell):
        if not release.is_whole(runtime.folder):
            shutil.rmtree(runtime.folder, ignore_errors=True)
            release.obtain(runtime.deno, runtime.folder, tell)
        if not runtime.snapshot.is_file():
            tell("starting the interpreter once and keeping its memory")
            _freeze(runtime)
    return runtime


def _place() -> Runtime:
    """Where everything is, or will be."""
    deno = find_deno()
    # Permissions are granted to real paths, and a comma would end one.
    base = Path(os.path.realpath(private_folder(cache_dir() / "pyodide")))
    if "," in str(base):
        raise BackendUnavailableError(
            f"Deno cannot be given {base}", remedy="set CLOCHE_CACHE_DIR to a path without commas"
        )
    return Runtime(deno, base / release.VERSION, base / f"snapshot-{_key(deno)}.bin")


def _key(deno: str) -> str:
    """A snapshot belongs to the very Deno that made it, and to the guest that is in it."""
    status = os.stat(deno)
    text = f"{release.FILES}\0{deno}\0{status.st_size}\0{status.st_mtime_ns}\0{_sources()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def _sources() -> str:
    digest = hashlib.sha256()
    for path in (*sorted(guest_folder().glob("*.py")), Path(__file__).with_name("freeze.mjs")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@contextmanager
def _alone(folder: Path, tell: Callable[[str], object]) -> Iterator[None]:
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for another process that is setting Pyodide up")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _freeze(runtime: Runtime) -> None:
    """Make the snapshot with the Deno that will run it; try it before it counts."""
    from cloche.backends.pyodide.trial import try_out

    fresh = runtime.snapshot.with_name(f".{runtime.snapshot.name}.{os.getpid()}")
    program = os.path.realpath(Path(__file__).with_name("freeze.mjs"))
    guest = os.path.realpath(guest_folder())
    command = [
        runtime.deno, "run", *CLOSED, f"--allow-read={runtime.folder},{program},{guest}", f"--allow-write={fresh}",
        program, runtime.folder.as_uri(), Path(guest).as_uri(), fresh.as_uri(),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, env=ENVIRONMENT, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=FREEZE_TIMEOUT, check=False,
        )  # fmt: skip
        if done.returncode:
            raise BackendUnavailableError(
                "Pyodide does not start in this Deno",
                cause=" ".join(done.stderr.split())[:300],
                remedy=f"use the Deno that comes with {INSTALL}",
            )
        try_out(Runtime(runtime.deno, runtime.folder, fresh))
        fresh.replace(runtime.snapshot)
    except subprocess.TimeoutExpired:
        raise BackendUnavailableError(f"Pyodide did not start within {FREEZE_TIMEOUT:.0f} s") from None
    finally:
        fresh.unlink(missing_ok=True)
    _forget_others(runtime.snapshot)


def _forget_others(current: Path) -> None:
    with suppress(OSError):
        for left in current.parent.glob(".snapshot-*"):  # by a process that was ended
            left.unlink()
        others = [path for path in current.parent.glob("snapshot-*.bin") if path != current]
        for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
            path.unlink()
