"""Sessions that are handed over to a client: made, branched and ended here, driven there."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
import anyio.to_thread

from cloche.backends.daemon.policies import plain_policy, read_policy
from cloche.backends.jail.backend import JailBackend
from cloche.backends.jail.branching import JailBranch, JailSavepoint
from cloche.backends.jail.channel import JailChannel
from cloche.daemon.cloakroom import Cloakroom, Lease, LeftSession
from cloche.daemon.mishaps import do_all
from cloche.errors import RequestError, StartError
from cloche.policy import ExecutionPolicy
from cloche.session.deadline import time_left, working_for
from cloche.session.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloche.pool.pool import Pool

    Answer = tuple[dict[str, Any], list[int]]

OPEN_PATIENCE = 30.0
MAX_PLACES = 256
C = TypeVar("C", JailBranch, JailSavepoint)


@dataclass(slots=True)
class _Lent:
    lease: Lease
    channel: JailChannel


@dataclass(slots=True)
class _Copying(Generic[C]):
    copy: C
    lease: Lease


class LendingDesk:
    """What one client has been given."""

    def __init__(self, pool: Pool, cloakroom: Cloakroom, owner: str) -> None:
        self._pool = pool
        self._cloakroom = cloakroom
        self._owner = owner
        self._numbers = itertools.count(1)
        self._leases: dict[str, Lease] = {}
        self._tickets: dict[str, str | None] = {}
        """Leases by the name that the client gave to its request; None of one that is under way."""
        self._channels: dict[int, _Lent] = {}
        self._branches: dict[int, _Copying[JailBranch]] = {}
        self._savepoints: dict[int, _Copying[JailSavepoint]] = {}
        methods: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "lend.open": self._open,
            "lend.kill": self._kill,
            "lend.end_children": self._end_children,
            "lend.close": self._close,
            "lend.release": self._release,
            "lend.give_up": self._give_up,
            "lend.detach": self._detach,
            "lend.attach": self._attach,
            "lend.branch": self._branch,
            "lend.savepoint": self._savepoint,
            "lend.requested": self._requested,
            "lend.conclude": self._conclude,
            "lend.check": self._check,
            "lend.files_changed": self._files_changed,
            "lend.take_over": self._take_over,
            "lend.abandon": self._abandon,
        }
        self.methods = {name: partial(_in_time, method) for name, method in methods.items()}

    # -- sessions ------------------------------------------------------------------------------

    async def _open(self, params: Mapping[str, Any]) -> Answer:
        """A client that does not wait for the answer takes its request back by the `ticket` that it sent along."""
        ticket = str(params.get("ticket"))
        self._tickets[ticket] = None
        try:
            answer = await self._lend(params)
            wanted = ticket in self._tickets
            if wanted:
                self._tickets[ticket] = answer[0]["lease"]
        except BaseException:
            self._tickets.pop(ticket, None)
            raise
        if not wanted:
            await self._release({"lease": answer[0]["lease"]})
            raise StartError("nobody waits for this session any more")
        return answer

    async def _give_up(self, params: Mapping[str, Any]) -> Answer:
        lease = self._tickets.pop(str(params.get("ticket")), None)
        return await self._release({"lease": lease}) if lease is not None else ({}, [])

    async def _lend(self, params: Mapping[str, Any]) -> Answer:
        policy = read_policy(params.get("policy"))
        lease = self._leases.get(str(params.get("lease")))
        if lease is None:
            most = self._pool.limits.wait_ms
            wait_ms = min(max(int(params.get("wait_ms", most)), 0), most)
            await self._pool.take_place(self._owner, policy, wait_ms)
            try:
                lease = Lease(self._owner, JailBackend(python=params.get("python")), policy)
            except BaseException:
                self._pool.give_place_back(self._owner, policy)
                raise
            self._leases[lease.id] = lease
        given = params.get("workspace")
        try:
            # here and now, where that takes no time: a thread takes longer to be woken
            ready = None if given is not None or lease.in_turn.locked() else lease.backend.claim(policy)
            if ready is not None:
                with suppress(StartError):  # it has died this moment
                    return self._hand_over(lease, ready)
                await self._drop(ready)
            workspace = Workspace(Path(given or "/app"), private=given is None)
            workspace.protected = _read_places(params.get("protected"))
            return await self._start(lease, policy, workspace)
        except BaseException:
            await self._release({"lease": lease.id})
            raise

    async def _start(self, lease: Lease, policy: ExecutionPolicy, place: Workspace, *, again: bool = True) -> Answer:
        async with lease.in_turn:
            channel = await anyio.to_thread.run_sync(lease.backend.open, policy, place, time_left(OPEN_PATIENCE))
        try:
            return await self._give(lease, channel)
        except StartError:
            if not again or channel.seat.broker.alive:
                raise
        return await self._start(lease, policy, place, again=False)  # it was asked of a jail that was dying

    async def _give(self, lease: Lease, channel: JailChannel) -> Answer:
        """Whoever is cancelled meanwhile has been given it all the same, and will give it back."""
        try:
            with anyio.CancelScope(shield=True):
                given = await anyio.to_thread.run_sync(self._hand_over, lease, channel)
        except BaseException:
            await self._drop(channel)
            raise
        return given

    async def _drop(self, channel: JailChannel) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(channel.close)

    def _hand_over(self, lease: Lease, channel: JailChannel) -> Answer:
        """Waits for the handles of a session that is still being made."""
        number = next(self._numbers)
        workspace = channel.seat.workspace
        ends = channel.ends
        handles = [channel.exit_pipe, channel.handle(), workspace.descriptor]
        group = channel.seat.group
        gauges = {} if group is None else group.gauges.open_all()
        counting = None if group is None else {"version": group.gauges.version, "memory": group.gauges.memory}
        descriptors = [ends.wire.fileno(), ends.stdout, ends.stderr, *handles, *gauges.values()]
        self._channels[number] = _Lent(lease, channel)
        self._pool.metrics["lent"] += 1
        uid, gid = channel.seat.user
        said = {
            "channel": number, "lease": lease.id, "pid": channel.pid, "isolation": channel.isolation.name,
            "layers": list(channel.layers), "greeting": dict(channel.greeting), "root": str(workspace.root),
            "private": workspace.private, "uid": uid, "gid": gid, "counting": counting, "gauges": list(gauges),
        }  # fmt: skip
        return said, descriptors

    def _find(self, params: Mapping[str, Any]) -> _Lent:
        lent = self._channels.get(params.get("channel"))  # type: ignore[arg-type]  # whatever was sent is not there
        if lent is None:
            raise RequestError("there is no such channel of yours")
        return lent

    async def _kill(self, params: Mapping[str, Any]) -> Answer:
        lent = self._find(params)
        async with lent.lease.in_turn:
            await anyio.to_thread.run_sync(lent.channel.kill)
        return {}, []

    async def _end_children(self, params: Mapping[str, Any]) -> Answer:
        lent, seconds = self._find(params), float(params.get("seconds", 0))
        async with lent.lease.in_turn:
            await anyio.to_thread.run_sync(lent.channel.end_children, seconds)
        return {}, []

    async def _close(self, params: Mapping[str, Any]) -> Answer:
        lent = self._channels.pop(params.get("channel"), None)  # type: ignore[arg-type]  # as above
        if lent is not None:
            with anyio.CancelScope(shield=True):  # nobody else knows of it any more
                async with lent.lease.in_turn:
                    await anyio.to_thread.run_sync(lent.channel.close)
        return {}, []

    async def _release(self, params: Mapping[str, Any]) -> Answer:
        lease = self._leases.pop(str(params.get("lease")), None)
        if lease is not None:
            self._forget_ticket(lease)
            with anyio.CancelScope(shield=True):
                await self._end(lease)
        return {}, []

    def _forget_ticket(self, lease: Lease) -> None:
        self._tickets = {ticket: name for ticket, name in self._tickets.items() if name != lease.id}

    async def _end(self, lease: Lease) -> None:
        try:
            for number in [number for number, lent in self._channels.items() if lent.lease is lease]:
                await self._close({"channel": number})
            for copies in (self._branches, self._savepoints):
                for number in [number for number, copying in copies.items() if copying.lease is lease]:
                    await self._abandon({"copy": number})
            await anyio.to_thread.run_sync(lease.backend.release)
        finally:
            self._pool.give_place_back(lease.owner, lease.policy)

    async def _detach(self, params: Mapping[str, Any]) -> Answer:
        lent = self._find(params)
        note, context = params.get("note"), params.get("attachment")
        lease = lent.lease
        with anyio.CancelScope(shield=True):
            for number in [number for number, copying in self._savepoints.items() if copying.lease is lease]:
                await self._abandon({"copy": number})
        left = LeftSession(lease, lent.channel, note if isinstance(note, dict) else {}, context)
        del self._leases[lease.id]
        self._forget_ticket(lease)
        del self._channels[params["channel"]]
        self._cloakroom.leave(left)
        return {"session": lease.id, "key": left.key}, []

    async def _attach(self, params: Mapping[str, Any]) -> tuple[Any, ...]:
        left = self._cloakroom.take(str(params.get("session")), str(params.get("key", "")))
        self._leases[left.lease.id] = left.lease
        said, descriptors = await self._give(left.lease, left.channel)
        answer = {**said, "policy": plain_policy(left.lease.policy), "note": left.note}
        return (answer, descriptors) if left.context is None else (answer, descriptors, left.context)

    # -- copies --------------------------------------------------------------------------------

    async def _branch(self, params: Mapping[str, Any]) -> Answer:
        lent = self._find(params)
        policy = lent.lease.policy
        await self._pool.take_place(self._owner, policy)
        try:
            copy = await anyio.to_thread.run_sync(lent.lease.backend.branch, lent.channel, policy)
        except BaseException:
            self._pool.give_place_back(self._owner, policy)
            raise
        lease = Lease(self._owner, lent.lease.backend.another(), policy)
        self._leases[lease.id] = lease
        return _note(self._branches, next(self._numbers), _Copying(copy, lease))

    async def _savepoint(self, params: Mapping[str, Any]) -> Answer:
        lent = self._find(params)
        older = self._savepoints.get(params.get("replaced"))  # type: ignore[arg-type]  # as above
        backend, policy = lent.lease.backend, lent.lease.policy
        copy = await anyio.to_thread.run_sync(
            backend.savepoint, lent.channel, policy, None if older is None else older.copy
        )
        return _note(self._savepoints, next(self._numbers), _Copying(copy, lent.lease))

    async def _requested(self, params: Mapping[str, Any]) -> Answer:
        await anyio.to_thread.run_sync(_copy(self._branches, params).copy.requested)
        return {}, []

    async def _conclude(self, params: Mapping[str, Any]) -> Answer:
        copying = _copy(self._branches, params)
        channel = await anyio.to_thread.run_sync(copying.copy.conclude)
        del self._branches[params["copy"]]
        return await self._become(copying.lease, channel)

    async def _check(self, params: Mapping[str, Any]) -> Answer:
        await anyio.to_thread.run_sync(_copy(self._savepoints, params).copy.check)
        return {}, []

    async def _files_changed(self, params: Mapping[str, Any]) -> Answer:
        await anyio.to_thread.run_sync(_copy(self._savepoints, params).copy.files_changed)
        return {}, []

    async def _take_over(self, params: Mapping[str, Any]) -> Answer:
        copying = _copy(self._savepoints, params)
        channel = await anyio.to_thread.run_sync(copying.copy.take_over)
        del self._savepoints[params["copy"]]
        return await self._become(copying.lease, channel)

    async def _become(self, lease: Lease, channel: JailChannel) -> Answer:
        lease.backend.adopt(channel)
        return await self._give(lease, channel)

    async def _abandon(self, params: Mapping[str, Any]) -> Answer:
        number: Any = params.get("copy")
        waiting = self._savepoints.pop(number, None)
        branch = self._branches.pop(number, None)
        with anyio.CancelScope(shield=True):
            if waiting is not None:
                await anyio.to_thread.run_sync(waiting.copy.abandon)
            if branch is not None:
                await anyio.to_thread.run_sync(branch.copy.abandon)
                await self._release({"lease": branch.lease.id})
        return {}, []

    @property
    def has_lent(self) -> bool:
        """Whether something was not given back."""
        return bool(self._leases)

    async def close(self) -> None:
        """The client is gone: end all that it had."""
        await do_all(partial(self._release, {"lease": lease}) for lease in list(self._leases))


async def _in_time(method: Callable[[Mapping[str, Any]], Any], params: Mapping[str, Any]) -> Any:
    """Serve a request within what its client has left of the call that it makes it for."""
    left = params.get("left")
    if type(left) is not float or not 0 <= left <= OPEN_PATIENCE:
        return await method(params)
    with working_for(left):
        return await method(params)


def _read_places(given: Any) -> tuple[str, ...]:
    """Places of the client that its guest may not write."""
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > MAX_PLACES or not all(type(place) is str for place in given):
        raise RequestError("protected is a list of paths")
    return tuple(given)


def _note(copies: dict[int, _Copying[C]], number: int, copying: _Copying[C]) -> Answer:
    copies[number] = copying
    return {"copy": number, "params": copying.copy.params}, []


def _copy(copies: dict[int, _Copying[C]], params: Mapping[str, Any]) -> _Copying[C]:
    copying = copies.get(params.get("copy"))  # type: ignore[arg-type]  # whatever was sent is not there
    if copying is None:
        raise RequestError("there is no such copy of yours")
    return copying
