"""What one sandbox holds in the jail: its seat, which outlives the workers in it, and how it comes to one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from cloche.backends.jail.cgroups import Limits
from cloche.backends.jail.channel import JailChannel
from cloche.backends.jail.grounds import Ground, grounds, running_tasks
from cloche.backends.jail.houses import SCIENTIFIC, houses
from cloche.backends.jail.launch import ZYGOTE_ENVIRONMENT, trees_of
from cloche.backends.jail.mounts import check_mounts
from cloche.backends.jail.outside_users import outside_users
from cloche.backends.jail.seat import Seat
from cloche.backends.jail.tiers import Mode, layers_of, refusal, remedy_for_namespaces
from cloche.backends.jail.upkeep import LAYER, upkeep
from cloche.backends.jail.walls import walls
from cloche.errors import IsolationError, StartError, UnsupportedError
from cloche.isolation import Isolation
from cloche.session.descriptors import none_left
from cloche_guest.jail.places import WORKSPACE

if TYPE_CHECKING:
    from cloche.backends.interpreter import Interpreter
    from cloche.backends.jail.branching import JailBranch, JailSavepoint
    from cloche.backends.jail.broker import Broker
    from cloche.policy import ExecutionPolicy
    from cloche.session.channel import Channel
    from cloche.session.copying import WaitingCopy
    from cloche.session.workspace import Workspace

WORKSPACE_FILES = 16_384
CONFINED_SESSIONS = 16
"""So many can have all of their processes beside each other, where the system counts them together."""
SIGNALS = 256
"""Queued signals and timers of a session."""
BRANCH_ROOM = 8192
"""Processes of branches, two for each, which the system counts for the session that they come from too: beside those of
the session itself, which its group counts."""
NEEDS_NAMESPACES = ("fork", "savepoint", "protect_state", "mounts")
"""A copy of a session needs namespaces of its own, and without a view there is nowhere to mount."""


class Tenancy:
    """The seat of a sandbox and, where it has no view, the ground that it stands on."""

    def __init__(self) -> None:
        self._seat: Seat | None = None
        self._ground: Ground | None = None
        self._context: Any = None

    def release(self) -> None:
        """Give it up."""
        self._leave_seat()
        ground, self._ground = self._ground, None
        if ground is not None:
            ground.remove()

    def _leave_seat(self) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.close()

    def _take_channel(
        self, interpreter: Interpreter, policy: ExecutionPolicy, mode: Mode, options: dict[str, Any], *, private: bool
    ) -> tuple[Broker, JailChannel]:
        """Another worker in our seat, a spare, or a session made for us; and who was asked for it."""
        if self._seat is not None and self._seat.usable:
            options = {**options, **self._origin(self._seat.broker)[0]}
            return self._seat.broker, JailChannel.start(self._seat, options)
        self._leave_seat()
        limits = Limits.of(policy)
        with houses.lease(interpreter, modules_of(policy), mode) as broker:
            origin, ready = self._origin(broker)
            options = {**options, **origin}
            spare = None
            if broker.stock is not None and ready and "workspace" not in options and not policy.mounts:
                spare = broker.stock.claim(options, limits)
            if spare is not None:
                self._seat, channel = spare
                return broker, channel
            self._seat = Seat(broker, options.get("workspace"), limits, private=private)
            return broker, JailChannel.start(self._seat, options, policy.mounts)

    def _origin(self, broker: Broker) -> tuple[dict[str, Any], bool]:
        """(from what a session with our context is forked, is it there). Mostly from the zygote, and it is."""
        template = None if broker.templates is None else broker.templates.holding(self._context)
        return ({}, True) if template is None else ({"template": template.number}, template.ready)

    def branch(self, channel: Channel, policy: ExecutionPolicy) -> JailBranch:
        """A copy of this session that is to be one of its own."""
        from cloche.backends.jail.branching import JailBranch

        assert isinstance(channel, JailChannel)
        return JailBranch(channel, {**_quota(policy), "under_tmp": channel.seat.broker.trees_under_tmp})

    def savepoint(self, channel: Channel, policy: ExecutionPolicy, replaced: WaitingCopy | None) -> JailSavepoint:
        """A copy of this session to which it may return."""
        from cloche.backends.jail.branching import JailSavepoint

        assert isinstance(channel, JailChannel)
        quota = {"bytes": 2 * policy.workspace_bytes, "files": 2 * WORKSPACE_FILES}
        older = replaced if isinstance(replaced, JailSavepoint) else None
        return JailSavepoint(channel, quota, older)

    def adopt(self, channel: Channel) -> None:
        """Be where this worker is."""
        assert isinstance(channel, JailChannel)
        self._seat = channel.seat

    def claim(self, interpreter: Interpreter, policy: ExecutionPolicy) -> JailChannel | None:
        """A worker that was made ahead, where one is at hand. Asks nobody, and never waits."""
        mode = next(walls.candidates(interpreter), None)
        if self._seat is not None or mode is not Mode.SEALED or policy.mounts:
            return None
        _refuse_weaker(interpreter, mode, policy)
        layers = _active_layers(mode)
        with houses.lease(interpreter, modules_of(policy), mode) as broker:
            if broker.stock is None or not broker.standing:
                return None
            found = broker.stock.claim(_options(mode, layers, policy, None), Limits.of(policy), at_once=True)
        if found is None:
            return None
        self._seat, channel = found
        return _describe(channel, layers, policy, None)

    def open(
        self, interpreter: Interpreter, policy: ExecutionPolicy, workspace: Workspace, context: Any
    ) -> JailChannel:
        """A worker in the best wall that can be had, with its context, where that is kept there."""
        self._context = context
        if policy.mounts:
            check_mounts(policy.mounts, trees_of(interpreter))
        for mode in walls.candidates(interpreter):
            _refuse_weaker(interpreter, mode, policy)
            layers = _active_layers(mode)
            options = _options(mode, layers, policy, None if workspace.private else str(workspace.root))
            options |= _covers(mode, interpreter, policy, workspace)
            if mode is Mode.CONFINED:
                if self._ground is None:
                    self._ground = grounds.make(workspace, outside_users.jail)
                options |= {"workspace": self._ground.folders[0], "folders": self._ground.folders}
            try:
                broker, channel = self._take_channel(interpreter, policy, mode, options, private=workspace.private)
            except (OSError, StartError) as exc:
                self._leave_seat()
                raise none_left(exc) or exc from None
            # what was asked for is on its way already: a wall that is still going up costs no time here
            if walls.stands(broker):
                return _describe(channel, layers, policy, self._ground)
            channel.close()
            self.release()
        raise refusal(walls.failures(interpreter))


def _active_layers(mode: Mode) -> tuple[str, ...]:
    return tuple(layer.name for layer in layers_of(mode) if layer.active)


def _describe(
    channel: JailChannel, layers: tuple[str, ...], policy: ExecutionPolicy, ground: Ground | None
) -> JailChannel:
    """With what is told of it: to its user, and to the worker itself."""
    channel.layers = layers if channel.seat.group is None else (*layers, LAYER)
    meter = channel.seat.broker.meter
    counted = channel.seat.group is not None and meter is not None and "pids" in meter.controllers
    channel.greeting = _greeting(policy, ground, limited="rlimits" in layers, counted=counted)
    return channel


def _refuse_weaker(interpreter: Interpreter, mode: Mode, policy: ExecutionPolicy) -> None:
    """Before anything is started: can this wall be what the policy demands?"""
    if policy.cpus is not None and "cpus" in lacking(mode):
        raise UnsupportedError(
            "the CPU of a session cannot be bounded here", capability="cpus", cause=upkeep.layer().purpose,
            remedy="drop policy.cpus; cloche doctor says what is missing",
        )  # fmt: skip
    if policy.mounts and "mounts" in lacking(mode):
        raise UnsupportedError(
            "folders of the host cannot be mounted here", capability="mounts", cause="this wall has no view of its own",
            remedy=remedy_for_namespaces(),
        )  # fmt: skip
    demanded = policy.minimum_isolation
    if mode is Mode.SEALED or demanded is None or demanded <= Isolation.CONFINED:
        return
    missing = walls.failures(interpreter).get(Mode.SEALED)
    raise IsolationError(
        f"jail gives {mode.name} here; the policy demands {demanded.name}",
        cause=missing.why if missing is not None else None,
        remedy=remedy_for_namespaces(),
    )


def _options(mode: Mode, layers: tuple[str, ...], policy: ExecutionPolicy, workspace: str | None) -> dict[str, Any]:
    """What a seat is made from. Equal options make equal seats: nothing in here is of one session alone but a folder
    of the host."""
    # A core of one byte: nothing is written, and no program of the host is started to take it. Whether CPU time is
    # bounded is a matter of how a seat is made, how much of it there is can be set later.
    # Queued signals and timers are counted over all processes of a user, in every namespace around it: what the guest
    # takes is not there for others.
    options: dict[str, Any] = {"limit_core": 1, "limit_sigpending": SIGNALS, "cpu_bounded": policy.cpus is not None}
    if "rlimits" in layers:
        options |= {"limit_memlock": 0, "limit_msgqueue": 0}
    if mode is Mode.CONFINED:
        return {**options, "processes": policy.processes}
    if workspace is not None:
        options["workspace"] = workspace
    return options | {
        **_quota(policy),
        "landlock": "landlock" in layers,
    }


def _covers(
    mode: Mode, interpreter: Interpreter, policy: ExecutionPolicy, workspace: Workspace
) -> dict[str, list[str]]:
    """Parts of what the guest may write that stay as they are: the host runs code from there, or obeys it."""
    given = [(mount.source, mount.target) for mount in policy.mounts if mount.writable]
    if not workspace.private:
        given.insert(0, (str(workspace.root), WORKSPACE))
    if not given:
        return {}
    from cloche.backends.protected_places import ProtectedPlaces

    places = ProtectedPlaces(interpreter, workspace.protected)
    found: dict[str, list[str]] = {"pins": [], "covers": []}
    for source, target in given:
        if mode is Mode.CONFINED:
            places.refuse(source)
            continue
        cover = places.within(source)
        root = os.path.realpath(source)
        found["pins"] += [_part(root, target, path) for path in cover.pinned]
        found["covers"] += [_part(root, target, path) for path in cover.covered]
    return {name: parts for name, parts in found.items() if parts}


def _part(root: str, target: str, path: str) -> str:
    """As the jail wants it: what it is, and where it lies in the view."""
    try:
        status = os.lstat(f"{root}/{path}")
    except OSError as exc:
        raise StartError(f"{root}/{path} cannot be kept from the guest", cause=exc.strerror) from None
    return f"{status.st_dev}:{status.st_ino}:{target}/{path}"


def modules_of(policy: ExecutionPolicy) -> tuple[str, ...]:
    """What its sessions find imported."""
    return SCIENTIFIC if policy.preload is None else policy.preload


def _quota(policy: ExecutionPolicy) -> dict[str, Any]:
    return {"workspace_bytes": policy.workspace_bytes, "workspace_files": WORKSPACE_FILES}


def lacking(mode: Mode) -> tuple[str, ...]:
    """What this wall could honour elsewhere, but not here."""
    meter = upkeep.meter()
    cpus = () if meter is not None and "cpu" in meter.controllers else ("cpus",)
    return cpus if mode is Mode.SEALED else (*cpus, *NEEDS_NAMESPACES)


def _greeting(policy: ExecutionPolicy, ground: Ground | None, *, limited: bool, counted: bool) -> dict[str, Any]:
    """What is told to a worker at its start: all that may differ between sessions of one zygote, and nothing else.

    `counted`: its group bounds its processes.
    """
    own = {"environment": {**ZYGOTE_ENVIRONMENT, **policy.environment}} if policy.environment else {}
    place, processes = "/app", policy.processes + (BRANCH_ROOM if counted else 0)
    if ground is not None:
        places = ground.workspace.places()
        # its keeper counts what is its own; here all of the user's count, with those of sessions that are still to come
        place, processes = places["PWD"], CONFINED_SESSIONS * processes + running_tasks(outside_users.jail[0])
        variables = {**ZYGOTE_ENVIRONMENT, **places, "MPLCONFIGDIR": places["HOME"], **policy.environment}
        own = {"environment": variables}
    limits = {
        "data": policy.memory_bytes,
        "fsize": policy.workspace_bytes,
        "nofile": policy.open_files,
        "nproc": processes,
    }
    return {"workspace": place, **own, "limits": limits if limited else {}}
