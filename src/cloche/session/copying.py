"""Branches, savepoints and returns, as steps that either driver can carry out while it holds the session.

A step is a request to the guest (`Operation`) or work on the host that may block (`Work`). What a step gives comes
back into the generator; what it raises is raised there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from cloche.errors import BranchError
from cloche.session.machine import Call
from cloche.session.operations import Operation, Ping
from cloche_guest.codes import CANNOT_BRANCH

if TYPE_CHECKING:
    from cloche.session.channel import Channel
    from cloche.session.live import LiveSession

T = TypeVar("T")
C = TypeVar("C", bound="SessionCopy")


class SessionCopy(ABC):
    """A copy of a live guest. Constructing it is what goes before the request to the guest."""

    params: dict[str, Any]

    @abstractmethod
    def abandon(self) -> None:
        """End it."""


class BranchCopy(SessionCopy):
    """A copy that becomes a session of its own."""

    @abstractmethod
    def requested(self) -> None:
        """The guest has answered the request."""

    @abstractmethod
    def conclude(self) -> Channel:
        """After the request: the copy's channel. Raises `BranchError` when there is none."""


class WaitingCopy(SessionCopy):
    """A copy to which its session may return."""

    @abstractmethod
    def check(self) -> None:
        """After the request: raise `BranchError` when there is none."""

    @abstractmethod
    def files_changed(self) -> None:
        """The host has changed the session's files."""

    @abstractmethod
    def take_over(self) -> Channel:
        """End the guest it was copied from, and be the session."""


@dataclass(slots=True)
class Work:
    """Work on the host that may block."""

    action: Callable[[], Any]


Step = Operation[Any] | Work
Steps = Generator[Step, Any, T]


_REMEDIES = {
    "threads": "end its threads first",
    "no more layers": "branch from an earlier branch, or move on with snapshot() and restore()",
    "no more processes": "destroy branches that are not needed, or raise policy.processes",
}
"""By how the guest's reason begins."""


@dataclass(slots=True)
class CopyGuest(Operation[None]):
    """Have the guest fork itself over the descriptors that went ahead."""

    params: dict[str, Any]
    name: str = "fork"

    def call(self) -> Call:
        return Call("branch", self.params)

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> None:
        return None

    def refuse(self, error: dict[str, Any]) -> Exception:
        if error["code"] == CANNOT_BRANCH:
            return BranchError(
                "the session cannot be copied",
                cause=error["message"],
                remedy=next((step for word, step in _REMEDIES.items() if error["message"].startswith(word)), None),
            )
        return super().refuse(error)


@dataclass(slots=True)
class Resume(Operation[None]):
    """Tell a copy that has waited that it is the session now."""

    name: str = "undo"
    params: dict[str, Any] = field(default_factory=dict)

    def call(self) -> Call:
        return Call("resume", self.params)

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> None:
        return None


def fork_steps(session: LiveSession, count: int) -> Steps[list[Channel]]:
    """`count` branches of the session, all or none."""
    session.require("fork")
    yield from _be_there(session)
    copies: list[BranchCopy] = []
    try:
        for _ in range(count):
            copies.append((yield from _begin(session.begin_branch)))
            yield CopyGuest(copies[-1].params)
            copies[-1].requested()
        channels: list[Channel] = yield Work(lambda: [copy.conclude() for copy in copies])
    except BaseException:
        for copy in copies:
            copy.abandon()
        raise
    return channels


def savepoint_steps(session: LiveSession) -> Steps[None]:
    """Mark the state of now."""
    session.require("savepoint")
    yield from _be_there(session)
    mark: WaitingCopy = yield from _begin(session.returns.begin_mark)
    try:
        yield CopyGuest(mark.params)
        yield Work(mark.check)
    except BaseException:
        mark.abandon()
        raise
    session.returns.set_mark(mark)
    if session.witness is not None:
        session.witness.marked()


def undo_steps(session: LiveSession) -> Steps[None]:
    """Return to the mark. It stays: in the pause after this a new copy is made of what has been returned to."""
    session.require("savepoint")
    yield Work(session.returns.return_to_mark)
    yield Resume()
    mark: WaitingCopy = yield from _begin(session.returns.begin_mark)
    session.returns.mark_in_pause(mark)
    if session.witness is not None:
        session.witness.undone()


def _be_there(session: LiveSession) -> Steps[None]:
    """A session, with its context. One that has answered before is not asked again."""
    if not session.has_answered:
        yield Ping()


def _begin(action: Callable[[], C]) -> Steps[C]:
    try:
        copy: C = yield Work(action)
    except BranchError:
        yield Ping()  # if the session has ended, that is what there is to say
        raise
    return copy
