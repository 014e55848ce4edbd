"""Fuzz target: what replies to each kind of request mean."""

from __future__ import annotations

import json
from typing import Any

from fuzz.engine import main

from cloche.errors import ProtocolError, RequestError
from cloche.session import operations, replies
from cloche.session.machine import Finished
from cloche.session.verdict import judge
from cloche.snapshot import Snapshot

CORPUS = (
    b'{"outcome":"error","interrupts":1,"value":"1","exception":{"type":"T","message":"M","line":1,"traceback":"X"}}',
    b'{"outcome":"exited","code":3,"elapsed_ms":1.5,"cpu_ms":0.5,"peak_bytes":1000}',
    b'{"found":true,"value":{"$":"tuple","v":[1]},"valid":true}',
    b'{"variables":["a","b"],"skipped":[["c","why"]],"failed":[["d","why"]],"matches":["x.y"]}',
    b'{"variables":[["a","int"]],"data":{"text/plain":"x","image/png":"AAEC"},"stream":"stderr","text":"x"}',
    b'{"entries":[{"names":["a"],"types":["int"],"stream":[2],"buffers":[{"readonly":true,"pieces":[1]}]}],"python":"3"}',
    b'{"python":"3.11.7","implementation":"cpython","platform":"linux","packages":[["numpy","2.0"]]}',
)
OPERATIONS: tuple[operations.Operation[Any], ...] = (
    operations.SetContext(None, 1),
    operations.Validate("1"),
    operations.GetVariable("x", None),
    operations.SetVariable("x", 1, 1000),
    operations.ListVariables(),
    operations.Complete("x"),
    operations.TakeSnapshot(1000),
    operations.Restore(Snapshot(()), 1000),
    operations.Versions(),
    operations.Ping(),
)


def target(data: bytes) -> None:
    """A meaning, or an error of ours."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return
    for operation in OPERATIONS:
        try:
            operations.read_reply(operation, Finished(result=parsed, attachment=data))
        except (ProtocolError, RequestError):
            continue
    for stop in (None, "timeout", "cancelled"):
        try:
            judge(Finished(result=parsed, stop=stop), parsed, replies.exception(parsed), 500)
        except ProtocolError:
            continue
    try:
        replies.display(parsed, 1000)
    except ProtocolError:
        return


if __name__ == "__main__":
    main(target, CORPUS)
