"""Without cgroups the limit on memory holds for each process, whichever way the memory is asked for."""

from __future__ import annotations

import pytest
from tests.jail.sessions import jail

import cloche

MIB = 1 << 20
POLICY = cloche.ExecutionPolicy(memory_bytes=64 * MIB, workspace_bytes=16 * MIB, timeout_ms=30_000, preload=())
PIECE = 8 * MIB
LOOP = f"""
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p

def map_memory(flags, file=-1):
    place = libc.mmap(None, ctypes.c_size_t({PIECE}), 3, flags, file, ctypes.c_long(0))
    if place == 2**64 - 1:
        raise OSError(ctypes.get_errno(), "mmap")
    ctypes.memset(place, 1, {PIECE})
    return place

held = []
try:
    while len(held) < 50:
        held.append(take())
except (OSError, MemoryError):
    pass
len(held) * {PIECE // MIB}
"""
WAYS = {
    "private": "def take(): return map_memory(0x22)",
    "shared": "def take(): return map_memory(0x21)",
    "by Python": f"def take(): return mmap.mmap(-1, {PIECE})",
    "a stack that grows": "def take(): return map_memory(0x122)",
    "huge pages": "def take(): return map_memory(0x40022)",
    "the zero device": "def take(): return map_memory(0x1, os.open('/dev/zero', os.O_RDWR))",
    "a memory file": f"def take():\n    one = os.memfd_create('x')\n    os.write(one, bytes({PIECE}))\n    return one",
    "files": f"def take():\n    one = os.open('/tmp', os.O_TMPFILE | os.O_RDWR)\n    os.write(one, bytes({PIECE}))\n"
    f"    return one",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_process_cannot_hold_more_than_its_limit(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "cgroup")
    with jail(policy=POLICY) as sandbox:
        result = sandbox.execute(WAYS[way] + LOOP).check()
        assert result.isolation is cloche.Isolation.SEALED
        assert int(result.value or 999) <= 64
