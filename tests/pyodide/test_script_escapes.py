"""JavaScript in the sandbox (T68): everything that it could do to the host is refused, on either kind of thread."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pyodide.attempts import ATTEMPTS, CLOSED_IMPORTS, SYNCHRONOUS, WORKER, program

from cloche import SessionSandbox
from cloche.backends.pyodide import runtime
from cloche.escapes import Canaries

PATIENCE = 30.0


@pytest.fixture(scope="module")
def canaries() -> Iterator[Canaries]:
    with Canaries() as found:
        yield found


def in_a_worker(sandbox: SessionSandbox, source: str) -> str:
    """What an attempt in a worker says of itself."""
    return sandbox.execute(f"SOURCE = {source!r}\n{WORKER}").check().stdout


@pytest.mark.parametrize("name", ATTEMPTS)
def test_with_permissions_it_has_an_effect(name: str, pyodide: runtime.Runtime, canaries: Canaries, tmp_path: Path):
    """The positive control: a silent canary means something."""
    source = program(ATTEMPTS[name], json.dumps(canaries.addresses())) + "console.log(said);\n"
    deno = subprocess.Popen(
        [pyodide.deno, "run", "-A", "--no-config", "--no-lock", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, "NO_COLOR": "1", "DENO_DIR": str(tmp_path)},
    )  # fmt: skip
    assert deno.stdin is not None
    assert deno.stdout is not None
    deno.stdin.write(source.encode())
    deno.stdin.close()
    os.set_blocking(deno.stdout.fileno(), False)
    said, end = "", time.monotonic() + PATIENCE
    try:
        while not canaries.look(said):  # a server that never answers is waited for: the connection is the effect
            assert time.monotonic() < end, said
            said += (deno.stdout.read() or b"").decode()
            time.sleep(0.01)
    finally:
        deno.kill()
        deno.wait()
        deno.stdout.close()


@pytest.mark.parametrize("name", ATTEMPTS)
def test_in_a_worker_it_is_refused(name: str, shared: SessionSandbox, canaries: Canaries):
    said = in_a_worker(shared, program(ATTEMPTS[name], json.dumps(canaries.addresses())))
    assert not canaries.look(said)
    assert said.startswith("refused"), said


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_on_the_interpreters_own_thread_it_is_refused(name: str, shared: SessionSandbox, canaries: Canaries):
    source = f"const canary = {json.dumps(canaries.addresses())}, builtin = process.getBuiltinModule;\n{ATTEMPTS[name]}"
    result = shared.execute(f"from pyodide.code import run_js\nprint(run_js({source!r}))")
    assert not canaries.look(result.stdout + result.stderr)
    assert (result.outcome, result.session_state) == ("error", "kept")


@pytest.mark.parametrize("kind", CLOSED_IMPORTS)
def test_no_module_is_loaded_from_outside(kind: str, shared: SessionSandbox):
    """`--deny-net` alone leaves these open: loading has rules of its own. Refused means: not even tried."""
    said = in_a_worker(shared, program(f"import({CLOSED_IMPORTS[kind]!r})", "{}"))
    assert said.startswith("refused"), said
    assert "Requires import access" in said or "--no-npm is specified" in said or "--no-remote" in said, said


def test_nothing_is_stored_for_the_next_session(shared: SessionSandbox):
    store = "localStorage.setItem('left', 'behind')"
    result = shared.execute(f"from pyodide.code import run_js\nrun_js({store!r})")
    assert result.outcome == "error"
    said = in_a_worker(
        shared, program("caches.open('left').then((it) => it.put('http://a/', new Response('x')))", "{}")
    )
    assert said.startswith("refused"), said


def test_a_permission_cannot_be_asked_for(shared: SessionSandbox):
    names = ["read", "write", "net", "run", "env", "ffi", "sys", "import"]
    code = f"{names}.map((name) => Deno.permissions.requestSync({{name}}).state).join()"
    result = shared.execute(f"from pyodide.code import run_js\nrun_js({code!r})").check()
    assert result.value == repr(",".join(["denied"] * len(names)))


def test_not_even_the_program_around_the_interpreter_can_be_read(shared: SessionSandbox):
    code = "Deno.readTextFileSync(new URL(Deno.mainModule))"
    assert shared.execute(f"from pyodide.code import run_js\nrun_js({code!r})").outcome == "error"


def test_the_working_directory_tells_nothing(shared: SessionSandbox):
    assert shared.execute("from pyodide.code import run_js\nrun_js('Deno.cwd()')").check().value == "'/'"
