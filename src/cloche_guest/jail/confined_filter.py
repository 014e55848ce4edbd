"""What the seccomp program says in addition where there are no namespaces.

The guest is then a process among those of its user. Landlock keeps it from their files, memory and signals; what
Landlock does not look at is refused here: sockets in the file system and changes to files by name. And no process can
leave the group of its worker, so that one signal reaches all that it started. Processes, queued signals and timers are
counted over all of the user's: the keeper counts the first for each session, the others cannot be had.
"""

from __future__ import annotations

from cloche_guest.jail.filter import (
    CLONE_NAMESPACES,
    EAFNOSUPPORT,
    EPERM,
    asking,
    build_filter,
    permission,
    refusal,
    when,
    when_above,
    when_any,
)
from cloche_guest.jail.shared_user import one_more_filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche_guest.jail.filter import Instruction

ENOTSUP = 95
_AF_UNIX = 1
_STREAM, _PACKETS = 1, 5
_TYPE_FLAGS = (0, 0o4000, 0o2000000, 0o2004000)  # SOCK_NONBLOCK, SOCK_CLOEXEC

FCHMOD, CHMOD, FCHMODAT, FCHMODAT2, UTIMENSAT = 91, 90, 268, 452, 280
ASKED = (FCHMOD, CHMOD, FCHMODAT, FCHMODAT2, UTIMENSAT)
"""Changes to a file that Landlock does not see: made by the keeper, in the session's own folders only."""
CLONE, FORK, VFORK = 56, 57, 58
STARTING = (CLONE, FORK, VFORK)
"""Processes and threads: the keeper allows as many as the session may have."""
EAGAIN = 11
_LAST_SIGNAL = 33
"""Those up to 31 wait once each, whatever the limit; two more are the C library's own."""


def build_confined_filter(machine: str, *, listener: bool, memfd: bool) -> bytes:
    """The program. `listener`: somebody answers for `ASKED`; otherwise they are refused. `memfd`: as elsewhere."""
    rules: dict[int, list[Instruction]] = {
        # a name in the file system or an abstract one leads to services of the host
        41: when(0, _AF_UNIX, refusal(EPERM), refusal(EAFNOSUPPORT)),
        42: refusal(EPERM),  # connect
        49: refusal(EPERM),  # bind
        50: refusal(EPERM),  # listen
        53: when(0, _AF_UNIX, connected_pairs(), refusal(EAFNOSUPPORT)),
        308: refusal(EPERM),  # setns: there is nothing to enter
        272: refusal(EPERM),  # unshare
        161: refusal(EPERM),  # chroot
        # setpgid, setsid: programs that start others as groups of their own must go on working
        109: refusal(0),
        112: refusal(0),
    }
    rules.update(one_more_filter())
    for number, argument in ((62, 1), (200, 1), (234, 2), (424, 1)):  # kill, tkill, tgkill, pidfd_send_signal
        rules[number] = when_above(argument, _LAST_SIGNAL, refusal(EPERM), permission())
    rules.update({129: refusal(EPERM), 297: refusal(EPERM), 222: refusal(EAGAIN)})  # rt_(tg)sigqueueinfo, timer_create
    if listener:
        rules[CLONE] = when_any(0, CLONE_NAMESPACES, refusal(EPERM), asking())
        rules[FORK] = rules[VFORK] = asking()
    for number in (92, 93, 94, 260, 132, 235, 261):  # chown and its kin, and the older ways to set times
        rules[number] = refusal(EPERM)
    for number in range(191, 197):  # extended attributes are read by name, past Landlock
        rules[number] = refusal(ENOTSUP)
    for number in ASKED:
        rules[number] = asking() if listener else refusal(EPERM)
    return build_filter(machine, memfd=memfd, first=rules)


def connected_pairs() -> list[Instruction]:
    """Pairs of streams or of packet lines. A pair of datagram sockets could still send to anybody by name."""
    rule = refusal(EPERM)
    for kind in (_STREAM, _PACKETS):
        for flags in _TYPE_FLAGS:
            rule = when(1, kind | flags, permission(), rule)
    return rule
