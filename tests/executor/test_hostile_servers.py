"""A REPL server that speaks the delimited wire as it likes: each request ends in time, in a response or an error."""

from __future__ import annotations

import random
import sys
import textwrap
from pathlib import Path

import anyio
import pytest
from tests.hostile_frames import SHAPES, frame, values
from tests.measured_host import peak_of

from cloche import REPLSettings
from cloche.errors import ClocheError
from cloche.executor import REPLRequest, ServerProcess
from cloche.executor.response import REPLResponse

MIB = 1 << 20
SETTINGS = REPLSettings(warmup_timeout_seconds=30, health_check_timeout_seconds=5, state_max_size_mb=1)
SERVER = """
import os, sys
answers = open("answers", "rb").read().split(b"\\0")
sys.stdout.buffer.write(b">>> REPL_READY <<<\\n")
sys.stdout.buffer.flush()
for line in sys.stdin.buffer:
    if line.strip() == b">>> REQUEST_END <<<":
        sys.stdout.buffer.write(answers.pop(0) if answers else b"")
        sys.stdout.buffer.flush()
"""
START, END = b">>> RESPONSE_START <<<\n", b"\n>>> RESPONSE_END <<<\n"


def answer(choose: random.Random) -> bytes:
    """A response with something else in it, or none."""
    import json

    kind = choose.randrange(6)
    if kind == 0:
        return frame(choose, 1 << 16, SHAPES).replace(b"\0", b"")
    if kind == 1:
        return START + b"[],".join([b"["] * 100_000) + END
    if kind == 2:
        return START * 3 + b"\n" * choose.choice((1, 100_000)) + END
    if kind == 3:
        return choose.choice((b"", START, END, b"x" * 100_000 + b"\n"))
    fields = ("stdout", "stderr", "exit_code", "state", "files", "error", "state_errors", "id")
    good = {"stdout": "", "stderr": "", "exit_code": 0, "state": None, "files": [], "error": None}
    wrong = {name: values(choose) for name in fields if choose.random() < 0.2}
    return START + json.dumps({**good, **wrong}).encode("ascii", "replace") + END


async def ask(folder: Path, seconds: float) -> list[object]:
    """What came of each request to one server, until it is of no use any more."""
    found: list[object] = []
    command = [sys.executable, "-I", "-c", textwrap.dedent(SERVER)]
    server = ServerProcess(command, SETTINGS, cwd=folder)
    async with anyio.create_task_group() as group:
        await group.start(server.run)
        await server.start()
        while server.ended is None and len(found) < 50:
            with anyio.fail_after(seconds + 20):
                try:
                    found.append(await server.serve(REPLRequest(code="1"), seconds))
                except ClocheError as exc:
                    found.append(exc)
                except Exception as exc:  # noqa: BLE001 - told from the errors of the tree by the test
                    found.append(exc)
                    break
        await server.destroy()
    return found


@pytest.mark.parametrize("seed", range(6))
def test_no_answer_of_a_server_harms_the_host(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    (tmp_path / "answers").write_bytes(b"\0".join(answer(choose) for _ in range(60)))
    with peak_of() as grown:
        found = anyio.run(ask, tmp_path, 0.3)
    assert found
    for it in found:
        assert isinstance(it, REPLResponse | ClocheError), repr(it)
    assert grown() < 100 * MIB
