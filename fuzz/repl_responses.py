"""Fuzz target: what a REPL server sends, from its bytes to a response."""

from __future__ import annotations

from fuzz.engine import main

from cloche.errors import ProtocolError
from cloche.executor.process import parse_frame
from cloche.executor.response import REPLResponse, read_response
from cloche_guest.repl_frames import RESPONSE, DelimitedReader, FrameTooLarge, enclose

MAX_FRAME, MAX_STATE = 4000, 500

GOOD = (
    '{"stdout":"a","stderr":"","exit_code":0,"state":"%s","files":["a.png","b/c"],"error":null,'
    '"state_errors":{"x":"why"},"id":"1"}'
)
CORPUS = (
    b"".join([b">>> REPL_READY <<<\n", *enclose(RESPONSE, GOOD % "AAAA")]),
    b"".join(enclose(RESPONSE, GOOD % ("QUJD" * 100)) * 2),
    b"noise\n" + b"".join(enclose(RESPONSE, (GOOD % "AA==").replace('"state":', '"state": ').replace(",", ", "))),
)


def read(data: bytes, step: int) -> list[object] | None:
    """All responses when the bytes come in pieces of `step`; None when they break the protocol."""
    reader = DelimitedReader(RESPONSE, MAX_FRAME)
    found: list[object] = []
    try:
        for start in range(0, len(data), step):
            for is_frame, parts in reader.feed(data[start : start + step]):
                if is_frame:
                    assert sum(map(len, parts)) <= MAX_FRAME
                    found.append(_checked(read_response(parse_frame(parts), MAX_STATE)))
    except (ProtocolError, FrameTooLarge):
        return None
    return found


def _checked(response: REPLResponse) -> str:
    assert response.state is None or len(response.state) <= MAX_STATE
    assert not any(path.startswith("/") or ".." in path.split("/") for path in response.files)
    return repr(response)


def target(data: bytes) -> None:
    """Responses or a protocol error, and the same however the bytes are cut."""
    whole = read(data, max(1, len(data)))
    assert read(data, 7) == whole
    assert read(data, 1) == whole


if __name__ == "__main__":
    main(target, CORPUS)
