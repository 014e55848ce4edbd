"""The session machine: takes bytes, time and requests, returns actions. No input, no output, no thread.

One call at a time. A call is served (RUNNING), asked to stop when its time is over or it is cancelled (ASKED, with
an interrupt every few milliseconds that soon insists), killed when the grace is over (KILLED), and finished by a
reply or by the guest's death.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from cloche.errors import ProtocolError
from cloche.session import replies
from cloche.session.actions import Action, CallBridge, Emit, Interrupt, Kill, Send, Stream, TakeFile
from cloche.session.bridge_desk import BridgeDesk
from cloche.session.budget import PER_CALL, Budget, GivenUpCalls
from cloche.session.clock import Clock
from cloche.session.displays import CellDisplays
from cloche.session.frames import FrameReader, encode_frame
from cloche.session.output import OutputSink

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from cloche.policy import ExecutionPolicy
    from cloche.result import Display

KNOCK = 0.02
INSIST_AFTER = 0.1
FRAME_SLACK = 1 << 22  # a result: the texts of a value and of an error, a hundred thousand characters each, escaped
WITH_ATTACHMENT = ("snapshot", "save_state")
"""Requests that are answered with raw bytes."""
MAX_HELD = 1000
"""Calls that may come in with the reply to a cell: one of each waiting thread."""

LAST_WORD_PATIENCE = 0.05
"""Seconds for a cell to leave by itself after the host function that ends it has answered."""

StopReason = Literal["timeout", "cancelled"]


@dataclass(slots=True)
class Call:
    """A request of the host: one method, perhaps with raw bytes after it."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)
    body_size: int | None = None
    body: Iterable[bytes | memoryview] | None = None
    silent: bool = False
    """Nobody waits for an answer, and none comes."""


@dataclass(slots=True)
class Finished:
    """How a call ended. `result` and `error` are the guest's words; `death` is set when the guest is gone."""

    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    attachment: bytes | bytearray | None = None
    death: str | None = None  # "exit" | "protocol" | "killed" | "memory" | "fuel"
    detail: str = ""
    exit_code: int | None = None
    stop: StopReason | None = None
    concluded_by: str | None = None  # the host function that ended the cell
    failed_method: str | None = None  # the request that failed, when it was not the last one


class Phase(Enum):
    """Where a call stands."""

    IDLE = "idle"
    RUNNING = "running"
    ASKED = "asked"
    KILLED = "killed"


class Machine:
    """One guest's life. When the guest dies the machine is finished with it."""

    def __init__(
        self,
        policy: ExecutionPolicy,
        bridges: Collection[str],
        read_cpu: Callable[[], float | None] = lambda: None,
        answered: Callable[[CallBridge, Any, BaseException | None], object] = lambda *_: None,
        ending: Collection[str] = (),
        given_up: GivenUpCalls | None = None,
    ) -> None:
        """`answered` is told what came of each bridge call; with the answer of one in `ending` a cell is over."""
        self.actions: list[Action] = []
        self.phase = Phase.IDLE
        self.finished: Finished | None = None
        self.request_is_out = False
        """Whoever drives the machine says so: from then on the guest has been asked."""
        max_frame = max(policy.value_max_bytes, policy.display_max_bytes) + FRAME_SLACK
        self.budget = Budget(max_frame, given_up=given_up or GivenUpCalls())
        self.desk = BridgeDesk(policy, bridges, self.actions, self._call_answered, self.budget)
        self._answered = answered
        self._ending = ending
        self.concluded_by: str | None = None
        self._concluded_at = 0.0
        self._deaf = False
        self._shown = CellDisplays(0)
        self._policy = policy
        self._read_cpu = read_cpu
        self._frames = FrameReader(
            max_frame, max_attachment=0, max_cost=self.budget.max_cost, admits=self._has_room_for
        )
        self._next_id = 0
        self._expected: list[tuple[int, str]] = []
        self._clock = Clock(0.0, 0.0, 0.0, read_cpu)
        self._stop: StopReason | None = None
        self._asked_at = 0.0
        self._next_knock = 0.0
        self._dirty = False  # an interrupt was sent that may still be on its way
        self._live = False
        self._held: list[tuple[Any, Any, int]] = []  # calls that came when no cell was there to serve them for
        self.sinks = self._fresh_sinks()

    def _fresh_sinks(self) -> dict[Stream, OutputSink]:
        policy = self._policy
        return {
            "stdout": OutputSink(policy.max_output_length, policy.stdout_max_bytes),
            "stderr": OutputSink(policy.max_output_length, policy.stderr_max_bytes),
        }

    # -- requests ------------------------------------------------------------------------------

    def begin(self, calls: list[Call], *, now: float, started: float, timeout: float, live: bool = False) -> None:
        """Serve `calls` in order; the last one's reply is the result. `started` is when the caller began to wait."""
        self.phase = Phase.RUNNING
        self.finished = None
        self.request_is_out = False
        self.concluded_by, self._deaf = None, False
        self._stop = None
        self._live = live
        self._shown = CellDisplays(self._policy.display_max_bytes)
        self.sinks = self._fresh_sinks()
        self._clock = Clock(started, timeout, self._policy.total_timeout_ms / 1000, self._read_cpu)
        self.desk.begin_call()
        held, self._held = self._held, []
        for number, params, cost in held:
            self.budget.calls -= cost
            self._call_bridge(number, params, cost, now)
        if self._dirty:
            # A late signal is handled between requests, where it is ignored, and not in the next cell.
            self._dirty = False
            self._submit(Call("ping"))
        for call in calls:
            self._submit(call)
        # raw bytes are an answer to few questions only
        self._frames.max_attachment = (
            self._policy.snapshot_max_bytes + FRAME_SLACK if calls[-1].method in WITH_ATTACHMENT else 0
        )
        self.tick(now)
        self._take_waiting(now)

    def _submit(self, call: Call) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": call.method, "params": call.params}
        if not call.silent:
            self._next_id += 1
            self._expected.append((self._next_id, call.method))
            message["id"] = self._next_id
        if call.body_size is not None:
            message["attachment"] = call.body_size
        self.actions.append(Send(encode_frame(message), call.body))

    def post(self, call: Call) -> None:
        """Between calls: something that the guest does in the pause."""
        self._submit(call)

    def cancel(self, now: float) -> None:
        """Stop the running call; harmless when there is none."""
        if self.phase is Phase.RUNNING:
            self._ask("cancelled", now)

    def expects(self, method: str) -> bool:
        """The reply to this request has not come."""
        return any(waiting == method for _, waiting in self._expected)

    @property
    def displays(self) -> list[Display]:
        """What the cell has shown."""
        return self._shown.shown

    @property
    def at_rest(self) -> bool:
        """Nothing is under way in either direction, and nothing was heard that is still to be served."""
        return self.phase is Phase.IDLE and not (self._held or self._expected or self._frames.held)

    # -- input ---------------------------------------------------------------------------------

    @property
    def takes_input(self) -> bool:
        """Whether the wire may be read: what the guest has under way is within its budget.

        A cell that is to stop is always heard: its calls are refused, and hold nothing.
        """
        frames, budget = self._frames, self.budget
        if budget.calls + frames.unread < budget.limit and not frames.blocked:
            return True
        return self._refuses_calls

    def _has_room_for(self, cost: int, line: bytes | bytearray) -> bool:
        """Whether a long line may be decoded now. A reply is kept by nobody who waits for room."""
        return self.budget.fits(cost) or self._refuses_calls or self._is_reply(line)

    @property
    def _refuses_calls(self) -> bool:
        """The cell is over, or is to stop: whatever it calls is refused at once."""
        return self.phase in (Phase.ASKED, Phase.KILLED) or self.concluded_by is not None

    def _is_reply(self, line: bytes | bytearray) -> bool:
        """Whether it looks like the next reply; what looks like one and is a call as well ends the guest."""
        return bool(self._expected) and line.startswith(
            tuple(b'{"jsonrpc":"2.0","id":%d,"%s":' % (self._expected[0][0], key) for key in (b"result", b"error"))
        )

    def _take_waiting(self, now: float) -> None:
        """Frames that waited for room, when there may be some."""
        if self._frames.blocked:
            self.receive(b"", now)

    def receive(self, data: bytes, now: float) -> None:
        """Bytes from the wire."""
        try:
            for message, attachment in self._frames.feed(data):
                self._take(message, attachment, now)
        except ProtocolError as exc:
            self.break_off(exc)

    def receive_output(self, stream: Stream, data: bytes) -> None:
        """Bytes from a capture pipe."""
        if self._deaf:
            return
        text = self.sinks[stream].feed(data)
        if text and self._live:
            self.actions.append(Emit(stream, text))

    def bridge_done(self, key: int, value: Any, error: BaseException | None, now: float) -> None:
        """A host function returned or raised."""
        open_ended = self.concluded_by is None
        self.desk.done(key, value, error, now)
        if open_ended and self.concluded_by is not None:
            self._concluded_at = now
            self.desk.abandon_all(f"the cell ended with {self.concluded_by}")
        self._take_waiting(now)
        self._mind_clock(now)

    def answers_taken(self, now: float) -> None:
        """The guest has read some of its answers: calls that waited for that may start."""
        self.desk.start_waiting(now)
        self._mind_clock(now)

    def stop_listening(self) -> None:
        """What was written before the cell's last word has been read; the rest is not wanted."""
        self._deaf = True

    def _call_answered(self, call: CallBridge, value: Any, error: BaseException | None) -> None:
        self._answered(call, value, error)
        if error is None and call.name in self._ending and self.phase is Phase.RUNNING:
            self.concluded_by = call.name

    def guest_gone(
        self, detail: str, exit_code: int | None = None, *, out_of_memory: bool = False, out_of_fuel: bool = False
    ) -> None:
        """The guest's process ended; with a status of its own choice, or by a signal."""
        if self.finished is None:
            limit = "memory" if out_of_memory else "fuel" if out_of_fuel else None
            death = "killed" if self.phase is Phase.KILLED else limit or "exit"
            self._finish(Finished(death=death, detail=detail, exit_code=exit_code))

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self.desk.busy:
            self.desk.expire(now)
            self._take_waiting(now)
            self._mind_clock(now)
        if self.phase is Phase.RUNNING:
            if self._clock.expired(now):
                self._ask("timeout", now)
            elif self.concluded_by is not None and now >= self._concluded_at + LAST_WORD_PATIENCE:
                self._ask("cancelled", now)
        elif self.phase is Phase.ASKED:
            if now >= self._asked_at + self._policy.grace_ms / 1000:
                self.phase = Phase.KILLED
                self.actions.append(Kill())
            elif now >= self._next_knock:
                self._next_knock = now + KNOCK
                self.actions.append(Interrupt(insist=now >= self._asked_at + INSIST_AFTER))

    def wake_at(self, now: float) -> float | None:
        """When `tick` wants to be called next."""
        if self.phase is Phase.RUNNING:
            at = self._clock.wake_at(now)
            bridge = self.desk.wake_at()
            at = at if bridge is None else min(at, bridge)
            return at if self.concluded_by is None else min(at, self._concluded_at + LAST_WORD_PATIENCE)
        if self.phase is Phase.ASKED:
            return min(self._next_knock, self._asked_at + self._policy.grace_ms / 1000)
        return None

    def seconds_left(self, now: float) -> float:
        """What is left of this call's deadline; negative when it has passed."""
        return min(self._clock.left(now), self._clock.ceiling_at - now)

    @property
    def bridge_seconds(self) -> float:
        """Time of this call that was spent waiting for host functions."""
        return self._clock.bridge_seconds

    # -- inside --------------------------------------------------------------------------------

    def _mind_clock(self, now: float) -> None:
        """The deadline stands still while a host function runs, and not for calls that wait for their turn."""
        if self.desk.under_way and self.phase is Phase.RUNNING:
            self._clock.pause(now)
        else:
            self._clock.resume(now)

    def _ask(self, reason: StopReason, now: float) -> None:
        self._stop = reason
        self.phase = Phase.ASKED
        self._asked_at = now
        self._next_knock = now + KNOCK
        self._dirty = True
        self.actions.append(Interrupt(insist=False))
        self.desk.abandon_all("the cell was stopped")
        self._take_waiting(now)

    def _take(self, message: dict[str, Any], attachment: bytes | bytearray | None, now: float) -> None:
        method = message.get("method")
        if method is not None:
            if "result" in message or "error" in message:
                raise ProtocolError("the guest sent a frame that is a request and a reply")
            self._take_request(method, message, now)
            return
        number = message.get("id")
        if not self._expected or type(number) is not int or number != self._expected[0][0]:
            raise ProtocolError("the guest answered a question that was not asked", cause=replies.word(number))
        _, method = self._expected.pop(0)
        error = message.get("error")
        if error is not None:
            error = {"code": replies.field(error, "code", int, 0), "message": replies.text(error, "message")}
        if error is not None and self._expected:
            self._finish(Finished(error=error, failed_method=method))
        elif not self._expected:
            result = replies.field(message, "result", dict, {})
            self._finish(Finished(result=None if error else result, error=error, attachment=attachment))

    def _take_request(self, method: Any, message: dict[str, Any], now: float) -> None:
        params = message.get("params")
        if method == "bridge":
            self._call_bridge(message.get("id"), params, self._frames.cost, now)
        elif method == "display":
            self._shown.take(params)
        elif method == "output":
            stream: Stream = "stderr" if replies.text(params, "stream") == "stderr" else "stdout"
            self.receive_output(stream, replies.field(params, "text", str, "").encode("utf-8", "replace"))
        elif method == "file":
            self.actions.append(TakeFile(params))
        else:
            raise ProtocolError("the guest called a method that does not exist", cause=replies.word(method))

    def _call_bridge(self, number: Any, params: Any, cost: int, now: float) -> None:
        """Between cells nobody runs host functions: what a thread of the guest asks then is kept for the next one."""
        if self.phase is Phase.IDLE:
            if len(self._held) >= MAX_HELD:
                raise ProtocolError("the guest asks without waiting for answers")
            self._held.append((number, params, cost + PER_CALL))
            self.budget.calls += cost + PER_CALL
            return
        refusal = "the cell was stopped" if self.phase in (Phase.ASKED, Phase.KILLED) else None
        if self.concluded_by is not None:
            refusal = f"the cell ended with {self.concluded_by}"
        self.desk.request(number, params, now, cost=cost, refusal=refusal)
        self._mind_clock(now)

    def _finish(self, finished: Finished) -> None:
        finished.stop, finished.concluded_by = self._stop, self.concluded_by
        self.finished = finished
        self.phase = Phase.IDLE
        if self.desk.busy:
            self.desk.abandon_all("the cell ended before the host answered")

    def break_off(self, exc: ProtocolError) -> None:
        """The guest is not to be trusted with another byte."""
        self.actions.append(Kill())
        self._finish(Finished(death="protocol", detail=str(exc)))
