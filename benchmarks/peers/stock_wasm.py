"""A stock ``python.wasm``, booted for each execution as sandboxes built on one do; compiled ahead, to be fair."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.row import Contender, Sampler
from benchmarks.stopwatch import MILLISECONDS, timed

NAME = "stock python.wasm, booted for each"


def boot(code: str, scale: float = MILLISECONDS) -> Contender:
    """Boot it and run this."""

    @contextmanager
    def open_engine() -> Iterator[Sampler]:
        from tests.wasm.stock import stock_binary
        from wasmtime import ExitTrap, Linker, Module, Store, WasiConfig

        from cloche.backends.wasm.building import ensure, silent
        from cloche.backends.wasm.engine import make_engine

        engine = make_engine()
        module = Module.deserialize_file(engine, str(ensure(stock_binary(), silent()).compiled))
        linker = Linker(engine)
        linker.define_wasi()
        with tempfile.TemporaryDirectory() as folder:

            def run() -> None:
                store, wasi = Store(engine), WasiConfig()
                wasi.argv = ["python", "-c", code]
                wasi.preopen_dir(folder, "/app")
                wasi.stdout_file = os.devnull
                wasi.stderr_file = str(Path(folder) / "stderr")
                store.set_wasi(wasi)
                store.set_fuel(1 << 62)
                store.set_epoch_deadline(1 << 62)
                try:
                    linker.instantiate(store, module).exports(store)["_start"](store)
                except ExitTrap as exc:
                    if exc.code:
                        raise
                finally:
                    store.close()

            def sample() -> Sequence[float]:
                return [timed(run, scale)]

            yield sample

    return Contender(NAME, open_engine)
