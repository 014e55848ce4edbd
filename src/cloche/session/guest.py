"""A live guest, and what drives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloche.errors import SessionLostError, StartError
from cloche.session.machine import Call
from cloche.session.operations import slices

if TYPE_CHECKING:
    from cloche.session.channel import Channel
    from cloche.session.machine import Finished, Machine
    from cloche.session.pump import Pump


@dataclass(slots=True)
class Guest:
    """A live guest and what drives it."""

    channel: Channel
    machine: Machine
    pump: Pump
    greeted: bool = False
    listed: bool = False
    """Which process it is has been recorded."""
    pending: list[Call] = field(default_factory=list)
    """Requests that go before the next one."""

    def requests(self, call: Call) -> list[Call]:
        """`call`, and what has to go before it."""
        pending, self.pending = self.pending, []
        if call.method == "execute":
            pending += [_errand(*told) for told in self.channel.errands()]
        if call.method in ("execute", "validate"):
            call.params.update(self.channel.remarks(call.params["code"]))
        return [*pending, call]

    @property
    def finished(self) -> Finished:
        """How the last call ended."""
        finished = self.machine.finished
        if finished is None:
            raise RuntimeError("the driver stopped before the machine had finished")
        return finished

    def raise_absence(self) -> None:
        """A guest that died before it ever answered did not lose a session: there was none yet.

        One that had ended before this call did lose it, and what was asked has not been done.
        """
        finished = self.finished
        if self.pump.refused and self.greeted:
            raise SessionLostError(
                "the session ended between two calls, and its variables with it",
                cause=finished.detail,
                remedy="call again: the next call starts a fresh session",
            )
        if self.machine.expects("initialize") and finished.stop is None:
            text, _ = self.machine.sinks["stderr"].finish()
            raise StartError("the guest did not start", cause=f"{finished.detail} {text.strip()[-500:]}".strip())


def _errand(method: str, params: dict[str, Any], body: bytes | None) -> Call:
    return Call(method, params) if body is None else Call(method, params, len(body), slices(body))
