"""The other end of a machine, for tests: what a guest would say, as bytes, and a clock that is moved by hand."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from cloche import ExecutionPolicy
from cloche.session.actions import CallBridge, Send
from cloche.session.machine import Call, Finished, Machine


def frame(**message: Any) -> bytes:
    """One frame as a guest would send it."""
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


class Bench:
    """A machine, the time, and what it has asked for so far. Nothing is sent, waited for or killed."""

    def __init__(self, bridges: Collection[str] = (), cpu: list[float] | None = None, **policy: Any) -> None:
        self.now = 100.0
        self.cpu = cpu
        self.machine = Machine(ExecutionPolicy(**policy), frozenset(bridges), self._read_cpu)
        self.actions: list[Any] = []

    def _read_cpu(self) -> float | None:
        return None if self.cpu is None else self.cpu[0]

    def _take(self) -> list[Any]:
        fresh = list(self.machine.actions)
        self.machine.actions.clear()
        self.actions += fresh
        return fresh

    def begin(self, *methods: str, timeout: float = 1.0, live: bool = False, waited: float = 0.0) -> list[Any]:
        calls = [Call(method, {"code": "1"}) for method in methods or ("execute",)]
        self.machine.begin(calls, now=self.now, started=self.now - waited, timeout=timeout, live=live)
        return self._take()

    def receive(self, *frames: bytes) -> list[Any]:
        self.machine.receive(b"".join(frames), self.now)
        return self._take()

    def reply(self, **result: Any) -> list[Any]:
        """The reply to the oldest request that waits for one."""
        return self.receive(frame(id=self.waiting[0], result=result))

    def bridge(self, number: int, name: str, *args: Any, **kwargs: Any) -> list[Any]:
        """The guest calls a host function."""
        return self.receive(
            frame(id=number, method="bridge", params={"name": name, "args": list(args), "kwargs": kwargs})
        )

    def answer(self, call: CallBridge, value: Any = None, error: BaseException | None = None) -> list[Any]:
        """The host function returned or raised."""
        self.machine.bridge_done(call.key, value, error, self.now)
        return self._take()

    def cancel(self) -> list[Any]:
        self.machine.cancel(self.now)
        return self._take()

    def output(self, stream: Any, data: bytes) -> list[Any]:
        self.machine.receive_output(stream, data)
        return self._take()

    def pass_time(self, seconds: float) -> list[Any]:
        """Move the clock and tick as a driver would: at the end, and whenever the machine asked to be woken."""
        end = self.now + seconds
        fresh: list[Any] = []
        while True:
            wake = self.machine.wake_at(self.now)
            self.now = end if wake is None else min(end, max(wake, self.now + 1e-6))
            self.machine.tick(self.now)
            fresh += self._take()
            if self.now >= end:
                return fresh

    def is_over(self) -> bool:
        """Whether the call has ended."""
        return self.machine.finished is not None

    def finished(self) -> Finished:
        """How the call ended."""
        assert self.machine.finished is not None, "the call has not ended"
        return self.machine.finished

    @property
    def waiting(self) -> list[int]:
        """Ids of the requests whose reply has not come."""
        return [number for number, _ in self.machine._expected]


def sent(actions: list[Any]) -> list[dict[str, Any]]:
    """The messages among these actions."""
    return [json.loads(action.data) for action in actions if isinstance(action, Send)]


def methods(actions: list[Any]) -> list[str]:
    """Methods of the requests among these actions."""
    return [message["method"] for message in sent(actions) if "method" in message]


def bridge_calls(actions: list[Any]) -> list[CallBridge]:
    """The host functions that are to be run."""
    return [action for action in actions if isinstance(action, CallBridge)]
