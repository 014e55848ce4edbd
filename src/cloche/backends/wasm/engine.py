"""The engine: one set of flags for what compiles guests and for what runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wasmtime import Engine

FLAGS: dict[str, Any] = {
    "consume_fuel": True,
    "epoch_interruption": True,
    "wasm_component_model": True,
    "max_wasm_stack": 2 << 20,
}
THREAD_STACK = 16 << 20
"""Of a thread that runs a guest: its own stack, and that of the host functions it calls."""


def make_engine() -> Engine:
    """An engine with our flags."""
    from wasmtime import Config, Engine

    config = Config()
    for name, value in FLAGS.items():
        setattr(config, name, value)
    return Engine(config)
