"""The text that a session is about: it arrives unchanged, however large."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from cloche.errors import ValueTransferError

if TYPE_CHECKING:
    from cloche.sandbox import SessionSandbox

TEXTS = {
    "empty": "",
    "ascii": "plain text",
    "line ends": "unix\nwindows\r\nmac\rend",
    "backslashes": "C:\\new\\table \\\\ \\n \\u0041",
    "quotes": "'''single''' \"\"\"double\"\"\" `back`",
    "null": "a\0b",
    "control": "\x01\x1b[31m\x7f\u2028\u2029\ufeff",
    "latin-1": "d\u00e9j\u00e0 vu \u00ff",
    "two bytes": "\u4e2d\u6587 \u0416",
    "emoji": "\U0001f600 \U0010ffff",
    "lone surrogates": "\ud800 a \udfff",
    "surrogate and emoji": "\udc80\U0001f600",
    "braces": "{not} {{a}} %s format",
    "json": '{"jsonrpc": "2.0", "id": 1, "result": {}}\n',
}


def digest(text: str) -> str:
    """A hash of every code point."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


GUEST_DIGEST = "import hashlib; hashlib.sha256(context.encode('utf-8', 'surrogatepass')).hexdigest()"


@pytest.mark.parametrize("kind", TEXTS)
def test_text_arrives_unchanged(sandbox: SessionSandbox, kind: str) -> None:
    """Known defects 1.8.10 and 2.4.4: backslashes were doubled, quotes escaped, CRLF became LF."""
    sandbox.initialize(TEXTS[kind])
    assert sandbox.execute(GUEST_DIGEST).value == repr(digest(TEXTS[kind]))


@pytest.mark.parametrize("kind", TEXTS)
def test_text_for_a_running_session_arrives_unchanged(sandbox: SessionSandbox, kind: str) -> None:
    sandbox.execute("1")
    sandbox.initialize(TEXTS[kind])
    assert sandbox.execute(GUEST_DIGEST).value == repr(digest(TEXTS[kind]))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("0123456789abcde\n" * (50 * 65_536), id="50 MB of ASCII"),
        pytest.param("caf\u00e9 \r\n\\" * 1_000_000, id="Latin-1"),
        pytest.param("ab\u4e2d\r\n" * 1_000_000, id="two bytes"),
        pytest.param("ab\U0001f600\ud800" * 1_000_000, id="four bytes"),
    ],
)
def test_long_text_arrives_unchanged(sandbox: SessionSandbox, text: str) -> None:
    sandbox.initialize(text)
    assert sandbox.execute(GUEST_DIGEST).value == repr(digest(text))


@pytest.mark.parametrize("value", [["a", 1], {"k": [1, None]}, b"raw\0", 5, ("a", "b"), True])
def test_a_context_may_be_plain_data(sandbox: SessionSandbox, value: Any) -> None:
    """Known defect 2.4.4: contexts had to be JSON."""
    sandbox.initialize(value)
    assert sandbox.execute("context").value == repr(value)


def test_without_a_context_the_name_is_not_bound(sandbox: SessionSandbox) -> None:
    sandbox.initialize()
    assert sandbox.execute("'context' in globals()").value == "False"


def test_initialize_without_a_context_takes_the_old_one_away(sandbox: SessionSandbox) -> None:
    sandbox.initialize("old")
    sandbox.initialize()
    assert sandbox.execute("'context' in globals()").value == "False"


def test_a_context_that_cannot_cross_is_refused_and_the_old_one_stays(sandbox: SessionSandbox) -> None:
    sandbox.initialize("old")
    with pytest.raises(ValueTransferError):
        sandbox.initialize(object())
    assert sandbox.execute("context").value == "'old'"


def test_a_context_is_seen_by_functions_of_earlier_cells(sandbox: SessionSandbox) -> None:
    sandbox.execute("def size(): return len(context)")
    sandbox.initialize("12345")
    assert sandbox.execute("size()").value == "5"


def test_a_changed_context_is_put_back_after_the_cell(sandbox: SessionSandbox) -> None:
    sandbox.initialize("given")
    sandbox.execute("context = context.upper()")
    assert sandbox.execute("context").value == "'given'"


def test_the_context_can_be_read_as_a_variable(sandbox: SessionSandbox) -> None:
    sandbox.initialize("given")
    assert sandbox.get_variable("context") == "given"


def test_the_context_is_not_among_the_users_variables(sandbox: SessionSandbox) -> None:
    sandbox.initialize("given")
    sandbox.execute("x = 1")
    assert sandbox.list_variables() == {"x": "int"}
