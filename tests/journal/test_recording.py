"""What a recorder writes down, and what of it comes back in another sandbox."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from tests.journal.conftest import native, shout

from cloche import create_async_sandbox, create_sandbox
from cloche.errors import RequestError, SessionLostError
from cloche.journal import Cell, Recorder, SessionFile, Step, replay, resume, resume_async
from cloche.testing import Script


def test_each_cell_is_written_down_with_what_came_of_it(recorded: SessionFile) -> None:
    cells = recorded.summary.cells
    assert [cell.outcome for cell in cells] == ["ok", "ok", "ok", "ok", "ok", "error", "exited"]
    assert cells[0].stdout == "HELLO\n"
    assert cells[1].value == "6"
    assert cells[4].files == ("out.txt",)
    assert cells[5].exception is not None
    assert cells[5].exception.type == "ZeroDivisionError"
    assert cells[6].exit_code == 3
    assert all(cell.duration_ms > 0 and cell.ended > recorded.summary.created for cell in cells)


def test_bridge_calls_are_written_down_with_arguments_and_answers(recorded: SessionFile) -> None:
    first, second, third, batch, *_ = recorded.summary.cells
    assert [(call.name, call.args, call.result) for call in first.calls] == [("llm_query", ["hello"], "HELLO")]
    (tool,) = second.calls
    assert (tool.args, tool.kwargs["b"]["$"], tool.result) == ([3], "set", 6)
    (deep,) = third.calls
    assert (deep.args, deep.result) == (["how long?"], len("a context\r\n\0\ud800"))
    assert sorted(call.args[0] for call in batch.calls) == ["a", "b", "wrong"]
    assert {call.failure for call in batch.calls} == {None, ("ValueError", "cannot shout that")}


def test_what_the_host_does_between_cells_is_written_down(recorded: SessionFile) -> None:
    steps = [event for event in recorded.summary.journal if isinstance(event, Step)]
    assert [step.kind for step in steps] == ["context", "variable", "file"]
    assert recorded.inputs[steps[2].data["input"]] == b"a,b\n1,2\n"


def test_variables_files_and_versions_are_in_it(recorded: SessionFile) -> None:
    summary = recorded.summary
    assert {"x": "str", "given": "tuple"}.items() <= {it.name: it.type for it in summary.variables}.items()
    assert [it.name for it in summary.skipped] == ["gen"]
    assert "generator" in summary.skipped[0].reason
    assert summary.artifacts == {"data/in.csv": 8, "out.txt": 7}
    assert summary.versions.python == ".".join(map(str, sys.version_info[:3]))
    assert summary.backend == "native"


def test_sizes_and_what_is_shared_are_in_it(record) -> None:
    saved = {it.name: it for it in record("big = b'x' * 5000; a = []; b = [a]").summary.variables}
    assert (saved["big"].size or 0) > 5000
    assert saved["big"].shares_with == ()
    assert saved["b"].shares_with == ("a",)


def test_versions_of_imported_packages_are_in_it(record) -> None:
    import cloudpickle

    assert record("import cloudpickle, json").summary.versions.packages == {"cloudpickle": cloudpickle.__version__}


def test_a_session_comes_back_in_another_sandbox(recorded: SessionFile) -> None:
    with native() as sandbox:
        assert resume(sandbox, recorded) == ()
        assert sandbox.get_variable("x") == "HELLO"
        assert sandbox.get_variable("given") == (1, b"\xff", float("inf"))
        assert sandbox.execute("context").value == repr("a context\r\n\0\ud800")
        assert sandbox.get_file("out.txt") == b"written"
        assert sandbox.execute("math.pi").value is not None


def test_the_journal_goes_on_where_it_was(recorded: SessionFile) -> None:
    with native() as sandbox:
        resume(sandbox, recorded)
        recorder = Recorder(sandbox, previous=recorded)
        sandbox.execute("x * 2")
        again = recorder.capture().summary
    assert again.journal[: len(recorded.summary.journal)] == recorded.summary.journal
    assert [getattr(event, "kind", "cell") for event in again.journal[-2:]] == ["resumed", "cell"]
    assert again.created == recorded.summary.created


def test_files_of_a_guest_are_not_put_into_a_folder_of_the_users(recorded: SessionFile, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("the user's own")
    with native(workspace=tmp_path) as sandbox:
        lost = resume(sandbox, recorded)
        assert {it.name for it in lost} == {"data/in.csv", "out.txt"}
        recorder = Recorder(sandbox, previous=recorded)
        kept = recorder.capture()
    assert (tmp_path / "out.txt").read_text() == "the user's own"
    assert kept.artifacts == recorded.artifacts, "what was kept before stays"


def test_links_are_not_followed(record, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    session = record(f"import os; os.symlink({str(tmp_path / 'secret')!r}, 'link'); open('plain', 'w').close()")
    assert list(session.artifacts) == ["plain"]


def test_more_than_fits_is_left_out_and_said(record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloche.journal.recording.ARTIFACT_BYTES", 10)
    session = record("open('a', 'w').write('x' * 11); open('b', 'w').write('x' * 9)")
    assert list(session.artifacts) == ["b"]
    assert [(it.name, "11 bytes" in it.reason) for it in session.summary.left_out] == [("a", True)]


def test_an_input_that_is_too_large_is_named_without_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloche.journal.recording.INPUT_BYTES", 10)
    with native() as sandbox:
        recorder = Recorder(sandbox)
        sandbox.put_file("a", b"x" * 11)
        assert recorder.events == [Step("file", {"path": "a", "size": 11, "input": None})]


def test_recording_that_begins_late_says_so() -> None:
    with native() as sandbox:
        sandbox.execute("x = 1")
        recorder = Recorder(sandbox)
        sandbox.execute("x")
        assert [getattr(event, "kind", "cell") for event in recorder.events] == ["began_late", "cell"]
        recorder.stop()
        sandbox.execute("x")
        sandbox.reset()
        assert len(recorder.events) == 2


def test_resets_and_restored_variables_are_written_down() -> None:
    with native() as sandbox:
        recorder = Recorder(sandbox)
        sandbox.execute("x = 1")
        saved = sandbox.snapshot()
        sandbox.reset()
        sandbox.restore(saved)
        assert [getattr(event, "kind", "cell") for event in recorder.events] == ["cell", "reset", "restore"]


def test_a_session_that_was_lost_between_cells_is_written_down() -> None:
    script = Script()
    with create_sandbox({"backend": "fake"}, script=script) as sandbox:
        recorder = Recorder(sandbox)
        sandbox.execute("x = 1")
        script.lose_session()
        with pytest.raises(SessionLostError):
            sandbox.execute("x")
        assert recorder.has_lost
        assert sandbox.execute("x").exception is not None
        session = recorder.capture()
    assert [getattr(event, "kind", "cell") for event in session.summary.journal] == ["cell", "lost", "cell"]
    assert replay(session, native).faithful


def test_a_cell_whose_listener_failed_is_written_down_as_stopped() -> None:
    def fail(stream: str, text: str) -> None:
        raise RuntimeError("the listener")

    with native(on_llm_query=shout) as sandbox:
        recorder = Recorder(sandbox)
        with pytest.raises(RuntimeError, match="the listener"):
            sandbox.execute("llm_query('a'); print('x', flush=True); y = 1\nwhile True: pass", on_output=fail)
        sandbox.execute("llm_query('b')")
        stopped, after = recorder.capture().summary.cells
    assert (stopped.outcome, len(stopped.calls), len(after.calls)) == ("cancelled", 1, 1)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.anyio
async def test_a_cell_whose_task_was_cancelled_is_written_down_as_stopped(anyio_backend: str) -> None:
    async with create_async_sandbox({"backend": "native"}) as sandbox:
        recorder = Recorder(sandbox)
        await sandbox.execute("1")
        async with anyio.create_task_group() as group:

            async def run() -> None:
                await sandbox.execute("print('up', flush=True)\nwhile True: pass", on_output=lambda *_: stop())

            def stop() -> None:
                group.cancel_scope.cancel()

            group.start_soon(run)
        await sandbox.execute("2")
    assert [event.outcome for event in recorder.events if isinstance(event, Cell)] == ["ok", "cancelled", "ok"]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.anyio
async def test_an_asynchronous_sandbox_is_recorded_alike(anyio_backend: str) -> None:
    async def think(prompt: str) -> str:
        return shout(prompt)

    async with create_async_sandbox({"backend": "native"}, on_llm_query=think) as sandbox:
        recorder = Recorder(sandbox)
        await sandbox.execute("x = llm_query('hello'); open('f', 'w').write(x)")
        with pytest.raises(RequestError, match="asynchronous"):
            recorder.capture()
        session = await recorder.capture_async()
    (cell,) = session.summary.cells
    assert [(call.args, call.result) for call in cell.calls] == [(["hello"], "HELLO")]
    assert session.artifacts == {"f": b"HELLO"}
    async with create_async_sandbox({"backend": "native"}) as sandbox:
        assert await resume_async(sandbox, session) == ()
        assert await sandbox.get_variable("x") == "HELLO"


def test_a_second_recorder_does_not_silence_the_first() -> None:
    with native() as sandbox:
        first = Recorder(sandbox)
        with pytest.raises(RequestError, match="recorded already"):
            Recorder(sandbox)
        first.stop()
        Recorder(sandbox)
