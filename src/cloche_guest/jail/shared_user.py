"""What a guest goes without that shares its user with the host or with other guests.

The kernel counts these by user, whatever process or namespace has them, and a guest that takes all leaves none to the
user's own programs: descriptors on their way through sockets, watches of epoll, pages of pipes. Their number cannot be
bounded for one guest, so such a guest cannot pass descriptors, has `poll` in place of epoll, and no pipe larger than
usual. Where each session has a user of its own (see `cloche.backends.jail.outside_users`) nothing of this applies.
"""

from __future__ import annotations

from cloche_guest.jail.filter import ENOSYS, EPERM, assemble, permission, refusal, when, when_above
from cloche_guest.jail.replaced_modules import replace_when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche_guest.jail.filter import Instruction

_SENDMSG, _SENDMMSG, _FCNTL, _EPOLL_CREATE, _EPOLL_CREATE1, _SECCOMP = 46, 307, 72, 213, 291, 317
_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 65_536
"""The usual size."""


def one_more_filter() -> dict[int, list[Instruction]]:
    """A rule for the first filter: that the second can be loaded, once the first one's listener was passed on."""
    return {_SECCOMP: when(1, 0, permission(), refusal(EPERM))}


def build_shared_user_filter(machine: str) -> bytes:
    """The second filter, which is loaded after the last descriptor that a worker passes."""
    rules = {
        # what a message carries lies in memory, where no filter can look
        _SENDMSG: refusal(EPERM),
        _SENDMMSG: refusal(EPERM),
        _EPOLL_CREATE: refusal(ENOSYS),
        _EPOLL_CREATE1: refusal(ENOSYS),
        _FCNTL: when(1, _F_SETPIPE_SZ, when_above(2, _PIPE_BYTES, refusal(EPERM), permission()), permission()),
        _SECCOMP: refusal(EPERM),
    }
    return assemble(machine, rules, [permission()[0]])


def adapt_modules() -> None:
    """Python's own modules do without, once they know: so event loops, pools and servers go on working."""
    replace_when_imported("select", _without_epoll)
    replace_when_imported("selectors", _poll_by_default)
    replace_when_imported("socket", _without_sendmsg)
    replace_when_imported("asyncio.selector_events", _send_plainly)
    replace_when_imported("multiprocessing.reduction", _pass_no_handles)
    replace_when_imported("multiprocessing.context", _spawn_by_default)


def _without_epoll(module: Any) -> None:
    if hasattr(module, "epoll"):
        del module.epoll


def _poll_by_default(module: Any) -> None:
    module.DefaultSelector = module.PollSelector


class _Absent:
    """In the place of an attribute: there is none."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        raise AttributeError("sendmsg: descriptors cannot be passed in this sandbox, so there is only send")


def _without_sendmsg(module: Any) -> None:
    module.socket.sendmsg = _Absent()


def _send_plainly(module: Any) -> None:
    if hasattr(module, "_HAS_SENDMSG"):
        module._HAS_SENDMSG = False


def _pass_no_handles(module: Any) -> None:
    module.HAVE_SEND_HANDLE = False


def _spawn_by_default(module: Any) -> None:
    """A server that forks others is sent their descriptors."""
    default = module._default_context
    if getattr(default._default_context, "_name", "") == "forkserver":
        default._default_context = module._concrete_contexts["spawn"]
