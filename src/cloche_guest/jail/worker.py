"""A worker: forked from the zygote into a seat, stripped of everything, and then the guest's kernel."""

from __future__ import annotations

import posix as os  # a part of it: `os` would cost the start of a zygote a millisecond
import resource

from cloche_guest.jail import counted_memory, shared_user, syscalls
from cloche_guest.jail import filter as call_filter
from cloche_guest.jail.branches import reseed_numpy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple

    Filters = Tuple[bytes, bytes]
    from cloche_guest.jail.prepared import PreparedSession

_NAMESPACES = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWNET
WIRE, OUT, ERR, LINE, INNER = 3, 4, 5, 6, 7


def join(groups: list[int]) -> None:
    """Move into the session's cgroup. A process with one thread that moves itself need not wait for all others of
    the machine to take notice, as anybody who moves it would: microseconds, where that takes milliseconds."""
    for descriptor in groups:
        os.write(descriptor, b"0")


def enter(options: dict[str, Any], lines: list[int], seat: int, filters: Filters) -> None:
    """Go into the seat and give up everything that is not needed there."""
    below = bool(options.get("below"))  # a branch's seat, which can be branched again
    landlock = bool(options["landlock"])
    syscalls.enter(seat, _NAMESPACES, lines, below, landlock, options["user"], _limits(options), *filters)


def arrange_descriptors(lines: list[int]) -> None:
    """Put `lines` at their numbers and close everything else; output goes where it should."""
    import fcntl

    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 100) for descriptor in lines]
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    for target, source in zip((WIRE, OUT, ERR, LINE, INNER), high):
        os.dup2(source, target)
    os.dup2(OUT, 1)
    os.dup2(ERR, 2)
    syscalls.close_from(INNER + 1)


def limit(options: dict[str, Any]) -> None:
    """Limits that hold for every session."""
    for which, amount in _limits(options):
        soft, hard = resource.getrlimit(which)
        top = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        keeps = which == resource.RLIMIT_STACK and 0 <= soft <= top  # a stack is as large as it may grow
        resource.setrlimit(which, (soft if keeps else top, top))


def _limits(options: dict[str, Any]) -> list[tuple[int, int]]:
    """(which, amount): ``limit_core`` is RLIMIT_CORE."""
    return [
        (getattr(resource, "R" + name.upper()), amount) for name, amount in options.items() if name.startswith("limit_")
    ]


def run(
    session: PreparedSession, options: dict[str, Any], lines: list[int], seat: int, filters: Filters, groups: list[int]
) -> None:
    """Never returns."""

    def go_in() -> None:
        join(groups)
        # from then on this group is the top of all that is seen: where it lies tells much about the host
        syscalls.unshare(syscalls.CLONE_NEWCGROUP)
        enter(options, lines, seat, filters)
        adapt_modules(memfd=bool(options.get("memfd")), shared=bool(options.get("shared_user")))

    serve_behind(go_in, session, options)


def serve_behind(go_in: Callable[[], None], session: PreparedSession, options: dict[str, Any]) -> None:
    """Go behind the wall, then be the guest's kernel. Never returns."""
    try:
        go_in()
        reseed_numpy()
        session.begin(WIRE, OUT, ERR, LINE, ahead=bool(options.get("ahead")))
    except BaseException as exc:
        try:
            os.write(2, ("jail: %s: %s\n" % (type(exc).__name__, exc)).encode())
        finally:
            os._exit(1)


def make_filters(*, memfd: bool, shared: bool) -> Filters:
    """The seccomp programs, built once in the zygote. `shared`: the guest's user is not its own."""
    machine = syscalls.machine()
    if not shared:
        return call_filter.build_filter(machine, memfd=memfd), b""
    first = shared_user.one_more_filter()
    return call_filter.build_filter(machine, memfd=memfd, first=first), shared_user.build_shared_user_filter(machine)


def adapt_modules(*, memfd: bool, shared: bool) -> None:
    """Have Python's own modules do without what the filters refuse."""
    if shared:
        shared_user.adapt_modules()
    if not memfd:
        counted_memory.adapt_modules()


def exit_code(status: int) -> int:
    """The status of an exit, or the negative number of a signal."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
