"""Requests of whoever wants one state in and one state out: what the REPL server does, behind any wall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from cloche.errors import ProtocolError
from cloche.session import replies
from cloche.session.machine import Call
from cloche.session.operations import Operation, slices
from cloche_guest.repl_frames import is_base64


@dataclass(frozen=True, slots=True)
class SavedText:
    """The variables as one text: base64 of an LZ4 frame around one pickle. What is not in it is named.

    `text` is None when nothing could be saved.
    """

    text: str | None
    errors: dict[str, str]
    """By name: why it is not in the text."""


@dataclass(slots=True)
class Preload(Operation[dict[str, str]]):
    """Import modules and bind their names; the names that sessions reserve are given up. Those left out, and why."""

    changes_state: ClassVar[bool] = True
    modules: tuple[str, ...]
    name: str = "preload"

    def call(self) -> Call:
        return Call("preload", {"only": True, "modules": list(self.modules)})

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> dict[str, str]:
        return dict(replies.names_and_reasons(result, "left_out"))


@dataclass(slots=True)
class LoadText(Operation[str | None]):
    """Put a state back. Why that could not be, if so."""

    changes_state: ClassVar[bool] = True
    text: str
    name: str = "load_state"

    def call(self) -> Call:
        data = self.text.encode("utf-8", "replace")
        return Call("load_state", {}, len(data), slices(data))

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> str | None:
        return replies.text(result, "failed")[:1000] or None


@dataclass(slots=True)
class SaveText(Operation[SavedText]):
    """Save the variables, all that can be."""

    limit: int
    name: str = "save_state"

    def call(self) -> Call:
        return Call("save_state", {"limit": self.limit, "partial": True})

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> SavedText:
        errors = dict(replies.names_and_reasons(result, "errors"))
        if not replies.field(result, "saved", bool, False):
            return SavedText(None, errors)
        return SavedText(checked_text([attachment or b""], self.limit), errors)


def checked_text(pieces: list[bytes | bytearray], limit: int) -> str:
    """What a guest says is a state: base64 of a bounded size. What it holds, the host never looks at.

    The pieces are used up: memory of one is free for the next.
    """
    size = sum(map(len, pieces))
    if size > limit or not is_base64(*pieces):
        raise ProtocolError("the guest sent a state that is none", cause=f"{size} bytes")
    texts = []
    for number, piece in enumerate(pieces):
        texts.append(piece.decode("ascii"))
        pieces[number] = piece = b""
    return "".join(texts)
