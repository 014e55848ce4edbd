"""A call back from wasmtime whenever somebody has moved the engine's epoch on: the one moment to stop a guest."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from wasmtime import WasmtimeError
from wasmtime import _ffi as ffi

if TYPE_CHECKING:
    from collections.abc import Callable

    from wasmtime import Store

_CONTINUE = 0
_call: Any = ffi.wasmtime_store_epoch_deadline_callback
_signature = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.POINTER(ffi.wasmtime_context_t),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_uint8),
)
_finalizer = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_live: dict[int, Callable[[], str | None]] = {}


def _on_epoch(_context: Any, key: int | None, delta: Any, kind: Any) -> int:
    reason = _live[key or 0]()
    if reason is not None:
        return ctypes.cast(WasmtimeError(reason)._consume(), ctypes.c_void_p).value or 0
    delta[0], kind[0] = 1, _CONTINUE
    return 0


def _forget(key: int | None) -> None:
    _live.pop(key or 0, None)


_on_epoch_c = _signature(_on_epoch)
_forget_c = _finalizer(_forget)


def on_every_epoch(store: Store, look: Callable[[], str | None]) -> None:
    """Have `look` called on the store's own thread; a text that it returns ends the guest."""
    key = id(look)
    _live[key] = look
    _call(store.ptr(), _on_epoch_c, key, _forget_c)
