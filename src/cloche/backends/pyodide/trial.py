"""A trial of a freshly made runtime: one process, one cell."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from cloche.backends.pyodide.process import DenoProcess, Kind
from cloche.errors import BackendUnavailableError
from cloche.session.frames import encode_frame

if TYPE_CHECKING:
    from cloche.backends.pyodide.runtime import Runtime

PATIENCE = 60.0


def try_out(runtime: Runtime) -> None:
    """Raises unless the guest computes."""
    process = DenoProcess(Kind(runtime, 1 << 28, ()))
    try:
        process.wire.settimeout(PATIENCE)
        process.wire.send(
            encode_frame({"jsonrpc": "2.0", "id": 1, "method": "execute", "params": {"code": "6 * 7", "cell": 1}})
        )
        answer = _line(process)
        if json.loads(answer)["result"]["value"] != "42":
            raise ValueError(answer[:200])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        process.popen.kill()
        told = os.read(process.stderr, 2000) if process.popen.wait() is not None else b""
        raise BackendUnavailableError(
            "Pyodide was set up, and does not run",
            cause=" ".join(told.decode("utf-8", "replace").split()) or repr(exc),
            remedy="type: cloche setup pyodide",
        ) from None
    finally:
        process.close()


def _line(process: DenoProcess) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        part = process.wire.recv(1 << 18)
        if not part:
            raise ValueError("it ended")
        received += part
    return received
