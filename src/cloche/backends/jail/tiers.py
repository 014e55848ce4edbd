"""Which wall the jail can have on this machine: tried, not read off version numbers.

First the one of namespaces. Where those cannot be had, the one that Landlock and seccomp carry alone. Where not even
that, none: the jail is refused, with what to type.
"""

from __future__ import annotations

import errno
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from cloche.backends.jail.programs import MISSING, programs
from cloche.backends.jail.programs import REMEDY as REMEDY_FOR_PROGRAMS
from cloche.errors import BackendUnavailableError
from cloche.guarantees import LAYERS
from cloche.isolation import Isolation, Layer, masked_layers
from cloche_guest.jail import landlock


class Mode(Enum):
    """How a jail is built."""

    SEALED = "sealed"
    CONFINED = "confined"

    def tier(self, *, metered: bool) -> Isolation:
        """What its sessions have. Limits on a session as a whole make a sealed one a metered one."""
        return Isolation.METERED if metered and self is Mode.SEALED else Isolation[self.name]


_MASKED: Final = "masked by CLOCHE_MASK_LAYERS"
_NEEDED = {
    Mode.SEALED: ("namespaces", "network", "view", "seccomp", "capabilities"),
    Mode.CONFINED: ("landlock", "scope", "seccomp", "capabilities"),
}
"""Layers without which a mode is not what it is called."""
_PASSING = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
"""Troubles that may be over in a moment: no reason to be content with a lesser wall."""
_SWITCHES = (
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
)
"""What forbids user namespaces, the value that does, and what to type as root."""


class Failure(NamedTuple):
    """Why a mode cannot be had."""

    why: str
    code: int | None = None

    @property
    def passing(self) -> bool:
        """Whether it may be gone when tried again."""
        return self.code in _PASSING


def forbidden(mode: Mode) -> Failure | None:
    """Whether layers that it needs are switched off, or the programs that build it are not installed."""
    off = [name for name in _NEEDED[mode] if name in masked_layers()]
    if off:
        return Failure(f"{', '.join(off)} {_MASKED}")
    return Failure(MISSING) if mode is Mode.SEALED and programs() is None else None


def remedy_for_namespaces() -> str:
    """What to type to get the sealed tier."""
    failure = forbidden(Mode.SEALED)
    if failure is not None:
        return REMEDY_FOR_PROGRAMS if failure.why == MISSING else "unset CLOCHE_MASK_LAYERS"
    for name, bad, command in _SWITCHES:
        try:
            found = Path("/proc/sys", name).read_text().strip()
        except OSError:
            continue
        if found == bad:
            return f"allow user namespaces: {command} (as root)"
    return (
        "allow user namespaces (in a container: --security-opt seccomp=unconfined, or a profile that permits unshare, "
        "mount and pivot_root)"
    )


def remedy_for_confinement(failure: Failure) -> str:
    """What to type to get the confined tier, which failed for this reason."""
    if failure.code == errno.EACCES:
        return "pass python=/path/to/a/python that every user can read, or run as an ordinary user"
    if failure.code == errno.EPERM:
        return "run as an ordinary user: root without the right to become another cannot start a guest"
    return remedy_for_landlock()


def remedy_for_landlock() -> str:
    """What to type to get Landlock, all of it."""
    if forbidden(Mode.CONFINED) is not None:
        return "unset CLOCHE_MASK_LAYERS"
    return "Linux 6.12 or later with Landlock switched on (lsm=landlock,... on the kernel's command line)"


def refusal(failures: dict[Mode, Failure]) -> BackendUnavailableError:
    """The error that says why there is no jail, and how to get one."""
    reasons = "; ".join(f"{mode.value}: {failure.why}" for mode, failure in failures.items())
    remedies = [remedy_for_namespaces()]
    if Mode.CONFINED in failures:
        remedies.append(remedy_for_confinement(failures[Mode.CONFINED]))
    remedies.append("backend='native', which is no boundary")
    remedy = "; or ".join(dict.fromkeys(remedies))
    return BackendUnavailableError("the jail cannot run here", cause=reasons, remedy=remedy)


def layers_of(mode: Mode) -> tuple[Layer, ...]:
    """The layers of this wall on this machine: there or not, what they do, how to get them."""
    sealed = mode is Mode.SEALED
    version = landlock.version()
    masked = masked_layers()
    namespaces = None if sealed else remedy_for_namespaces()
    says = LAYERS["jail" if sealed else "jail, confined"]
    line = f"{says['landlock']} (version {version})"
    layers = (
        Layer("namespaces", sealed, says["namespaces"], namespaces),
        Layer("network", True, says["network"]),
        Layer("view", sealed, says["view"], namespaces),
        Layer("seccomp", True, says["seccomp"]),
        Layer("landlock", version >= 1, line, remedy_for_landlock()),
        Layer("scope", version >= landlock.SCOPED and "landlock" not in masked, says["scope"], remedy_for_landlock()),
        Layer("capabilities", True, says["capabilities"]),
        Layer("rlimits", True, says["rlimits"]),
        Layer("environment", True, says["environment"]),
        Layer("lifeline", True, says["lifeline"]),
    )
    return tuple(
        Layer(layer.name, False, layer.purpose, "unset CLOCHE_MASK_LAYERS") if layer.name in masked else layer
        for layer in layers
    )
