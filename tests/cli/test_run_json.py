"""``--json``: exactly one document on standard output, whatever happens."""

from __future__ import annotations

import base64

import pytest
from tests.cli.command import Cloche

import cloche as library


@pytest.mark.parametrize(
    ("code", "outcome", "status"),
    [
        ("print('out'); 1 + 1", "ok", 0),
        ("import sys; print('err', file=sys.stderr); 1/0", "error", 2),
        ("while True: pass", "timeout", 2),
        ("import sys; sys.exit(3)", "exited", 2),
        ("import os; os.kill(os.getpid(), 9)", "killed", 2),
    ],
)
def test_every_outcome_is_one_document(cloche: Cloche, code: str, outcome: str, status: int) -> None:
    done = cloche("run", "-c", code, "--json", "--timeout", "1s")
    assert done.json["outcome"] == outcome
    assert (done.code, done.stderr) == (status, "")


def test_the_document_is_the_result(cloche: Cloche) -> None:
    document = cloche("run", "-c", "print('☃\\x1b'); 2**70", "--json").json
    assert document.keys() == library.run("1", backend="native").to_dict().keys()
    assert (document["stdout"], document["value"]) == ("☃\x1b\n", "1180591620717411303424")


def test_displays_travel_in_the_document(cloche: Cloche) -> None:
    code = "class Picture:\n    _repr_png_ = lambda self: b'\\x89PNG'\ndisplay(Picture())"
    document = cloche("run", "-c", code, "--json").json
    assert base64.b64decode(document["displays"][0]["image/png"]) == b"\x89PNG"


def test_a_missing_file_is_named_in_the_document(cloche: Cloche) -> None:
    done = cloche("run", "-c", "1", "--json", "--get", "nothing")
    assert done.json["success"] is True
    assert done.code == 2
    assert done.json["not_fetched"]["nothing"]["error"] == "nothing does not exist"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run",), "bad_request"),
        (("run", "missing.py"), "bad_request"),
        (("run", "-c", "1", "--backend", "nope"), "unknown_backend"),
        (("run", "-c", "1", "--timeout", "soon"), "bad_request"),
        (("run", "-c", "1", "--no-such-option"), "bad_request"),
        (("run", "-c", "1", "--memory", "1k"), "bad_policy"),
        (("nope",), "bad_request"),
    ],
)
def test_a_refusal_is_one_document_too(cloche: Cloche, arguments: tuple[str, ...], code: str) -> None:
    done = cloche(*arguments, "--json")
    assert done.code == 1
    assert done.stderr == ""
    assert done.json["success"] is False
    assert done.json["error_code"] == code
    assert done.json["error"]
