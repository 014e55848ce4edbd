"""Making guests: once for each user, in processes of their own, with somebody told how far it is."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cloche.backends.interpreter import guest_folder
from cloche.backends.interpreter import locate as locate_interpreter
from cloche.backends.wasm import artefacts
from cloche.errors import BackendUnavailableError, BinaryMissingError, StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloche.backends.wasm.artefacts import Binary

STEPS = {
    "wait": "waiting for another process that builds the guest",
    "build": "building the guest: CPython with the standard library in memory",
    "compile": "compiling the guest for this machine",
}
USUAL = {"build": 30.0, "compile": 20.0}
"""Seconds that a step takes on a machine of two processors."""
BAR = 30
PATIENCE = 900.0
KEPT = 30 * 86400.0
"""Seconds after which a guest that nobody used is removed."""
_LOOK = 0.1


class Progress:
    """Says what is being done, and how far that is."""

    def __init__(self, tell: Callable[[str], object], advance: Callable[[float], object]) -> None:
        self._tell = tell
        self._advance = advance
        self._step = ""

    def __call__(self, step: str, fraction: float) -> None:
        """`step` is so far, from 0 to 1."""
        if step != self._step:
            self._step = step
            self._tell(STEPS[step])
        self._advance(fraction)


def silent() -> Progress:
    """For nobody."""
    return Progress(str, float)


def on_terminal() -> Progress:
    """For a person who waits for a first session: a bar on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        return silent()
    said = ""

    def tell(sentence: str) -> None:
        nonlocal said
        said = sentence
        advance(0.0)

    def advance(fraction: float) -> None:
        filled = round(fraction * BAR)
        sys.stderr.write(
            f"\r\x1b[Kcloche: {said} [{'#' * filled}{'.' * (BAR - filled)}]{chr(10) if fraction == 1 else ''}"
        )
        sys.stderr.flush()

    return Progress(tell, advance)


def ensure(given: str | os.PathLike[str] | None, progress: Progress) -> Binary:
    """A binary that is compiled; makes what is missing. One process at a time does that for all of this user's."""
    with contextlib.suppress(BinaryMissingError):
        binary = artefacts.locate(given)
        if binary.facts() is not None:
            return binary
    with _lock(progress):
        if given is None and not artefacts.component_path().is_file():
            _build(artefacts.component_path(), progress)
        binary = artefacts.locate(given)
        if binary.facts() is None:
            _compile(binary, progress)
            _sweep(binary)
    return binary


@contextlib.contextmanager
def _lock(progress: Progress) -> Iterator[None]:
    with open(artefacts.folder("compiled").parent / "lock", "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress("wait", 0.0)
                time.sleep(_LOOK)
        yield


def _build(target: Path, progress: Progress) -> None:
    """Our component, of the guest's source."""
    if artefacts.tool_version("componentize-py") is None:
        raise BackendUnavailableError(
            "the guest is not built yet, and what builds it is not installed", remedy=artefacts.INSTALL
        )
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=target.parent) as scratch:
        stage = Path(scratch)
        root = guest_folder()
        for path in artefacts.source_files():
            copy = stage / "source" / "cloche_guest" / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        shutil.copyfile(root / "wasm" / "component.py", stage / "source" / "component.py")
        made = stage / "python.wasm"
        wit = stage / "source" / "cloche_guest" / "wasm" / "session.wit"
        script = Path(__file__).parent / "worker" / "build.py"
        _run(
            [str(script), str(wit), str(stage / "source"), str(made), *module_path("componentize_py")],
            "build",
            progress,
        )
        made.chmod(0o600)
        made.replace(target)


def _compile(binary: Binary, progress: Progress) -> None:
    """Machine code, and what a first session tells about it."""
    fresh = binary.compiled.with_name(f".{binary.compiled.name}.{os.urandom(6).hex()}")
    script = Path(__file__).parent / "worker" / "compile.py"
    try:
        found = _run(
            [str(script), str(binary.path.absolute()), str(fresh.absolute()), *module_path("wasmtime")],
            "compile",
            progress,
        )
        facts = json.loads(found)
        fresh.replace(binary.compiled)
    except ValueError:
        raise StartError("compiling the guest went wrong", cause=found[-300:]) from None
    finally:
        fresh.unlink(missing_ok=True)
    artefacts.write_private(binary.facts_file, json.dumps(facts).encode())


def _run(arguments: list[str], stage: str, progress: Progress) -> str:
    """Run a program of ours and return what it printed. How far it is can only be guessed from the time."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            [locate_interpreter(None), "-I", "-S", "-X", "utf8", *arguments],
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={}, start_new_session=True, cwd="/",
        )  # fmt: skip
        try:
            while True:
                took = time.monotonic() - begun
                progress(stage, took / (took + USUAL[stage] / 2))
                try:
                    process.wait(_LOOK)
                    break
                except subprocess.TimeoutExpired:
                    if took > PATIENCE:
                        raise StartError(f"the guest could not be made within {PATIENCE:.0f} seconds") from None
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        err.seek(0)
        if process.returncode:
            said = [line for line in err.read().splitlines() if line.strip()]
            raise StartError(
                f"the guest could not be made (step {stage})",
                cause=(said or [f"status {process.returncode}"])[-1][:300],
            )
        progress(stage, 1.0)
        return out.read()


def module_path(module: str) -> list[str]:
    """Where a program of ours finds what it imports: this package, and a package that it needs."""
    import importlib.util

    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise BackendUnavailableError(f"the wasm backend needs {module}", remedy=artefacts.INSTALL)
    ours = str(Path(__file__).parents[3])
    guests = str(guest_folder().parent)
    return list(dict.fromkeys([ours, guests, str(Path(spec.origin).parents[1])]))


def _sweep(binary: Binary) -> None:
    """Remove what nobody has used for a long time: each change of the guest or of a tool makes another."""
    limit = time.time() - KEPT
    for path in [*artefacts.folder("compiled").iterdir(), *artefacts.folder("components").iterdir()]:
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < limit and path not in (binary.compiled, binary.facts_file):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
