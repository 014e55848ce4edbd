"""States as text: what the host makes of what a guest says."""

from __future__ import annotations

from typing import Any

import pytest

from cloche.errors import ProtocolError
from cloche.session.text_operations import LoadText, Preload, SavedText, SaveText


def test_a_state_goes_as_raw_bytes_and_not_through_json() -> None:
    call = LoadText("AAAA").call()
    assert (call.method, call.params, call.body_size) == ("load_state", {}, 4)
    assert call.body is not None
    assert b"".join(call.body) == b"AAAA"


def test_a_saved_state_is_text_with_what_is_not_in_it() -> None:
    saved = SaveText(100).read({"saved": True, "errors": [["x", "why"]]}, b"AAAA")
    assert saved == SavedText("AAAA", {"x": "why"})
    assert SaveText(100).read({"saved": False, "errors": [["", "why"]]}, b"") == SavedText(None, {"": "why"})


@pytest.mark.parametrize("data", [b"A", b"AAA\n", b"A\x00AA", b"\xff\xff\xff\xff", b"A===", b"=AAA", b"A" * 104])
def test_what_is_no_base64_of_a_bounded_size_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="a state that is none"):
        SaveText(100).read({"saved": True, "errors": []}, data)


@pytest.mark.parametrize("result", [{"saved": 1}, {"saved": True, "errors": {}}, {"saved": True, "errors": [["x"]]}])
def test_a_reply_of_other_types_is_refused(result: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        SaveText(100).read(result, b"AAAA")


def test_why_a_state_could_not_be_loaded_is_bounded() -> None:
    assert LoadText("").read({"failed": "x" * 5000}, None) == "x" * 1000
    assert LoadText("").read({"restored": []}, None) is None


def test_modules_that_were_left_out_come_with_the_reason() -> None:
    assert Preload(("a",)).read({"bound": [], "left_out": [["a", "not installed"]]}, None) == {"a": "not installed"}
