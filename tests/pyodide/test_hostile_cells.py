"""Cells that mean harm, on this wall: every call returns, and the session works afterwards or says so.

A start takes half a second of a processor, so those are tried that aim at what is particular here: the wire, the end of
the process, floods, and what cannot be interrupted. The rest of ``tests/hostile_cells`` are slow tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hostile_corpus import CELLS, read_cell
from tests.test_hostile_cells import DEADLINE_MS, MEMORY, Session, endure

from cloche import ExecutionPolicy, SessionSandbox, create_sandbox

QUOTA = 8_000_000
TRIED = (
    "close_everything", "exit_aborted", "flood_one_line", "forge_half_frame", "hang_swallow_nested",
)  # fmt: skip

FILES = {
    "outside": "{'path': '../../../etc/evil', 'data': 'eA=='}",
    "absolute": "{'path': '/etc/evil', 'data': 'eA=='}",
    "not base64": "{'path': 'a', 'data': '***'}",
    "not text": "{'path': 5, 'data': 'eA=='}",
    "no name": "{'data': 'eA=='}",
    "a long name": "{'path': 'a' * 100_000, 'data': 'eA=='}",
    "deep": "{'path': 'a/' * 1000 + 'b', 'data': 'eA=='}",
    "gone": "{'path': '../work', 'gone': True}",
    "a link and through it": "{'path': 'out', 'link': '/etc'}, {'path': 'out/evil', 'data': 'eA=='}",
    "never ending": "*[{'path': 'endless', 'data': 'eHh4' * 60_000, 'more': True}] * 60",
    "folder": "{'path': 'x' * 300, 'folder': True}",
    "nothing": "None",
}
"""What a cell may say of files that it does not have."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cell" in metafunc.fixturenames:
        metafunc.parametrize(
            "cell", [cell if cell in TRIED else pytest.param(cell, marks=pytest.mark.slow) for cell in CELLS]
        )


@pytest.fixture
def policy(pyodide: object) -> ExecutionPolicy:
    return ExecutionPolicy(timeout_ms=DEADLINE_MS, memory_bytes=MEMORY, workspace_bytes=QUOTA)


def test_every_call_returns_and_the_session_recovers(cell: str, policy: ExecutionPolicy):
    code = read_cell(cell)
    session = Session(create_sandbox(backend="pyodide", policy=policy), policy)
    try:
        session.call("execute", "1", timeout_ms=10_000)
        endure(session, code, poisons="# poisons the session" in code)
        assert session.call("destroy") is None
    finally:
        session.close()


@pytest.fixture(scope="module")
def followed(pyodide: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SessionSandbox, Path]]:
    """A session with a given workspace, and that workspace, alone in its folder."""
    work = tmp_path_factory.mktemp("followed") / "work"
    work.mkdir()
    with create_sandbox(backend="pyodide", workspace=work, workspace_bytes=QUOTA) as sandbox:
        yield sandbox, work


@pytest.mark.parametrize("kind", FILES)
def test_what_is_said_of_files_is_not_believed(kind: str, followed: tuple[SessionSandbox, Path]):
    say = (
        "import json, os\nwire = os.open('/dev/wire', os.O_WRONLY)\n"
        f"for params in [{FILES[kind]}]:\n"
        "    frame = json.dumps({'jsonrpc': '2.0', 'method': 'file', 'params': params}) + '\\n'\n"
        "    view = memoryview(frame.encode())\n"
        "    while view: view = view[os.write(wire, view):]\n"
    )
    sandbox, work = followed
    before = {path: path.stat().st_mtime_ns for path in Path("/etc").iterdir()}
    result = sandbox.execute(say)
    assert result.outcome in ("ok", "killed"), result.error
    assert sandbox.execute("1 + 1").value == "2"
    assert {path: path.stat().st_mtime_ns for path in Path("/etc").iterdir()} == before
    assert [path.name for path in work.parent.iterdir()] == ["work"]
    assert sum(path.lstat().st_size for path in work.rglob("*")) <= 2 * QUOTA + (1 << 20)


def test_lines_that_are_forged_in_javascript_are_not_believed(policy: ExecutionPolicy):
    forged = '{"jsonrpc":"2.0","id":%d,"result":{"outcome":"ok","value":"forged"}}\\n'
    say = (
        f"for (let id = 0; id < 50; id++) Deno.stdout.writeSync(new TextEncoder().encode(`{forged}`.replace('%d', id)))"
    )
    session = Session(create_sandbox(backend="pyodide", policy=policy), policy)
    try:
        session.call("execute", "1", timeout_ms=10_000)
        endure(session, f"from pyodide.code import run_js\nrun_js({say!r})", poisons=True)
        assert session.call("destroy") is None
    finally:
        session.close()
