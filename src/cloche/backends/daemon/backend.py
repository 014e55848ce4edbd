"""`daemon`: sessions that live in the daemon's warm house and are driven from here.

The daemon makes a session and hands its descriptors over: the wire, the captured output, a handle of the process, the
folder. From then on cells and bridge calls go straight between us and the guest, at the speed of the wall itself; the
daemon is asked when something is made, branched or ended, and ends everything of ours when we are gone.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cloche import __version__
from cloche.backends.counted_worker import CountedWorker
from cloche.backends.daemon.link import Link, links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.backends.daemon.policies import plain_policy, read_policy
from cloche.errors import AdmissionError, BackendUnavailableError, BranchError, ClocheError, QuotaError, StartError
from cloche.isolation import Isolation, Layer
from cloche.session.channel import Availability, Backend, Channel
from cloche.session.copying import BranchCopy, WaitingCopy
from cloche.session.deadline import CLEAN_UP, time_left

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloche.backends.jail.backend import JailBackend
    from cloche.policy import ExecutionPolicy
    from cloche.session.workspace import Workspace

PROBE_PATIENCE = 0.05
PATIENCE = 30.0
LAST_WORD = 2.0
"""Seconds in which a daemon must say that it could not do something in time."""
AUTO_PATIENCE = 5.0
"""Seconds that a caller who did not ask for the daemon by name waits for it, before a jail of its own is made."""
_ANSWER_MS = 500
"""What is left of a deadline for the daemon's word that no place became free."""
_DESCRIPTORS = 6


class DaemonChannel(CountedWorker):
    """A session's descriptors, and a line to the daemon for the rest."""

    def __init__(self, link: Link, said: Mapping[str, Any], descriptors: list[int]) -> None:
        from cloche.backends.jail.gauges import CellCounter, Gauges
        from cloche.backends.jail.seat import JailWorkspace

        if not _is_session(said) or len(descriptors) != _DESCRIPTORS + len(said["gauges"]):
            for descriptor in descriptors:
                os.close(descriptor)
            raise StartError("the daemon did not hand a session over")
        wire, out, err, self._end, self._handle, self._folder, *files = descriptors
        gauges = dict(zip(said["gauges"], files, strict=True))
        self._counter = CellCounter(Gauges(paths={}, opened=gauges, **said["counting"]) if said["counting"] else None)
        self.link = link
        self.number: int = said["channel"]
        self.lease: str = said["lease"]
        self.wire = socket.socket(fileno=wire)
        self.wire.setblocking(False)
        self.stdout, self.stderr = out, err
        self.isolation = Isolation[said["isolation"]]
        self.layers = tuple(said["layers"])
        self.greeting = said["greeting"]
        self.workspace = JailWorkspace(
            Path(said["root"]), (said["uid"], said["gid"]), private=said["private"], descriptor=self._folder
        )
        self._pid: int | None = said["pid"]
        self._owner = os.getpid()
        self._closed = False

    @property
    def pid(self) -> int | None:
        return self._pid

    def interrupt(self, *, insist: bool) -> None:
        self._signal(signal.SIGUSR2 if insist else signal.SIGINT)

    def kill(self) -> None:
        if self._owner == os.getpid():
            self._signal(signal.SIGKILL)
            self.link.tell("lend.kill", {"channel": self.number})

    def end_children(self, seconds: float) -> None:
        with suppress(ClocheError):
            _ask(self.link, "lend.end_children", {"channel": self.number, "seconds": seconds})

    def _signal(self, number: signal.Signals) -> None:
        if self._owner == os.getpid():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._owner == os.getpid():
            self._signal(signal.SIGKILL)
            with suppress(ClocheError):
                _ask(self.link, "lend.close", {"channel": self.number})
        self._let_go()

    def detach(self, note: Mapping[str, Any], context: bytes | None) -> tuple[str, str]:
        """Leave the guest with the daemon, as it is: its name, and the key to it. `note`: for whoever takes it up."""
        params = {"channel": self.number, "note": dict(note)}
        said, _, _ = self.link.call("lend.detach", params, timeout=PATIENCE, body=context)
        self._closed = True
        self._let_go()
        return said["session"], said["key"]

    def _let_go(self) -> None:
        if self._counter.gauges is not None:
            self._counter.gauges.close()
        self.wire.close()
        for descriptor in (self.stdout, self.stderr, self._end, self._handle, self._folder):
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)


class _PreparedCopy:
    """A copy of a session that the daemon prepares and the guest makes."""

    def __init__(self, link: Link, method: str, params: Mapping[str, Any]) -> None:
        self.link = link
        said, _ = _ask(link, method, params)
        self.number: int = said["copy"]
        self.params: dict[str, Any] = said["params"]

    def ask(self, method: str) -> tuple[dict[str, Any], list[int]]:
        try:
            return _ask(self.link, method, {"copy": self.number})
        except BackendUnavailableError as exc:
            raise BranchError("the daemon cannot go on with the copy", cause=str(exc)) from None

    def tell(self, method: str) -> None:
        self.link.tell(method, {"copy": self.number})

    def abandon(self) -> None:
        with suppress(ClocheError):
            self.ask("lend.abandon")


class DaemonBranch(_PreparedCopy, BranchCopy):
    """A branch of a session of the daemon."""

    def requested(self) -> None:
        self.tell("lend.requested")

    def conclude(self) -> DaemonChannel:
        return DaemonChannel(self.link, *self.ask("lend.conclude"))


class DaemonSavepoint(_PreparedCopy, WaitingCopy):
    """A savepoint, which stays with the daemon until it is wanted."""

    def check(self) -> None:
        self.ask("lend.check")

    def files_changed(self) -> None:
        self.tell("lend.files_changed")

    def take_over(self) -> DaemonChannel:
        return DaemonChannel(self.link, *self.ask("lend.take_over"))


class DaemonBackend(Backend):
    """Asks a daemon of this user for sessions."""

    name: ClassVar[str] = "daemon"
    capabilities: ClassVar[frozenset[str]] = frozenset({
        "network", "threads", "subprocess", "site_packages", "links", "byte_names", "cpus", "fork", "savepoint",
        "protect_state",
    })  # fmt: skip
    options: ClassVar[tuple[str, ...]] = ("python",)
    workspace_inside: ClassVar[bool] = True

    def __init__(self, *, python: str | os.PathLike[str] | None = None, else_here: bool = False) -> None:
        """`else_here`: where no place comes at once, the session begins in a jail of this process instead. The factory
        says so for callers that asked for ``auto``."""
        self._python = None if python is None else os.fspath(python)
        self._else_here = else_here
        self._here: JailBackend | None = None
        self._places = Places.default()
        self._lease: str | None = None
        self._link: Link | None = None

    @classmethod
    def probe(cls, **_: Any) -> Availability:
        if sys.platform != "linux":
            return Availability(False, "needs Linux", "use native")
        places = Places.default()
        try:
            places.socket.stat()
        except (FileNotFoundError, NotADirectoryError):
            return Availability(False, "no daemon runs", "cloche daemon start")
        except OSError as exc:  # a HOME of somebody else, as sudo leaves it
            return Availability(
                False,
                f"{places.socket} cannot be reached: {exc.strerror}",
                f"set HOME to your own, or {SOCKET_VARIABLE} to a path in a folder of yours",
            )
        try:
            link = _link_to(places, PROBE_PATIENCE)
            said = link.call("ping", timeout=PROBE_PATIENCE)[0]
        except ClocheError as exc:
            unanswered = "the daemon does not answer: " if exc.cause else ""
            return Availability(False, f"{unanswered}{exc.cause or exc.message}", exc.remedy or "")
        layers = tuple(Layer(str(name), True, "of the daemon's wall") for name in said.get("layers") or ())
        isolation = Isolation.__members__.get(str(said.get("isolation")))
        if said.get("stopping"):
            return Availability(False, "the daemon is stopping", "cloche daemon start, when it has ended", isolation)
        if not said.get("room", True):
            return Availability(
                False,
                f"the daemon is full: {said['sessions']} of {said['places']} places are taken",
                "close sessions that are not needed; or more places: "
                f"cloche daemon stop && cloche daemon start --pool-size {2 * said['places']}",
                isolation,
                layers,
            )
        return Availability(
            isolation is not None, str(said.get("trouble", "")), "cloche daemon logs", isolation, layers
        )

    def abilities(self) -> frozenset[str]:
        return super().abilities() if self._here is None else self._here.abilities()

    def expected_isolation(self) -> Isolation:
        return self.probe().isolation or Isolation.SEALED

    def open(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> Channel:
        if self._here is None:
            begun = time.monotonic()
            try:
                return self._open_there(policy, workspace, min(timeout, AUTO_PATIENCE) if self._else_here else timeout)
            except (AdmissionError, BackendUnavailableError, QuotaError) as exc:
                if not self._else_here or not self._go_here(exc):
                    raise
            timeout -= time.monotonic() - begun
        assert self._here is not None
        self._here.context = self.context
        return self._here.open(policy, workspace, max(timeout, 0.1))

    def _go_here(self, why: ClocheError) -> bool:
        """From now on, sessions of this sandbox are this process's own; unless it cannot have any."""
        from cloche.backends.jail.backend import JailBackend

        if not JailBackend.probe(python=self._python).available:
            return False
        self._here = JailBackend(python=self._python)
        self.name = self._here.name  # type: ignore[misc]  # of this one
        self.passed_over = {**self.passed_over, "daemon": why.message + (f": {why.cause}" if why.cause else "")}
        return True

    def _open_there(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> DaemonChannel:
        link = _link_to(self._places, min(timeout, PATIENCE))
        if link is not self._link:
            self._link, self._lease = link, None
        params: dict[str, Any] = {
            "lease": self._lease,
            "policy": plain_policy(policy),
            "python": self._python,
            "workspace": None if workspace.private else str(workspace.root),
            "left": min(max(timeout, 0.1), PATIENCE),
            "ticket": secrets.token_hex(8),
            "wait_ms": 0 if self._else_here else max(0, int(timeout * 1000) - _ANSWER_MS),
        }
        if not workspace.private or any(mount.writable for mount in policy.mounts):
            from cloche.backends.protected_places import ProtectedPlaces

            params["protected"] = ProtectedPlaces().all()
        try:
            said, descriptors, _ = link.call("lend.open", params, timeout=max(timeout, 0.1))
        except BackendUnavailableError:
            link.tell("lend.give_up", {"ticket": params["ticket"]})  # it may come to it later
            raise
        channel = DaemonChannel(link, said, descriptors)
        self._lease = channel.lease
        return channel

    def release(self) -> None:
        if self._here is not None:
            self._here.release()
        lease, self._lease = self._lease, None
        if lease is not None and self._link is not None:
            with suppress(ClocheError):
                _ask(self._link, "lend.release", {"lease": lease})

    @classmethod
    def shut_down(cls) -> None:
        links.close()

    def branch(self, channel: Channel, policy: ExecutionPolicy) -> BranchCopy:
        if self._here is not None:
            return self._here.branch(channel, policy)
        assert isinstance(channel, DaemonChannel)
        return DaemonBranch(channel.link, "lend.branch", {"channel": channel.number})

    def savepoint(self, channel: Channel, policy: ExecutionPolicy, replaced: WaitingCopy | None) -> WaitingCopy:
        if self._here is not None:
            return self._here.savepoint(channel, policy, replaced)
        assert isinstance(channel, DaemonChannel)
        older = replaced.number if isinstance(replaced, DaemonSavepoint) else None
        return DaemonSavepoint(channel.link, "lend.savepoint", {"channel": channel.number, "replaced": older})

    def forget(self) -> None:
        """The session is somebody else's from now on."""
        self._lease = None

    def another(self) -> DaemonBackend:
        return DaemonBackend(python=self._python, else_here=self._else_here)

    def adopt(self, channel: Channel) -> None:
        if isinstance(channel, DaemonChannel):
            self._link, self._lease = channel.link, channel.lease
            return
        from cloche.backends.jail.backend import JailBackend

        self._here = JailBackend(python=self._python)
        self.name = self._here.name  # type: ignore[misc]  # of this one
        self._here.adopt(channel)


_SESSION = {
    "channel": int, "lease": str, "isolation": str, "layers": list, "greeting": dict, "root": str, "uid": int,
    "gid": int, "private": bool, "pid": int | None, "gauges": list, "counting": dict | None,
}  # fmt: skip
"""What a daemon says of a session that it hands over."""


def _is_session(said: Mapping[str, Any]) -> bool:
    whole = all(name in said and isinstance(said[name], kind) for name, kind in _SESSION.items())
    return whole and said["isolation"] in Isolation.__members__ and all(isinstance(it, str) for it in said["gauges"])


def _ask(link: Link, method: str, params: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Have the daemon do something within what is left of the call that is under way. It ends by itself what takes
    longer; to say so it has a little longer."""
    left = time_left(PATIENCE, least=CLEAN_UP)
    said, descriptors, _ = link.call(method, {**params, "left": left}, timeout=left + LAST_WORD)
    return said, descriptors


def _link_to(places: Places, timeout: float) -> Link:
    """The connection, to a daemon of our own version: what it lends may look different in any other."""
    link = links.get(places, timeout)
    version = link.greeting.get("version")
    if version != __version__:
        raise BackendUnavailableError(
            f"the daemon that runs is of version {version}, and this is {__version__}",
            remedy="cloche daemon stop && cloche daemon start",
        )
    return link


@dataclass(frozen=True, slots=True)
class Attached:
    """A session that was taken up."""

    channel: DaemonChannel
    policy: ExecutionPolicy
    note: Mapping[str, Any]
    context: bytes | None


def attach(session: str, key: str) -> Attached:
    """Take up a session that another client has left. Raises `UnknownSessionError` where there is none."""
    link = _link_to(Places.default(), PATIENCE)
    said, descriptors, context = link.call("lend.attach", {"session": session, "key": key}, timeout=PATIENCE)
    return Attached(DaemonChannel(link, said, descriptors), read_policy(said["policy"]), said["note"], context)
