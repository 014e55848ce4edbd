"""What people pass by mistake is refused at once, in words that say what to write instead."""

from __future__ import annotations

import logging
import pickle
import re
from pathlib import PurePosixPath
from typing import Any

import pytest

from cloche import (
    Display,
    PolicyError,
    REPLEnvironment,
    REPLExecutor,
    REPLSettings,
    SandboxResult,
    SessionSandbox,
    Snapshot,
    SnapshotEntry,
    SnapshotPiece,
    UnknownBackendError,
    WorkspaceFileError,
    create_async_sandbox,
    create_sandbox,
)
from cloche.pool import Pool


@pytest.fixture(scope="module")
def sandbox() -> Any:
    with create_sandbox(backend="native") as made:
        yield made


@pytest.mark.parametrize("make", [create_sandbox, create_async_sandbox])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tools": [print]}, 'tools={"name": function}'),
        ({"tools": {"class": print}}, "cannot be the name of a tool"),
        ({"tools": {3: print}}, "cannot be the name of a tool"),
        ({"on_llm_query": "gpt"}, "on_llm_query must be a function, not 'gpt'"),
        ({"on_rlm_query": 3}, "on_rlm_query must be a function, not 3"),
        ({"logger": logging.getLogger("mine")}, "logger=SandboxLogger(your_logger)"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_when_it_is_given(make: Any, options: Any, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        make(backend="native", **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("llm_query", "did you mean 'on_llm_query'"),
        ("tool", "did you mean 'tools'"),
        ("env", "did you mean 'environment'"),
        ("isolation", "did you mean 'minimum_isolation'"),
        ("context", r"initialize\(context\)"),
    ],
)
def test_an_option_under_another_name_is_told_its_own(option: str, words: str) -> None:
    given: dict[str, Any] = {option: print}
    with pytest.raises(TypeError, match=words):
        create_sandbox(backend="native", **given)


def test_a_backend_in_the_place_of_a_configuration_is_told_its_own_place() -> None:
    with pytest.raises(PolicyError) as caught:
        create_sandbox("jail")  # type: ignore[arg-type]  # the mistake
    assert caught.value.remedy == "backend='jail'"


def test_a_misspelt_backend_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UnknownBackendError) as caught:
        create_sandbox(backend="Jial")
    assert str(caught.value.remedy).startswith("did you mean 'jail'? one of: auto, ")


@pytest.mark.parametrize(
    ("path", "data", "words"),
    [
        ("n", 3, "not int"),
        ("n", ["a"], "not list"),
        ("n", None, "not NoneType"),
        ("n", "\ud800", "pass bytes"),
        (b"n", b"", "not bytes"),
    ],
)
def test_a_file_of_neither_text_nor_bytes_is_refused(sandbox: SessionSandbox, path: Any, data: Any, words: str) -> None:
    with pytest.raises(WorkspaceFileError, match=words):
        sandbox.put_file(path, data)
    assert sandbox.list_files() == []


def test_a_path_object_is_a_path(sandbox: SessionSandbox) -> None:
    path = PurePosixPath("data") / "in.txt"
    sandbox.put_file(path, b"here")
    assert sandbox.get_file(path) == b"here"


def test_a_sandbox_says_what_it_is_and_what_to_send_instead_of_it() -> None:
    with create_sandbox(backend="native") as made:
        assert repr(made) == f"<NativePythonSandbox {made.id}: native, not started>"
        with pytest.raises(TypeError, match="snapshot"):
            pickle.dumps(made)
    assert repr(made).endswith("native, destroyed>")


def test_what_holds_sandboxes_says_how_it_is() -> None:
    with REPLEnvironment("text", backend="native") as environment:
        assert re.fullmatch(r"<REPLEnvironment on <NativePythonSandbox \d+: native, \w+( \w+)?>>", repr(environment))
    assert repr(REPLExecutor(REPLSettings(), servers=3)) == "<REPLExecutor: not open, 0 of 3 ready>"
    assert repr(Pool()) == "<Pool: 0 sessions, 0 of 64 places taken>"


def test_a_snapshot_can_be_pickled() -> None:
    saved = Snapshot((SnapshotEntry(("x",), ("int",), (SnapshotPiece(memoryview(b"abc")),)),), python="3.11")
    assert pickle.loads(pickle.dumps(saved)).to_bytes() == saved.to_bytes()


def test_a_result_is_short_to_look_at() -> None:
    shown = repr(SandboxResult(outcome="ok", stdout="x" * 5000, displays=(Display({"image/png": b"\x89" * 5000}),)))
    assert shown.startswith("SandboxResult(outcome='ok', stdout='xxx")
    assert "(5000 characters)" in shown
    assert "Display(image/png)" in shown
    assert len(shown) < 400
