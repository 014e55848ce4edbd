"""From what came back to a result: what the host did outranks what the guest says."""

from __future__ import annotations

from typing import Any

import pytest

from cloche import ProtocolError
from cloche.session import replies
from cloche.session.machine import Finished
from cloche.session.verdict import judge

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
