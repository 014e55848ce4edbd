"""Copies of a live session: the seat and files of a branch, and savepoints that wait in the seat of their session."""

from __future__ import annotations

import os
import secrets
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cloche.backends.jail.channel import JailChannel
from cloche.backends.jail.copies import TreeCopy, copy_tree
from cloche.backends.jail.ends import Ends, rank_victims, readable
from cloche.backends.jail.seat import NOT_YET
from cloche.errors import BranchError
from cloche.session.callback_threads import threads
from cloche.session.copying import BranchCopy, WaitingCopy
from cloche.session.deadline import time_left
from cloche_guest.jail import messages

if TYPE_CHECKING:
    from cloche.backends.jail.seat import Seat

UP_PATIENCE = 10.0
WAKE_EVERY = 0.05
KEY_BITS = 62
MAX_LEVEL = 28
"""Namespaces can be nested 32 deep; some of that belongs to the machine that we run on."""


class JailBranch(BranchCopy):
    """A copy that becomes a session of its own, with its own files."""

    def __init__(self, parent: JailChannel, options: dict[str, Any]) -> None:
        self.params = {"waits": False}
        self._parent = parent
        level, seat = 1, parent.seat
        while seat.parent is not None:
            level, seat = level + 1, seat.parent
        if level >= MAX_LEVEL:
            raise BranchError(
                f"a branch cannot be more than {MAX_LEVEL} branches away from the first session",
                remedy="branch from an earlier one, or move on with snapshot() and restore()",
            )
        meter = parent.seat.broker.meter
        if meter is not None and meter.version > 1:
            threads.run(meter.stir)  # so that nobody waits for that when the copy is there
        self._seat = parent.seat.make_below(options)
        try:
            with parent.seat.workspace.acting():
                copy_tree(parent.seat.workspace.descriptor, self._seat.workspace.descriptor)
                copy_tree(*self._seat.private_folders)
            self._seat.workspace.look()
            self._channel = JailChannel(self._seat, Ends(), parent.approver)
        except BaseException:
            self._seat.close()
            raise
        self._approved = parent.approver.approving.acquire(timeout=time_left(UP_PATIENCE))
        try:
            if not self._approved:
                raise BranchError("another branch of this family is still being made")
            key = secrets.randbits(KEY_BITS)
            parent.approver.allow(key)
            joins = self._seat.open_group()
            try:
                pass_on(parent, self._channel.ends, [*self._seat.namespaces, *joins], key)
            finally:
                for descriptor in joins:
                    os.close(descriptor)
        except BaseException:
            self.abandon()
            raise

    def requested(self) -> None:
        if self._approved:
            self._approved = False
            self._parent.approver.allow(0)
            self._parent.approver.approving.release()

    def conclude(self) -> JailChannel:
        channel = self._channel
        handle = channel.ends.identify(time_left(UP_PATIENCE), self._seat.holds)
        channel.take_worker(handle, self._parent.seat)
        self._seat.put_into_group(handle)
        self._seat.drop_namespaces()
        return _like(self._parent, channel)

    def abandon(self) -> None:
        self.requested()
        self._channel.drop()
        self._seat.close()


class JailSavepoint(WaitingCopy):
    """A copy that waits in the seat of its session, beside a copy of the session's files."""

    def __init__(self, parent: JailChannel, quota: dict[str, int], replaced: JailSavepoint | None = None) -> None:
        """`replaced`: an older savepoint of this session whose files are brought up to date, and which ends."""
        self.params = {"waits": True}
        self._parent = parent
        self._seat = parent.seat
        self._files = _SavedFiles(parent.seat, quota) if replaced is None else replaced.give_files()
        self._handle = NOT_YET
        self._births = parent.seat.births
        try:
            self._files.take()
            self._channel = JailChannel(parent.seat, Ends(), parent.approver)
        except BaseException:
            self._files.close()
            raise
        try:
            pass_on(parent, self._channel.ends, [])
        except BaseException:
            self.abandon()
            raise
        self._seat.spared.append(self._find)

    def give_files(self) -> _SavedFiles:
        """For the savepoint that comes after this one."""
        files, self._files = self._files, _NO_FILES
        return files

    def check(self) -> None:
        handle = self._find(time_left(UP_PATIENCE))
        if handle < 0 or readable(handle, 0):
            raise BranchError("the savepoint was not made, or has ended")

    def _find(self, patience: float) -> int:
        """Its handle; -1 when there is none, `NOT_YET` when it has not shown itself and may wait no longer."""
        until = time.monotonic() + patience
        while self._handle == NOT_YET:
            if self._channel.ends.has_come(0.0 if patience <= 0 else WAKE_EVERY):
                self._identify()
            elif time.monotonic() >= until:
                break
            else:
                self._seat.wake()  # it may have been stopped before it could show itself
        return self._handle

    def _identify(self) -> None:
        try:
            self._handle = self._channel.ends.identify(0.0, self._seat.holds)
        except BranchError:
            self._handle = -1
        else:
            self._channel.take_worker(self._handle, self._seat)
            rank_victims(self._parent.handle(), self._handle)

    def files_changed(self) -> None:
        with suppress(BranchError):  # then what was put there last is missing after a return
            self._files.take()

    def take_over(self) -> JailChannel:
        """End all else in the seat, put the files back, and be the session."""
        self.check()
        seat = self._seat
        seat.clear()
        if not seat.is_clear():
            raise BranchError("the session's PID 1 does not answer")
        with suppress(ProcessLookupError):  # it may have been stopped, but who could do so is gone
            signal.pidfd_send_signal(self._handle, signal.SIGCONT)
        self.check()
        self._channel.ends.greet(time_left(UP_PATIENCE))
        if seat.branched_since(self._births):  # of which it knows nothing
            self._channel.ends.tell({"branched": True})
        self._forget()
        self._files.put_back()
        self._files.close()
        seat.workspace.look()
        return _like(self._parent, self._channel)

    def abandon(self) -> None:
        self._forget()
        self._channel.drop()
        self._files.close()

    def _forget(self) -> None:
        with suppress(ValueError):
            self._seat.spared.remove(self._find)


class _SavedFiles:
    """The files of a session, kept in memory where the session cannot reach them."""

    def __init__(self, seat: Seat | None, quota: dict[str, int]) -> None:
        self._seat = seat
        self._open: list[int] = []
        if seat is None:
            return
        store, private = seat.ask({"store": True, **quota, "user": seat.inside_user})
        self._open = [store, private]
        self._pairs: list[tuple[TreeCopy, int, int]] = []
        with seat.workspace.acting():
            for name, source in (("workspace", seat.workspace.descriptor), ("private", private)):
                os.mkdir(name, 0o700, dir_fd=store)
                target = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=store)
                self._open.append(target)
                self._pairs.append((TreeCopy(), source, target))

    def take(self) -> None:
        if self._seat is not None:
            with self._seat.workspace.acting():
                for tree, source, target in self._pairs:
                    tree.take(source, target)

    def put_back(self) -> None:
        if self._seat is not None:
            with self._seat.workspace.acting():
                for tree, source, target in self._pairs:
                    tree.put_back(source, target)

    def close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)
        self._open = []


_NO_FILES = _SavedFiles(None, {})


def pass_on(parent: JailChannel, ends: Ends, others: list[int], key: int = 0) -> None:
    """Send the descriptors of a copy ahead of the request to make it, and the key by which it enters its seat."""
    try:
        messages.send(parent.ends.line, {"copy": True, "key": key}, [*ends.theirs(), *others])
    except OSError as exc:
        raise BranchError("the session does not take descriptors", cause=str(exc)) from None
    finally:
        ends.drop_theirs()  # so that its end is seen


def _like(parent: JailChannel, channel: JailChannel) -> JailChannel:
    channel.layers, channel.greeting = parent.layers, parent.greeting
    return channel
