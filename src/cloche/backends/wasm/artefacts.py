"""Guests as files: where a component lies, and what it was compiled to. Both are made once for each user.

``<cache>/wasm/components/<sources>-<tool>/bin/python.wasm`` is the guest, the same on every machine;
``<cache>/wasm/compiled/<key>.cwasm`` is machine code made of it, and ``.json`` beside it what was found out about it.
Whoever can write there decides what our workers run. So the folders are ours alone, and no guest ever sees them.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from cloche.backends.interpreter import guest_folder
from cloche.backends.wasm.engine import FLAGS
from cloche.errors import BackendUnavailableError, BinaryMissingError, MachineError
from cloche.paths import cache_dir, private_folder

FORMAT = 1
"""Of what is kept here; another number, another file."""
BINARY = Path("bin") / "python.wasm"
_LEFT_OUT = ("jail", "__pycache__")
_MAGIC = b"\0asm"
_KINDS = {b"\x0d\x00\x01\x00": "component", b"\x01\x00\x00\x00": "module"}
INSTALL = "pip install 'cloche[wasm]'"


@dataclass(frozen=True, slots=True)
class Binary:
    """A guest that can be compiled, and for which that may have been done."""

    path: Path
    kind: str
    """component: ours. module: a stock ``python.wasm`` for WASI preview 1."""
    compiled: Path

    @property
    def facts_file(self) -> Path:
        """What was found out about it."""
        return self.compiled.with_suffix(".json")

    def facts(self) -> dict[str, Any] | None:
        """None when it was not compiled yet, or not by us."""
        try:
            for file in (self.compiled, self.facts_file):
                _refuse_foreign(file)
            facts: dict[str, Any] = json.loads(self.facts_file.read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return facts


def tool_version(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def runtime_version() -> str:
    """Of wasmtime; raises where it is not installed."""
    version = tool_version("wasmtime")
    if version is None:
        raise BackendUnavailableError("the wasm backend needs wasmtime", remedy=INSTALL)
    return version


def source_files() -> list[Path]:
    """What a component is made of."""
    root = guest_folder()
    found = [*root.rglob("*.py"), *root.rglob("*.wit")]
    return sorted(path for path in found if not set(path.relative_to(root).parts) & set(_LEFT_OUT))


@cache
def _sources() -> str:
    """A short name for the guest's source as it is."""
    digest = hashlib.sha256(b"%d" % FORMAT)
    root = guest_folder()
    for path in source_files():
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def folder(name: str) -> Path:
    """A folder of the cache, ours alone."""
    return private_folder(private_folder(cache_dir() / "wasm") / name)


def packaged_component() -> Path:
    """Where a wheel may carry one."""
    return Path(__file__).parent / BINARY


def component_path() -> Path:
    """Where our component lies, or will lie when it is built."""
    packaged = packaged_component()
    if packaged.is_file():
        return packaged
    components = folder("components")
    tool = tool_version("componentize-py")
    if tool is not None:
        return components / f"{_sources()}-{tool}" / BINARY
    built = sorted(components.glob(f"{_sources()}-*/{BINARY}"))
    return built[-1] if built else components / f"{_sources()}-none" / BINARY


def locate(given: str | os.PathLike[str] | None) -> Binary:
    """The binary that was asked for, whether or not it was compiled. Raises where there is none."""
    path = component_path() if given is None else Path(given).absolute()
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as exc:
        if given is None:
            raise BinaryMissingError(
                "the guest is not built yet",
                filename=str(path),
                cause=f"{path}: {exc.strerror}",
                remedy="cloche setup wasm",
            ) from None
        raise BinaryMissingError(
            f"there is no WebAssembly binary at {path}",
            filename=str(path),
            cause=exc.strerror,
            remedy="pass wasm_binary_path=/path/to/python.wasm, or leave it out to use the one that Cloche builds",
        ) from None
    kind = _KINDS.get(head[4:]) if head[:4] == _MAGIC else None
    if kind is None:
        raise BackendUnavailableError(
            f"{path} is not a WebAssembly binary", remedy="pass a component of ours or a python.wasm for WASI preview 1"
        )
    return Binary(path, kind, _compiled_path(path))


def _compiled_path(path: Path) -> Path:
    key = f"{FORMAT} {_content(path)} {runtime_version()} {json.dumps(FLAGS, sort_keys=True)}"
    return folder("compiled") / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.cwasm"


_known: dict[Path, tuple[tuple[int, ...], str]] = {}


def _content(path: Path) -> str:
    """A hash of a file; from memory or from a note in the cache when the file is as it was."""
    status = path.stat()
    marks = (status.st_size, status.st_mtime_ns, status.st_ino)
    if path in _known and _known[path][0] == marks:
        return _known[path][1]
    name = hashlib.sha256(f"{path} {marks}".encode()).hexdigest()[:32]
    note = folder("hashes") / name
    try:
        _refuse_foreign(note)
        found = note.read_text("ascii")
    except OSError:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        write_private(note, found.encode())
    _known[path] = (marks, found)
    return found


def write_private(path: Path, data: bytes) -> None:
    """Whole or not at all, for us alone."""
    fresh = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    fresh.replace(path)


def _refuse_foreign(path: Path) -> None:
    """Machine code that somebody else could have written is not run."""
    status = path.lstat()
    foreign = hasattr(os, "getuid") and status.st_uid != os.getuid()
    if foreign or not stat.S_ISREG(status.st_mode) or status.st_mode & 0o022:
        raise MachineError(
            f"{path} is not a file of ours alone",
            cause="a compiled guest is machine code: whoever can write it can run anything as you",
            remedy=f"rm {path}, then cloche setup wasm",
        )
