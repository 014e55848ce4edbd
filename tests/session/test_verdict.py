"""From what came back to a result: what the host did outranks what the guest says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cloche import Channel, ExecutionPolicy, Isolation, ProtocolError
from cloche.session import replies
from cloche.session.channel import Counted
from cloche.session.machine import Finished, Machine
from cloche.session.verdict import build_result, judge
from cloche.session.workspace import Workspace

ERROR = {"exception": {"type": "ValueError", "message": "no", "line": 1, "traceback": "tb"}}


def verdict(finished: Finished) -> tuple[str, str | None, int]:
    data = finished.result or {}
    return judge(finished, data, replies.exception(data), 500)


def said(outcome: str, stop: Any = None, **more: Any) -> Finished:
    return Finished(result={"outcome": outcome, **more}, stop=stop)


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        (said("ok"), ("ok", None, 0)),
        (said("error", **ERROR), ("error", "ValueError: no", 1)),
        (said("error"), ("error", "the code failed", 1)),
        (said("memory", **ERROR), ("memory", "ValueError: no", 137)),
        (said("exited", code=0), ("exited", None, 0)),
        (said("exited", code=3), ("exited", "SystemExit: 3", 3)),
        (said("exited", code=-1), ("exited", "SystemExit: 255", 255)),
        (said("interrupted", interrupts=1), ("error", "KeyboardInterrupt", 1)),
        (said("interrupted", "timeout"), ("timeout", "timeout: the cell ran longer than 500 ms", 124)),
        (said("interrupted", "cancelled"), ("cancelled", "cancelled", 130)),
        (said("error", "timeout", **ERROR), ("timeout", "timeout: the cell ran longer than 500 ms", 124)),
        (said("exited", "cancelled", code=0), ("cancelled", "cancelled", 130)),
        (said("ok", "timeout", interrupts=2), ("timeout", "timeout: the cell ran longer than 500 ms", 124)),
        (said("ok", "timeout", interrupts=0), ("ok", None, 0)),
        (Finished(death="killed", stop="timeout"), ("timeout", "timeout: the cell ran longer than 500 ms", 124)),
        (Finished(death="exit", stop="cancelled"), ("cancelled", "cancelled", 130)),
        (
            Finished(death="exit", detail="exited with status 7", exit_code=7),
            ("exited", "the process exited with status 7", 7),
        ),
        (
            Finished(death="exit", detail="killed by SIGSEGV"),
            ("killed", "the session's process ended: killed by SIGSEGV", 137),
        ),
        (Finished(death="protocol", detail="lies"), ("killed", "the session's process ended: protocol: lies", 137)),
    ],
)
def test_the_outcome(finished, expected):
    assert verdict(finished) == expected


@pytest.mark.parametrize("outcome", ["", "timeout", "killed", "cancelled", "OK", "out_of_fuel"])
def test_a_guest_cannot_claim_what_only_the_host_can_know(outcome):
    with pytest.raises(ProtocolError, match="outcome"):
        verdict(said(outcome))


@pytest.mark.parametrize("field", [{"interrupts": "1"}, {"interrupts": True}, {"code": 1.0, "outcome": "exited"}])
def test_fields_of_a_wrong_type_break_the_protocol(field):
    with pytest.raises(ProtocolError):
        verdict(Finished(result={"outcome": "ok", **field}))


@pytest.mark.parametrize("number", [10**4000, -1, 0, True, 1e300, float("inf"), float("nan"), "5", [5]])
def test_figures_that_cannot_be_are_left_out(tmp_path, number):
    """A number too long to print would fail in whoever prints the result."""
    import json

    policy = ExecutionPolicy()
    data = {"peak_bytes": number, "cpu_ms": number, "elapsed_ms": number, "exception": {"type": "E", "line": number}}
    channel = SimpleNamespace(
        workspace=Workspace(tmp_path, private=True), isolation=Isolation.NONE, layers=(), counted=Counted
    )
    result = build_result(
        "",
        cast("Channel", channel),
        Machine(policy, ()),
        Finished(result={"outcome": "error", **data}),
        policy,
        7.0,
        500,
    )
    assert result.memory_used_bytes is None
    assert result.usage.cpu_ms is None
    assert result.duration_ms == 7.0
    assert result.exception is not None
    assert result.exception.line is None
    json.dumps(result.to_dict(), allow_nan=False)
