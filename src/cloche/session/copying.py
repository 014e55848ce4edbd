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
    from cloche.session.core import SessionCore

T = TypeVar("T")


class SessionCopy(ABC):
    """A copy of a live guest that is being made, or that waits. Constructing it is what goes before the request."""

    params: dict[str, Any]

    def requested(self) -> None:  # noqa: B027 - not every copy holds something meanwhile
        """The guest has answered the request."""

    @abstractmethod
    def conclude(self) -> Channel:
        """After the request: the copy's channel. Raises `BranchError` when there is none."""

    @abstractmethod
    def abandon(self) -> None:
        """End it."""

    def refresh(self) -> None:  # noqa: B027 - not every copy has files
        """For one that waits: the host has changed the session's files."""

    def take_over(self) -> Channel:
        """For one that waits: end the guest it was copied from, and be the session."""
        raise NotImplementedError


@dataclass(slots=True)
class Work:
    """Work on the host that may block."""

    action: Callable[[], Any]


Step = Operation[Any] | Work
Steps = Generator[Step, Any, T]


@dataclass(slots=True)
class CopyGuest(Operation[None]):
    """Have the guest fork itself over the descriptors that went ahead."""

    params: dict[str, Any]
    name: str = "fork"

    def call(self) -> Call:
        return Call("branch", self.params)

    def read(self, result: dict[str, Any], attachment: bytes | None) -> None:
        return None

    def refuse(self, error: dict[str, Any]) -> Exception:
        if error["code"] == CANNOT_BRANCH:
            return BranchError(
                "the session cannot be copied",
                cause=error["message"],
                remedy="end its threads first" if error["message"].startswith("threads") else None,
            )
        return super().refuse(error)


@dataclass(slots=True)
class Resume(Operation[None]):
    """Tell a copy that has waited that it is the session now."""

    name: str = "undo"
    params: dict[str, Any] = field(default_factory=dict)

    def call(self) -> Call:
        return Call("resume", self.params)

    def read(self, result: dict[str, Any], attachment: bytes | None) -> None:
        return None


def fork_steps(core: SessionCore, count: int) -> Steps[list[Channel]]:
    """`count` branches of the session, all or none."""
    core.require("fork")
    yield from _be_there(core)
    copies: list[SessionCopy] = []
    try:
        for _ in range(count):
            copies.append((yield from _begin(core.begin_branch)))
            yield CopyGuest(copies[-1].params)
            copies[-1].requested()
        channels: list[Channel] = yield Work(lambda: [copy.conclude() for copy in copies])
    except BaseException:
        for copy in copies:
            copy.abandon()
        raise
    return channels


def savepoint_steps(core: SessionCore) -> Steps[None]:
    """Mark the state of now."""
    core.require("savepoint")
    yield from _be_there(core)
    mark: SessionCopy = yield from _begin(core.returns.begin_mark)
    try:
        yield CopyGuest(mark.params)
        yield Work(mark.conclude)
    except BaseException:
        mark.abandon()
        raise
    core.returns.set_mark(mark)


def undo_steps(core: SessionCore) -> Steps[None]:
    """Return to the mark. It stays: in the pause after this a new copy is made of what has been returned to."""
    core.require("savepoint")
    yield Work(core.returns.return_to_mark)
    yield Resume()
    mark: SessionCopy = yield from _begin(core.returns.begin_mark)
    core.returns.mark_in_pause(mark)


def _be_there(core: SessionCore) -> Steps[None]:
    """A session, with its context. One that has answered before is not asked again."""
    if not core.has_answered:
        yield Ping()


def _begin(action: Callable[[], SessionCopy]) -> Steps[SessionCopy]:
    try:
        copy: SessionCopy = yield Work(action)
    except BranchError:
        yield Ping()  # if the session has ended, that is what there is to say
        raise
    return copy
