"""A session as the host knows it: its wall, its guest of the moment, its context, and what became of it.

Everything here is common to both drivers and never waits. A driver opens a guest through `guest_for`, drives it
until the machine has finished, and hands what came out to `requests`.
"""

from __future__ import annotations

import itertools
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from cloche.errors import (
    BranchError,
    IsolationError,
    PolicyError,
    SessionClosedError,
    SessionLostError,
    StartError,
    UnsupportedError,
    WorkspaceFileError,
)
from cloche.host.guest_paths import path_text
from cloche.policy import MOST
from cloche.session.budget import GivenUpCalls
from cloche.session.callbacks import Callbacks
from cloche.session.channel import lacking
from cloche.session.descriptors import none_left
from cloche.session.folder import SessionFolder
from cloche.session.guest import Guest
from cloche.session.machine import Call, Machine
from cloche.session.operations import context_call
from cloche.session.pump import PollWatch, Pump, Watch
from cloche.session.requests import Requests
from cloche.session.returns import Returns
from cloche.session.workspace import file_content
from cloche_guest.codes import PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloche.isolation import Isolation
    from cloche.logger import SandboxLogger
    from cloche.policy import ExecutionPolicy
    from cloche.session.actions import CallBridge
    from cloche.session.channel import Backend, Channel
    from cloche.session.copying import BranchCopy
    from cloche.session.register import RegisteredSession
    from cloche.session.witness import Witness
    from cloche.session.workspace import FileInfo, Workspace

_numbers = itertools.count(1)


class LiveSession:
    """One session. Its guest may die and be replaced; the session says so each time."""

    def __init__(
        self,
        backend: Backend,
        policy: ExecutionPolicy,
        workspace: str | os.PathLike[str] | None,
        logger: SandboxLogger,
        *,
        on_llm_query: Callable[..., Any] | None = None,
        on_rlm_query: Callable[..., Any] | None = None,
        tools: Mapping[str, Any] | None = None,
    ) -> None:
        self.number = next(_numbers)
        self.backend = backend
        self.policy = policy
        self.logger = logger
        self.callbacks = Callbacks(self.number, on_llm_query, on_rlm_query, tools)
        self.witness: Witness | None = None
        """Who keeps a record of what happens here."""
        self.guest: Guest | None = None
        self.closed = False
        # Now: it is first used later, and the working directory may have changed by then.
        self.given_workspace = None if workspace is None else os.path.abspath(workspace)
        self._folder: SessionFolder | RegisteredSession | None = None
        self.context: Any = None
        self.requests = Requests(self)
        self.returns = Returns(self)
        self._given_up = GivenUpCalls()
        self._owner = os.getpid()
        self.make_watch: Callable[[], Watch] = PollWatch
        """How the driver waits; set by it."""
        self._refuse_demands()

    def _refuse_demands(self) -> None:
        for demand in self.policy.demands():
            if demand not in self.backend.abilities():
                raise UnsupportedError(
                    f"the {self.backend.name} backend cannot honour policy.{demand.removesuffix('_access')}",
                    capability=demand,
                    remedy="choose another backend (cloche doctor lists them), or drop the demand",
                )

    # -- life ----------------------------------------------------------------------------------

    @property
    def folder(self) -> SessionFolder | RegisteredSession:
        """The session's place on disk, made at first use; where its files live with the guest, a line in a register."""
        if self._folder is None:
            if self.backend.workspace_inside:
                from cloche.session.register import RegisteredSession

                self._folder = RegisteredSession(self.backend.name, self.given_workspace)
            else:
                self._folder = SessionFolder(self.backend.name, self.given_workspace)
        return self._folder

    @property
    def is_prepared(self) -> bool:
        """Whether nothing is left to be done before a session can be opened, and its deadline counts."""
        return self.closed or self.backend.prepared

    def prepare(self) -> None:
        """Do what is left."""
        if not self.is_prepared:
            self.backend.prepare()

    def limit_ms(self, timeout_ms: int | None) -> int:
        """The deadline of one call."""
        if timeout_ms is None:
            return self.policy.timeout_ms
        if type(timeout_ms) is not int or not 1 <= timeout_ms <= MOST:
            raise PolicyError(
                f"timeout_ms must be a whole number from 1 to {MOST}, not {timeout_ms!r:.40}", field="timeout_ms"
            )
        return timeout_ms

    def put_file(self, path: str | os.PathLike[str], data: bytes | str) -> None:
        """Write a file into the workspace, within its quota."""
        path = path_text(path)
        content = file_content(path, data)
        limit = self.policy.workspace_bytes
        if len(content) > limit:
            raise WorkspaceFileError(
                f"{path} has {len(content)} bytes; the workspace may hold {limit}",
                remedy="raise policy.workspace_bytes",
            )
        self._workspace().write(path, content)
        self.returns.files_changed()
        if self.witness is not None:
            self.witness.file_put(path, content)
        self.logger.log_file_event("put", path=path, size=len(content))

    def get_file(self, path: str | os.PathLike[str]) -> bytes:
        """Read a file of the workspace."""
        path = path_text(path)
        content = self._workspace().read(path, self.policy.workspace_bytes)
        self.logger.log_file_event("get", path=path, size=len(content))
        return content

    def list_files(self) -> list[FileInfo]:
        """Plain files of the workspace."""
        return self._workspace().list()

    def _workspace(self) -> Workspace:
        """The session's files. Where they live with the guest, it is started for them."""
        if not self.backend.workspace_inside:
            return self.folder.workspace
        return self.guest_for(self.policy.timeout_ms / 1000).channel.workspace

    def check_open(self) -> None:
        """Refuse after `close`."""
        if self.closed:
            raise SessionClosedError("this sandbox was destroyed", remedy="create another one with create_sandbox()")

    def set_context(self, context: Any) -> None:
        """Remember the context for this guest and every later one."""
        self.context = context
        self.callbacks.context = context
        if self.witness is not None:
            self.witness.context_set(context)

    def guest_for(self, timeout: float) -> Guest:
        """The live guest, or a fresh one that is still to be greeted."""
        self.leave_parent()
        if self.guest is not None:
            return self.guest
        return self._open_guest(timeout)

    def leave_parent(self) -> None:
        """In a forked child: let go of what belongs to the parent, its files too, and say so when it was a session."""
        if self._owner == os.getpid():
            return
        self._owner = os.getpid()
        had_guest = self.guest is not None
        self.returns.leave()
        self.forget_guest()
        self._folder = None
        if had_guest:
            raise SessionLostError("this sandbox was made before a fork; its guest belongs to the parent process")

    def _open_guest(self, timeout: float) -> Guest:
        policy = self.policy
        # A text always crosses the wall; of anything else it is known before a guest is opened for it.
        greeting = None if type(self.context) is str else context_call(self.context, policy.value_max_bytes)
        self.folder.workspace.ensure()
        self.backend.context = self.context
        channel = self.backend.open(policy, self.folder.workspace, timeout)
        type(self.backend).has_opened = True
        try:
            self.refuse_weaker(channel.isolation)
        except IsolationError:
            channel.close()
            raise
        guest = self.attend(channel)
        if channel.holds_context:
            greeting = Call("context", {"held": True})
        elif greeting is None:
            greeting = context_call(self.context, policy.value_max_bytes)
        told = {"passed_over": dict(self.backend.passed_over)} if self.backend.passed_over else {}
        self.logger.log_session_event("start", session=self.folder.id, backend=self.backend.name, **told)
        params = {
            "protocol": PROTOCOL,
            "tools": self.callbacks.descriptions,
            "workspace": str(self.folder.workspace.root),
            **channel.greeting,
            "context": greeting.params,
        }
        params["limits"] = {
            "value_bytes": policy.value_max_bytes,
            "display_bytes": policy.display_max_bytes,
            **channel.greeting.get("limits", {}),
        }
        guest.pending.append(Call("initialize", params, greeting.body_size, greeting.body))
        guest.pump.meanwhile = partial(self._list, guest)
        self.returns.guard_next(guest)
        return guest

    def refuse_weaker(self, found: Isolation) -> None:
        """Refuse a wall that is less than what the policy demands."""
        demanded = self.policy.minimum_isolation
        if demanded is not None and found < demanded:
            raise IsolationError(
                f"{self.backend.name} gives {found.name}; the policy demands {demanded.name}",
                remedy="choose another backend, or lower policy.minimum_isolation; cloche doctor shows what is here",
            )

    def attend(self, channel: Channel, *, greeted: bool = False) -> Guest:
        """Drive the guest behind this channel from now on. `greeted`: it knows all that it should."""
        known, ending = self.callbacks.names, self.callbacks.ending
        machine = Machine(self.policy, known, channel.cpu_seconds, self.bridge_answered, ending, self._given_up)
        try:
            self.guest = guest = Guest(channel, machine, Pump(channel, machine, self.make_watch()))
        except OSError as exc:
            channel.close()
            raise none_left(exc) or StartError("the guest cannot be watched", cause=str(exc)) from None
        guest.greeted = greeted
        return guest

    def bridge_answered(self, call: CallBridge, value: Any, error: BaseException | None) -> None:
        """A host function was called for the guest; this is what came of it."""
        if self.witness is not None:
            self.witness.bridge_answered(call.name, call.args, call.kwargs, value, error)

    def _list(self, guest: Guest) -> None:
        """Write down that there is a session, and which process it is where that is known."""
        known = guest.channel.pid_now
        guest.listed = known is not None
        self.folder.record(known)

    def forget_guest(self) -> None:
        """Let go of the guest without a word to the log; behind most walls it ends with that."""
        guest, self.guest = self.guest, None
        if guest is not None:
            guest.pump.close()
            guest.channel.close()

    def drop_guest(self, event: str) -> None:
        """End the guest; the session starts a fresh one when it is next used."""
        if self.guest is not None:
            self.forget_guest()
            self.logger.log_session_event(event, session=self.folder.id, backend=self.backend.name)

    def reset(self) -> None:
        """Empty namespace and workspace; same context, same bridges."""
        self.returns.forget()
        self.drop_guest("reset")
        self.backend.release()
        if self._folder is not None:
            self._folder.workspace.empty()
        if self.witness is not None:
            self.witness.was_reset()

    def close(self) -> None:
        """End everything. Idempotent."""
        self.closed = True
        self.returns.forget()
        self.drop_guest("destroy")
        self.backend.release()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()

    # -- copies --------------------------------------------------------------------------------

    def require(self, capability: str) -> None:
        """Refuse what the backend cannot do, before anything is started for it."""
        if capability not in self.backend.abilities():
            raise lacking(self.backend.name, capability)

    @property
    def has_answered(self) -> bool:
        """Whether there is a guest that is up and waits for nothing."""
        return self.guest is not None and self.guest.greeted and not self.guest.pending

    def live_guest(self) -> Guest:
        """The guest that a copy is to be made of."""
        if self.guest is None:
            raise BranchError("the session has ended")
        return self.guest

    def begin_branch(self) -> BranchCopy:
        """What goes before the request for a branch."""
        return self.backend.branch(self.live_guest().channel, self.policy)

    def part(self) -> None:
        """The guest is somebody else's from now on, and this session is over."""
        guest, self.guest = self.live_guest(), None
        self.closed = True
        self.returns.leave()
        guest.pump.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.remove()

    def adopt(self, channel: Channel) -> None:
        """Be the session of a guest that is a copy of another's."""
        self.backend.adopt(channel)
        self.returns.guard_next(self.attend(channel, greeted=True))
