"""Captured output: decoded as it comes, kept up to two ceilings, counted beyond them."""

from __future__ import annotations

import codecs


def notice(omitted: int) -> str:
    """The sentence that ends a cut output."""
    return f"\n... [truncated, {omitted} chars omitted]"


class OutputSink:
    """One stream of one call.

    `max_chars` counts characters kept, the notice comes after them; `max_bytes` is a ceiling that includes it.
    """

    def __init__(self, max_chars: int, max_bytes: int) -> None:
        self._max_chars = max_chars
        self._room = max_bytes
        self._max_bytes = max_bytes
        self._decoder: codecs.IncrementalDecoder | None = None
        self._kept: list[str] = []
        self._chars = 0
        self.total_bytes = 0
        self.omitted = 0

    def feed(self, data: bytes) -> str:
        """Take bytes; the text that was kept of them."""
        self.total_bytes += len(data)
        if self._decoder is None and data.isascii():
            if self.omitted:  # nothing more is kept, and ASCII needs no decoding to be counted
                self.omitted += len(data)
                return ""
            return self._keep(data.decode("ascii"))
        return self._keep(self._decode(data, final=False))

    def finish(self) -> tuple[str, bool]:
        """The whole text with its notice, and whether something was cut."""
        if self._decoder is not None:
            self._keep(self._decode(b"", final=True))
        text = "".join(self._kept)
        if not self.omitted:
            return text, False
        return self._with_notice(text), True

    def _decode(self, data: bytes, *, final: bool) -> str:
        if self._decoder is None:
            self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = self._decoder.decode(data, final)
        if not self._decoder.getstate()[0]:
            self._decoder = None
        return text

    def _keep(self, text: str) -> str:
        if not text:
            return ""
        fits = text if not self.omitted else ""
        if len(fits) > self._max_chars - self._chars:
            fits = fits[: self._max_chars - self._chars]
        if fits:
            size = len(fits) if fits.isascii() else len(fits.encode("utf-8", "replace"))
            if size > self._room:
                fits = _cut_to_bytes(fits, self._room)
                size = len(fits.encode("utf-8", "replace"))
            self._room -= size
            self._chars += len(fits)
            self._kept.append(fits)
        self.omitted += len(text) - len(fits)
        return fits

    def _with_notice(self, text: str) -> str:
        """Add the notice; where the byte ceiling leaves no room for it, give up kept text, counted as omitted."""
        omitted = self.omitted
        while True:
            tail = notice(omitted)
            over = len(text.encode("utf-8", "replace")) + len(tail) - self._max_bytes
            if over <= 0:
                return text + tail
            if not text:
                return tail[: self._max_bytes]
            shorter = _cut_to_bytes(text, max(0, len(text.encode("utf-8", "replace")) - over))
            omitted += len(text) - len(shorter)
            text = shorter


def _cut_to_bytes(text: str, room: int) -> str:
    return text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
