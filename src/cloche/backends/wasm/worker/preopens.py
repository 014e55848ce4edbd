"""Giving a guest its folders by descriptor. wasmtime takes a path alone, so the path is that of the descriptor."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wasmtime import WasiConfig

_LONGEST = 1024


def preopen(wasi: WasiConfig, descriptors: Sequence[int], folders: Sequence[tuple[str, bool]]) -> None:
    """Give the guest these folders: (what it knows one as, whether it may change it)."""
    for descriptor, (name, writable) in zip(descriptors, folders, strict=True):
        wasi.preopen_dir(_path(descriptor), name, writable)


def _path(descriptor: int) -> str:
    """A path that leads to what the descriptor is open on, whatever has its name by now."""
    get_path: int | None = getattr(fcntl, "F_GETPATH", None)
    if get_path is None:
        return f"/proc/self/fd/{descriptor}"
    found: bytes = fcntl.fcntl(descriptor, get_path, bytes(_LONGEST))  # where it is, without a link on the way
    return os.fsdecode(found.rstrip(b"\0"))
