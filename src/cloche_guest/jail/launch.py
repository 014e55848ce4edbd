"""A program behind Landlock and seccomp: ``python -I -S launch.py [--read PATH]... -- PROGRAM [ARGUMENT]...``.

For a program that has walls of its own, as a second one. It may read itself, the system's libraries and the given
paths; it can write nothing, open no socket, start no process, signal nobody. Gives up with an error where this kernel
cannot hold it to that. Without a program it only tries.
"""

from __future__ import annotations

import posix as os
import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/cloche_guest/")[0])

from cloche_guest.jail import landlock, syscalls
from cloche_guest.jail.confined_filter import connected_pairs
from cloche_guest.jail.filter import EAFNOSUPPORT, EPERM, build_filter, permission, refusal, when, when_any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib")
FILES = {
    "/etc/ld.so.cache": landlock.READ_FILE,
    "/dev/null": landlock.READ_FILE | landlock.WRITE_FILE,
    "/dev/urandom": landlock.READ_FILE,
}
_THREAD = 0x00010000
_AF_UNIX = 1
_REFUSED = (
    42, 49, 50,  # connect, bind, listen
    57, 58,  # fork, vfork
    82, 83, 84, 85, 86, 87, 88, 90, 91, 92, 93, 94, 132, 133, 235, 258, 259, 260, 261, 263, 264, 265, 266, 268, 280,
    316, 452,  # everything that changes files by name, or their rights and times
    200, 129, 297, 424,  # tkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal
    308, 272, 161, 126,  # setns, unshare, chroot, capset: nobody is there to be asked
)  # fmt: skip


def main(argv: list[str]) -> None:
    """See the module's text."""
    place = argv.index("--")
    read = [path for option, path in zip(argv[1:place:2], argv[2:place:2]) if option == "--read"]
    command = argv[place + 1 :]
    try:
        confine(command[:1] + read)
    except OSError as exc:
        _give_up("this kernel does not confine it: %s" % exc)
    if command:
        # what Python itself has put into the environment is not meant for others
        os.execve(command[0], command, {name: value for name, value in os.environ.items() if name != b"LC_CTYPE"})


def confine(readable: list[str]) -> None:
    """Give up everything else, for this process and what it becomes."""
    rules = [(path, landlock.READ) for path in LIBRARIES if _is_there(path)]
    rules += [(path, rights) for path, rights in FILES.items() if _is_there(path)]
    rules += [(path, landlock.rights_on(path, landlock.READ)) for path in readable]
    syscalls.no_new_privileges()
    landlock.restrict(rules)
    syscalls.drop_capabilities()
    syscalls.install_filter(build_launch_filter(syscalls.machine()), listener=False)


def build_launch_filter(machine: str) -> bytes:
    """As in the jail, but without processes, sockets and changes to files."""
    own = os.getpid()
    rules = {number: refusal(EPERM) for number in _REFUSED}
    rules[41] = refusal(EAFNOSUPPORT)  # socket
    rules[53] = when(0, _AF_UNIX, connected_pairs(), refusal(EAFNOSUPPORT))  # socketpair
    rules[56] = when_any(0, _THREAD, permission(), refusal(EPERM))  # clone: threads only
    rules[62] = when(0, own, permission(), refusal(EPERM))  # kill
    rules[234] = when(0, own, permission(), refusal(EPERM))  # tgkill
    return build_filter(machine, memfd=True, first=rules)


def _is_there(path: str) -> bool:
    try:
        os.stat(path)
    except OSError:
        return False
    return True


def _give_up(why: str) -> NoReturn:
    os.write(2, (why + "\n").encode("utf-8", "replace"))
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv)
