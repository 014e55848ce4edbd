"""The Pyodide that sessions run: which one, where its files come from, and what they must be."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cloche.errors import BackendUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "314.0.7"
"""Of the npm package `pyodide`; the first number is the version of Python, without the point."""
PYTHON = "314"
PLATFORM = "pyemscripten_2026_0_wasm32"
FILES = {
    "pyodide.mjs": "6f1d60f7bf529beb300f0f47983c921d3982363640ba20af0e38efdddbc66109",
    "pyodide.asm.mjs": "f7cdc8ece80678ceb712f8e65ebe6d3a83203a180c399865f49612a051693635",
    "pyodide.asm.wasm": "cc36e3cab04fdfc9a63ff13eb52eae2b911bf46c025cc7b281f394bd3de1d5e6",
    "python_stdlib.zip": "fa1957e5777068fc4f7437f96d860ae2fbe9c19732ba06c84e004ec16dd7dd7a",
    "pyodide-lock.json": "5dc2fc119108bc148c7457dc86e7675b5c87e1cafd420b9c34c1eaef7b36c010",
}
"""Names and SHA-256; nothing else of the package is used."""
GIVEN = "PYODIDE_DIR"
FETCH_TIMEOUT = 300.0
BY_HAND = (
    f"put {', '.join(FILES)} of the npm package pyodide {VERSION} into a folder, set {GIVEN} to it, "
    "and type: cloche setup pyodide"
)


def obtain(deno: str, target: Path, tell: Callable[[str], object]) -> None:
    """Put the files into `target`, which appears whole or not at all."""
    given = os.environ.get(GIVEN)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        if given:
            tell(f"taking Pyodide {VERSION} from {given}")
            source = Path(given)
        else:
            tell(f"fetching Pyodide {VERSION} from the npm registry")
            source = _fetch(deno, Path(scratch))
        tell("checking its files")
        fresh = Path(scratch, "checked")
        fresh.mkdir(mode=0o700)
        for name in FILES:
            _take(source / name, fresh / name)
        fresh.rename(target)


def is_whole(folder: Path) -> bool:
    """Whether all files are there; they were checked when they came."""
    return all((folder / name).is_file() for name in FILES)


def _fetch(deno: str, scratch: Path) -> Path:
    """Have Deno download the package, from the registry that this machine is configured for."""
    package = f"npm:pyodide@{VERSION}"
    try:
        done = subprocess.run(
            [deno, "cache", "--no-config", "--no-lock", package],
            env={**os.environ, "DENO_DIR": str(scratch / "deno"), "NO_COLOR": "1", "DENO_NO_UPDATE_CHECK": "1"},
            cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_TIMEOUT, check=False,
        )  # fmt: skip
        told = done.stderr
    except subprocess.TimeoutExpired:
        told = f"no answer within {FETCH_TIMEOUT:.0f} s"
    except OSError as exc:
        told = str(exc)
    for found in (scratch / "deno").rglob("pyodide.asm.wasm"):
        return found.parent
    raise BackendUnavailableError(
        f"Pyodide {VERSION} could not be fetched from the npm registry",
        cause=" ".join(told.split())[-300:] or "nothing was downloaded",
        remedy=f"check the npm registry of this machine (NPM_CONFIG_REGISTRY, .npmrc, proxy), or {BY_HAND}",
    )


def _take(source: Path, target: Path) -> None:
    """Copy one file, and refuse it when it is not the one that was pinned."""
    try:
        shutil.copyfile(source, target)
        found = hashlib.sha256(target.read_bytes()).hexdigest()
    except OSError as exc:
        raise BackendUnavailableError(f"{source} cannot be read", cause=exc.strerror, remedy=BY_HAND) from None
    if found != FILES[source.name]:
        raise BackendUnavailableError(
            f"{source.name} is not the file of Pyodide {VERSION}",
            cause=f"its SHA-256 is {found}, not {FILES[source.name]}",
            remedy=f"somebody changed it on the way, or it is of another version; {BY_HAND}",
        )
