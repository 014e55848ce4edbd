"""Fuzz target: cutting a guest's bytes into frames."""

from __future__ import annotations

from fuzz.engine import main

from cloche.errors import ProtocolError
from cloche.session.frames import FrameReader

MAX_FRAME, MAX_ATTACHMENT = 4000, 500

CORPUS = (
    b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":1,"result":{},"attachment":5}\n12345{"jsonrpc":"2.0"}\n',
    b'{"jsonrpc":"2.0","method":"output","params":{"stream":"stdout","text":"\\ud800"}}\n' * 3,
)


def read(data: bytes, step: int) -> list[object] | None:
    """All frames when the bytes come in pieces of `step`; None when they break the protocol."""
    reader = FrameReader(MAX_FRAME, MAX_ATTACHMENT)
    found: list[object] = []
    try:
        for start in range(0, len(data), step):
            for message, body in reader.feed(data[start : start + step]):
                assert type(message) is dict
                assert body is None or len(body) == message["attachment"] <= MAX_ATTACHMENT
                found.append((repr(message), body))
    except ProtocolError:
        return None
    return found


def target(data: bytes) -> None:
    """Frames or a protocol error, and the same however the bytes are cut."""
    whole = read(data, max(1, len(data)))
    assert read(data, 7) == whole
    assert read(data, 1) == whole


if __name__ == "__main__":
    main(target, CORPUS)
