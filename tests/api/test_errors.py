"""The tree of errors: as it is drawn, with a code for programs and a remedy for people."""

from __future__ import annotations

import inspect
import re

import pytest

import cloche
from cloche import errors
from cloche.errors import ClocheError

KINDS = [
    value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, ClocheError)
]  # fmt: skip


def drawn_tree() -> dict[str, tuple[str | None, str | None]]:
    """Name -> (parent, other base in brackets), from the module's docstring."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│ ├└─]*)(\w+Error)\b(?: +\((\w+Error)\))?", line)
        if found:
            depth = len(found[1]) // 4
            path[depth:] = [found[2]]
            tree[found[2]] = (path[depth - 1] if depth else None, found[3])
    return tree


def test_the_drawing_is_the_tree():
    real = {}
    for kind in KINDS:
        ours = [base.__name__ for base in kind.__bases__ if issubclass(base, ClocheError)]
        others = [
            base.__name__ for base in kind.__bases__ if not issubclass(base, ClocheError) and base is not Exception
        ]
        real[kind.__name__] = (ours[0] if ours else None, others[0] if others else None)
    assert len(real) > 20
    assert drawn_tree() == real


def test_every_error_has_a_code_of_its_own():
    codes = [kind.code for kind in KINDS]
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)
    assert len(set(codes)) == len(codes)


def make(kind: type[ClocheError]) -> ClocheError:
    extra: dict[str, object] = {}
    parameters = inspect.signature(kind).parameters
    if "capability" in parameters:
        extra["capability"] = "fork"
    if "quota" in parameters:
        extra["quota"] = "sessions"
    if "session_state" in parameters:
        extra["session_state"] = "kept"
    if "result" in parameters:
        extra["result"] = cloche.SandboxResult(outcome="error")
    return kind("what happened", remedy="what to type", **extra)  # type: ignore[arg-type]  # fits by its name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_text_says_what_and_what_next(kind):
    error = make(kind)
    assert str(error) == "what happened\n  remedy: what to type"
    assert (error.message, error.remedy) == ("what happened", "what to type")
    if "cause" in inspect.signature(kind).parameters:
        error.cause = "why"
        assert str(error) == "what happened (why)\n  remedy: what to type"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_errors_can_be_copied_and_pickled(kind):
    """They cross process borders in test runners and pools."""
    import copy
    import pickle

    error = make(kind)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is kind
        assert str(other) == str(error)
        assert vars(other) == vars(error)


@pytest.mark.parametrize(
    ("outcome", "exit_code", "kind"),
    [("error", 1, cloche.CodeError), ("timeout", 124, cloche.ExecutionTimeoutError),
     ("cancelled", 130, cloche.ExecutionError), ("memory", 137, cloche.ExecutionError),
     ("killed", 137, cloche.ExecutionError), ("exited", 3, cloche.ExecutionError)],
)  # fmt: skip
def test_check_raises_an_error_that_carries_the_result(outcome, exit_code, kind):
    result = cloche.SandboxResult(outcome=outcome, exit_code=exit_code, error="why", guidance="do this")
    with pytest.raises(cloche.ExecutionError) as caught:
        result.check()
    assert type(caught.value) is kind
    assert caught.value.result is result
    assert str(caught.value) == "why\n  remedy: do this"


@pytest.mark.parametrize(
    "result", [cloche.SandboxResult(outcome="ok"), cloche.SandboxResult(outcome="exited", exit_code=0)]
)
def test_check_returns_a_result_that_needs_no_error(result):
    assert result.check() is result
