"""A guest that shares its user with the host goes without what that user could run out of, and Python copes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable

import pytest
from tests.jail.sessions import jail, value

from cloche.backends.jail.tiers import Mode

Run = Callable[..., subprocess.CompletedProcess[str]]
SCRIPT = """
import json, cloche
cells = json.loads({cells!r})
with cloche.create_sandbox(backend="jail", policy=cloche.ExecutionPolicy(preload=("json",))) as sandbox:
    results = [sandbox.execute(cell) for cell in cells]
    print(json.dumps([[result.value, result.error] for result in results]))
"""
EPOLL = "import ctypes\nctypes.CDLL(None).epoll_create1(0)"
PASSING = """
import array, _socket, os
one, other = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_DGRAM)
rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0]))]
try:
    one.sendmsg([b"x"], rights)
    answer = "passed"
except OSError as exc:
    answer = exc.strerror
answer
"""
LARGE_PIPE = """
import fcntl, os
reader, writer = os.pipe()
try:
    answer = fcntl.fcntl(writer, 1031, 1 << 20)
except OSError as exc:
    answer = exc.strerror
answer
"""
LOOP = """
import asyncio
async def talk():
    def answer(reader, writer):
        writer.write(b"a" * 3_000_000)
        writer.close()
    server = await asyncio.start_unix_server(answer, "s")
    reader, writer = await asyncio.open_unix_connection("s")
    data = await reader.read()
    writer.close()
    server.close()
    child = await asyncio.create_subprocess_exec("/bin/echo", "child", stdout=-1)
    return len(data), (await child.communicate())[0]
asyncio.run(talk())
"""
POOL = """
import multiprocessing
with multiprocessing.Pool(2) as pool:
    answer = pool.map(abs, [-1, -2])
answer
"""
MAPPING = "import mmap\nmemory = mmap.mmap(-1, 1000)\nmemory[:3] = b'abc'\nmemory[:4], type(memory) is mmap.mmap"
ANSWERS = {
    EPOLL: "-1",
    PASSING: "'Operation not permitted'",
    LARGE_PIPE: "'Operation not permitted'",
    LOOP: "(3000000, b'child\\n')",
    POOL: "[1, 2]",
    MAPPING: "(b'abc\\x00', True)",
}


def try_cells(as_user: Run, cells: list[str], **variables: str) -> list[list[str | None]]:
    done = as_user(SCRIPT.format(cells=json.dumps(cells)), **variables)
    assert done.returncode == 0, done.stderr
    answers: list[list[str | None]] = json.loads(done.stdout)
    return answers


def test_what_is_counted_by_user_is_refused_and_the_rest_works(as_user: Run) -> None:
    assert try_cells(as_user, list(ANSWERS)) == [[answer, None] for answer in ANSWERS.values()]


def test_a_branch_of_such_a_session_works(as_user: Run) -> None:
    script = """
import cloche
with cloche.create_sandbox(backend="jail") as sandbox:
    sandbox.execute("kept = 41").check()
    with sandbox.fork() as branch:
        print(branch.execute("kept + 1").check().value)
    sandbox.savepoint()
    sandbox.execute("kept = 0").check()
    sandbox.undo()
    print(sandbox.execute("kept").check().value)
"""
    done = as_user(script)
    assert done.stdout.split() == ["42", "41"], done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's sessions have no user of their own")
def test_a_session_with_a_user_of_its_own_has_all_of_it() -> None:
    with jail() as sandbox:
        assert sandbox.isolation >= Mode.SEALED.tier(metered=False)
        assert value(sandbox, "import select\nselect.epoll().close()") is None
        assert value(sandbox, PASSING) == "'passed'"
        assert value(sandbox, LARGE_PIPE) == str(1 << 20)
