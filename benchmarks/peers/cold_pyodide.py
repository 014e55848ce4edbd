"""Pyodide as it comes, in Deno: booted anew for each piece of code, as sandboxes that are built on it do."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.memory import MEGABYTE, private_bytes
from benchmarks.row import Contender, NotHere, Sampler
from benchmarks.stopwatch import timed
from cloche.backends.pyodide import runtime
from cloche.errors import BackendUnavailableError

NAME = "cold Pyodide"
BOOT = """
const { loadPyodide } = await import(`${Deno.args[0]}/pyodide.mjs`);
const python = await loadPyodide({ indexURL: new URL(Deno.args[0]).pathname });
python.runPython("print('hi')");
if (Deno.args[1]) await Deno.stdin.read(new Uint8Array(1));
"""


def find_runtime() -> runtime.Runtime:
    """Deno and the files of Pyodide; fetched where they are not there yet."""
    try:
        return runtime.ready() or runtime.set_up(print)
    except BackendUnavailableError as exc:
        raise NotHere(str(exc)) from None


def _command(folder: str, *arguments: str) -> list[str]:
    found = find_runtime()
    script = Path(folder, "boot.mjs")
    script.write_text(BOOT)
    return [
        found.deno,
        "run",
        "--quiet",
        "--no-config",
        "--no-lock",
        "-A",
        str(script),
        found.folder.as_uri(),
        *arguments,
    ]


def fresh_interpreter() -> Contender:
    """Boot it, run one line, end it."""

    @contextmanager
    def open_peer() -> Iterator[Sampler]:
        with tempfile.TemporaryDirectory() as folder:
            command = _command(folder)

            def sample() -> Sequence[float]:
                return [timed(lambda: subprocess.run(command, check=True, capture_output=True))]

            yield sample

    return Contender(NAME, open_peer)


def idle_interpreter() -> Contender:
    """What one has of memory for itself after a line."""

    @contextmanager
    def open_peer() -> Iterator[Sampler]:
        with tempfile.TemporaryDirectory() as folder:
            command = _command(folder, "wait")

            def sample() -> Sequence[float]:
                with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                    assert process.stdout is not None
                    process.stdout.readline()
                    try:
                        return [private_bytes(process.pid) / MEGABYTE]
                    finally:
                        process.kill()

            yield sample

    return Contender(NAME, open_peer)
