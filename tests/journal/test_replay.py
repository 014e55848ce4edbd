"""Replaying: the same again without anybody being asked, and the first difference told precisely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.journal.conftest import native

from cloche import RequestError, create_sandbox
from cloche.journal import BridgeCall, Cell, Divergence, Recorder, ReplayReport, SessionFile, Step, replay, resume

Record = Callable[..., SessionFile]


def edited(session: SessionFile, number: int, **changes: Any) -> SessionFile:
    """The session with another cell `number`."""
    journal = list(session.summary.journal)
    place = [place for place, event in enumerate(journal) if isinstance(event, Cell)][number - 1]
    cell = journal[place]
    assert isinstance(cell, Cell)
    journal[place] = replace(cell, **changes)
    return with_journal(session, journal)


def with_journal(session: SessionFile, journal: list[Any]) -> SessionFile:
    return replace(session, summary=replace(session.summary, journal=tuple(journal)))


def difference(session: SessionFile, **options: Any) -> Divergence:
    report = replay(session, lambda **given: native(**given, **options))
    assert report.divergence is not None
    assert not report.faithful
    assert report.replayed == report.divergence.cell - 1
    return report.divergence


def test_a_session_comes_out_as_recorded_without_any_model_or_tool(recorded: SessionFile) -> None:
    assert replay(recorded, native) == ReplayReport(cells=7, replayed=7, calls=6, divergence=None)


def test_a_session_file_is_replayed_like_the_session(recorded: SessionFile) -> None:
    assert replay(SessionFile.from_bytes(recorded.to_bytes()), native).faithful


def test_progress_is_told_cell_by_cell(recorded: SessionFile) -> None:
    seen: list[tuple[int, int]] = []
    replay(recorded, native, on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 7) for done in range(8)]


# -- differences -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain() -> SessionFile:
    with native(on_llm_query=str.upper) as sandbox:
        recorder = Recorder(sandbox)
        for code in ("x = 1", "print('one')\nprint('two')", "x + 1", "raise KeyError('k')", "print(llm_query('hi'))"):
            sandbox.execute(code)
        return recorder.capture()


@pytest.mark.parametrize(
    ("number", "change", "told"),
    [
        (2, {"stdout": "one\nthree\n"}, ("stdout", "line 2: three\n", "line 2: two\n")),
        (2, {"stdout": "one\n"}, ("stdout", "line 2: (end)", "line 2: two\n")),
        (3, {"value": "3"}, ("value", "3", "2")),
        (3, {"value": None}, ("value", "nothing", "2")),
        (1, {"outcome": "timeout", "exit_code": 124}, ("outcome", "timeout", "ok")),
        (4, {"outcome": "ok", "exit_code": 0}, ("outcome", "ok: KeyError: 'k'", "error: KeyError: 'k'")),
    ],
)
def test_the_first_difference_is_told(
    plain: SessionFile, number: int, change: dict[str, Any], told: tuple[str, str, str]
) -> None:
    found = difference(edited(plain, number, **change))
    assert (found.cell, found.aspect, found.expected, found.came) == (number, *told)
    assert found.code == plain.summary.cells[number - 1].code


def test_another_type_of_exception_is_a_difference(plain: SessionFile) -> None:
    raised = plain.summary.cells[3].exception
    assert raised is not None
    found = difference(edited(plain, 4, exception=replace(raised, type="IndexError")))
    assert (found.aspect, found.expected, found.came) == ("exception", "IndexError", "KeyError")


@pytest.mark.parametrize(
    ("calls", "expected", "came"),
    [
        ((), "no further call", 'llm_query("hi")'),
        ((BridgeCall("llm_query", ["ho"], {}, "HO"),), 'llm_query("ho")', 'llm_query("hi")'),
        (
            (BridgeCall("llm_query", ["hi"], {}, "HI"), BridgeCall("llm_query", ["more"], {"n": 1}, "MORE")),
            'llm_query("more", n=1)',
            "no such call was made",
        ),
    ],
    ids=["not recorded", "other arguments", "not made"],
)
def test_a_bridge_call_that_differs_is_a_difference(
    plain: SessionFile, calls: tuple[BridgeCall, ...], expected: str, came: str
) -> None:
    found = difference(edited(plain, 5, calls=calls))
    assert (found.cell, found.aspect, found.expected, found.came) == (5, "bridge", expected, came)


def test_a_recorded_answer_is_what_the_cell_gets(plain: SessionFile) -> None:
    calls = (BridgeCall("llm_query", ["hi"], {}, "another"),)
    found = difference(edited(plain, 5, calls=calls))
    assert (found.aspect, found.came) == ("stdout", "another\n")


def test_chance_is_found_out(record: Record) -> None:
    found = difference(record("x = 1", "import os; os.urandom(8).hex()", "x"))
    assert (found.cell, found.aspect) == (2, "value")


def test_addresses_are_not_compared(record: Record) -> None:
    session = record("class A: pass", "print(A()); [A()]")
    changed = edited(session, 2, stdout=session.summary.cells[1].stdout.replace("0x7", "0x6"))
    assert replay(changed, native).faithful


def test_recording_that_began_late_is_given_as_the_likely_reason() -> None:
    with native() as sandbox:
        sandbox.execute("x = 1")
        recorder = Recorder(sandbox)
        sandbox.execute("x")
        session = recorder.capture()
    assert "recording began" in (difference(session).hint or "")


# -- what happened between cells -------------------------------------------------------------------


def test_a_session_that_was_resumed_loses_in_replay_what_it_lost_then(record: Record) -> None:
    session = record("kept = 1; lost = (i for i in [])", on_llm_query=str.upper)
    with native() as sandbox:
        resume(sandbox, session)
        recorder = Recorder(sandbox, previous=session)
        assert sandbox.execute("kept, lost").exception is not None
        session = recorder.capture()
    assert replay(session, native).faithful
    without = [event for event in session.summary.journal if not (isinstance(event, Step) and event.kind == "resumed")]
    assert difference(with_journal(session, without)).cell == 2


def test_a_cell_that_ended_the_session_is_rolled_back_in_replay_too(record: Record) -> None:
    before = record("x = 1; open('f', 'w').write('one')")
    with native() as sandbox:
        resume(sandbox, before)
        recorder = Recorder(sandbox, previous=before)
        result = sandbox.execute("x = 2; open('f', 'w').write('two'); import os; os._exit(1)")
        assert result.session_state == "reset"
        assert recorder.roll_back(before) == ()
        assert sandbox.execute("x, open('f').read()").value == "(1, 'one')"
        session = recorder.capture()
    report = replay(session, native)
    assert report.faithful, report


def test_resets_and_restored_variables_are_replayed() -> None:
    with native() as sandbox:
        recorder = Recorder(sandbox)
        sandbox.execute("x = 1")
        saved = sandbox.snapshot()
        sandbox.reset()
        sandbox.execute("'x' in globals()")
        sandbox.restore(saved)
        sandbox.execute("x")
        session = recorder.capture()
    assert [cell.value for cell in session.summary.cells] == [None, "False", "1"]
    assert replay(session, native).faithful


def test_savepoints_are_replayed() -> None:
    with create_sandbox({"backend": "jail"}) as sandbox:
        recorder = Recorder(sandbox)
        sandbox.execute("x = 1")
        sandbox.savepoint()
        sandbox.execute("x = 2")
        sandbox.undo()
        sandbox.execute("x")
        session = recorder.capture()
    assert session.summary.cells[-1].value == "1"
    assert replay(session, lambda **options: create_sandbox({"backend": "jail"}, **options)).faithful
    found = difference(session)
    assert (found.cell, found.aspect, found.expected) == (2, "step", "the step 'savepoint'")


def test_an_input_that_was_not_kept_is_told(recorded: SessionFile) -> None:
    found = difference(replace(recorded, inputs={}))
    assert (found.cell, found.aspect) == (1, "step")
    assert "too large to be kept" in found.came


def test_a_cell_that_somebody_cancelled_is_given_the_time_it_had(plain: SessionFile) -> None:
    cell = Cell(
        code="while True: pass", outcome="cancelled", exit_code=130, duration_ms=50.0, timeout_ms=30_000,
    )  # fmt: skip
    session = with_journal(plain, [cell, *plain.summary.journal])
    assert replay(session, native).faithful


def test_limits_of_a_session_file_cannot_be_lifted_by_it(plain: SessionFile) -> None:
    """It bounds output as it was bounded; it cannot ask for more of the machine."""
    asked: list[dict[str, Any]] = []

    def make(**options: Any) -> Any:
        asked.append(options)
        return native(**options)

    limits = {
        "memory_bytes": 2**60,
        "network": 1,
        "timeout_ms": 10**12,
        "max_output_length": 0,
        "stdout_max_bytes": 2**60,
    }
    replay(replace(plain, summary=replace(plain.summary, limits=limits)), make)
    assert set(asked[0]) == {"stdout_max_bytes", "on_llm_query"}
    assert asked[0]["stdout_max_bytes"] == 2**26


def test_a_path_in_the_place_of_a_session_is_told_how_to_be_read() -> None:
    for wrong in (lambda: replay("x.cloche", native), lambda: resume(native(), "x.cloche")):  # type: ignore[arg-type]
        with pytest.raises(RequestError) as caught:
            wrong()
        assert caught.value.remedy == "SessionFile.read(path) reads one"


def test_a_sandbox_in_the_place_of_what_makes_one_is_refused(plain: SessionFile) -> None:
    with native() as sandbox, pytest.raises(RequestError, match="makes a sandbox of its own"):
        replay(plain, sandbox)  # type: ignore[arg-type]  # the mistake
