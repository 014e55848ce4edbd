"""From what came back to a result: what the host did outranks what the guest says, and what it says is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloche.errors import ProtocolError
from cloche.guidance import guidance_for
from cloche.policy import MOST
from cloche.result import EXIT_CODES, ExceptionInfo, Outcome, SandboxResult, SessionState, Usage
from cloche.session import replies

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Protocol

    from cloche.isolation import Isolation
    from cloche.policy import ExecutionPolicy
    from cloche.result import Display
    from cloche.session.actions import Stream
    from cloche.session.bridge_desk import BridgeDesk
    from cloche.session.channel import Counted
    from cloche.session.machine import Finished
    from cloche.session.output import OutputSink
    from cloche.session.workspace import Delta

    class Files(Protocol):
        """What a cell may have changed."""

        @property
        def root(self) -> Path: ...
        @property
        def private(self) -> bool: ...
        def after_cell(self) -> Delta: ...

    class Place(Protocol):
        """Where a cell ran: a channel, or this process."""

        @property
        def workspace(self) -> Files: ...
        @property
        def isolation(self) -> Isolation: ...
        @property
        def layers(self) -> tuple[str, ...]: ...
        def counted(self) -> Counted: ...

    class Account(Protocol):
        """What was noted while it ran: by a machine, or by this process."""

        @property
        def sinks(self) -> Mapping[Stream, OutputSink]: ...
        @property
        def displays(self) -> list[Display]: ...
        @property
        def desk(self) -> BridgeDesk: ...
        @property
        def bridge_seconds(self) -> float: ...


def build_result(
    code: str,
    channel: Place,
    machine: Account,
    finished: Finished,
    policy: ExecutionPolicy,
    elapsed_ms: float,
    timeout_ms: int,
) -> SandboxResult:
    """The result of a cell. Raises `ProtocolError` when the guest's reply is none."""
    data = finished.result or {}
    exception = replies.exception(data)
    outcome, error, exit_code = judge(finished, data, exception, timeout_ms)
    if exception is not None and outcome in ("error", "memory"):
        # straight to the sink: as an event it would reach the listener of the next cell
        machine.sinks["stderr"].feed(exception.traceback.encode("utf-8", "replace"))
    if outcome == "out_of_fuel":
        machine.sinks["stderr"].feed(f"OutOfFuel: {error}\n".encode())
    stdout, stdout_cut = machine.sinks["stdout"].finish()
    stderr, stderr_cut = machine.sinks["stderr"].finish()
    delta = channel.workspace.after_cell()
    state: SessionState = "kept" if finished.death is None else "reset"
    counted = channel.counted()
    took, peak, cpu = data.get("elapsed_ms"), data.get("peak_bytes"), data.get("cpu_ms")
    peak = peak if counted.peak_bytes is None else counted.peak_bytes
    cpu = cpu if counted.cpu_ms is None else counted.cpu_ms
    return SandboxResult(
        outcome=outcome,
        stdout=stdout,
        stderr=stderr,
        error=error,
        exception=exception if outcome in ("error", "memory") else None,
        exit_code=exit_code,
        duration_ms=took if type(took) is float and 0 <= took <= elapsed_ms else elapsed_ms,
        fuel_consumed=counted.fuel,
        memory_used_bytes=peak if type(peak) is int and 0 < peak < MOST else None,
        files_created=delta.created,
        files_modified=delta.modified,
        files_deleted=delta.deleted,
        workspace_path=str(channel.workspace.root),
        value=replies.text(data, "value") if type(data.get("value")) is str else None,
        displays=tuple(machine.displays),
        stdout_truncated=stdout_cut,
        stderr_truncated=stderr_cut,
        session_state=state,
        isolation=channel.isolation,
        layers=channel.layers,
        usage=Usage(
            cpu_ms=cpu if type(cpu) is float and 0 <= cpu < MOST else None,
            bridge_calls=machine.desk.calls,
            bridge_ms=machine.bridge_seconds * 1000,
            stdout_bytes=machine.sinks["stdout"].total_bytes,
            stderr_bytes=machine.sinks["stderr"].total_bytes,
        ),
        guidance=_guidance(outcome, exception, finished, delta, channel, policy, timeout_ms, counted.oom_kills),
        metadata=_metadata(delta, finished, counted.oom_kills),
        code=code,
    )


def judge(
    finished: Finished, data: dict[str, Any], exception: ExceptionInfo | None, timeout_ms: int
) -> tuple[Outcome, str | None, int]:
    """(outcome, error text, exit code)."""
    if finished.concluded_by is not None:  # whatever became of it afterwards
        return "ok", None, 0
    said = replies.text(data, "outcome", "ok")
    if said not in replies.GUEST_OUTCOMES:
        raise ProtocolError("the guest reported an outcome that does not exist", cause=said[:80])
    touched = finished.death is not None or said == "interrupted" or replies.field(data, "interrupts", int, 0) > 0
    if finished.stop is not None and (touched or said != "ok"):
        text = f"timeout: the cell ran longer than {timeout_ms} ms" if finished.stop == "timeout" else "cancelled"
        return finished.stop, text, EXIT_CODES[finished.stop]
    if finished.death is not None:
        return _judge_death(finished)
    if said == "exited":
        code = replies.field(data, "code", int, 0) & 0xFF
        return "exited", None if code == 0 else f"SystemExit: {code}", code
    if said == "interrupted":
        return "error", "KeyboardInterrupt", EXIT_CODES["error"]
    if said in ("error", "memory"):
        outcome: Outcome = "memory" if said == "memory" else "error"
        text = "the code failed" if exception is None else f"{exception.type}: {exception.message}".rstrip(": ")
        return outcome, text, EXIT_CODES[outcome]
    return "ok", None, 0


def _judge_death(finished: Finished) -> tuple[Outcome, str | None, int]:
    if finished.death == "exit" and finished.exit_code is not None:
        return "exited", f"the process exited with status {finished.exit_code}", finished.exit_code
    if finished.death == "memory":
        return "memory", "the session's memory was used up, and its process was ended", EXIT_CODES["memory"]
    if finished.death == "fuel":
        return "out_of_fuel", "the cell used all of its fuel and was ended", EXIT_CODES["out_of_fuel"]
    reason = finished.detail if finished.death != "protocol" else f"protocol: {finished.detail}"
    return "killed", f"the session's process ended: {reason}", EXIT_CODES["killed"]


def _guidance(
    outcome: str,
    exception: ExceptionInfo | None,
    finished: Finished,
    delta: Delta,
    channel: Place,
    policy: ExecutionPolicy,
    timeout_ms: int,
    oom_kills: int,
) -> str | None:
    if channel.workspace.private and delta.total_bytes > policy.workspace_bytes:
        return (
            f"The workspace holds {delta.total_bytes} bytes, over its quota of {policy.workspace_bytes}: "
            "remove files, or raise policy.workspace_bytes."
        )
    if oom_kills:
        return guidance_for("memory", None, policy, timeout_ms)
    if outcome == "ok":
        return None
    return guidance_for(outcome, exception, policy, timeout_ms, layers=channel.layers, detail=finished.detail)


def _metadata(delta: Delta, finished: Finished, oom_kills: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {} if finished.concluded_by is None else {"ended_by": finished.concluded_by}
    if oom_kills:
        metadata["oom_kills"] = oom_kills
    if not delta.complete:
        metadata["files_incomplete"] = True
    if finished.death is not None:
        metadata["death"] = finished.detail
    return metadata
