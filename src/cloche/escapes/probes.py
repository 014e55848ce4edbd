"""Probes: forbidden system calls with arguments that cannot work.

With bad pointers, dead descriptors or unknown options a call can only fail, whoever makes it, so that it is safe to
make as root and outside any wall. Who answers tells whether the call got through: the kernel looks at the arguments
and says what is wrong with them, a filter says no before that.
"""

from __future__ import annotations

import errno
import platform
from dataclasses import dataclass

REFUSALS = frozenset({errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT, errno.ENOTTY})
"""What a filter answers. The kernel may answer so too, where the caller has no right to ask."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One call: its number and its hopeless arguments."""

    name: str
    number: int
    arguments: tuple[int, ...]

    @property
    def title(self) -> str:
        """In a sentence."""
        return f"Make the system call {self.name.replace('__', ' with ')} with arguments that cannot work."


BAD = 1  # no address
NOWHERE = -1  # no descriptor, no process
_UNKNOWN = 0x7FFFFFF0  # no option, no flags

# number of the call on x86_64, and arguments. Not `capset`, which can only give up what one has, nor `memfd_create`,
# which is allowed where memory files are counted.
_X86_64: dict[str, tuple[int, ...]] = {
    "mount": (165, BAD, BAD, BAD, 0, BAD),
    "umount2": (166, BAD, 0),
    "pivot_root": (155, BAD, BAD),
    "chroot": (161, BAD),
    "unshare": (272, 1),
    "setns": (308, NOWHERE, 0),
    "ptrace": (101, 2, NOWHERE, BAD, BAD),
    "process_vm_readv": (310, NOWHERE, BAD, 1, BAD, 1, 1),
    "process_vm_writev": (311, NOWHERE, BAD, 1, BAD, 1, 1),
    "keyctl": (250, 999),
    "add_key": (248, BAD, BAD, BAD, 1, 0),
    "request_key": (249, BAD, BAD, BAD, 0),
    "bpf": (321, 9999, BAD, 8),
    "userfaultfd": (323, _UNKNOWN),
    "perf_event_open": (298, BAD, 0, -1, -1, 0),
    "io_uring_setup": (425, 1, BAD),
    "io_uring_enter": (426, NOWHERE, 1, 1, 0, 0),
    "io_uring_register": (427, NOWHERE, 0, BAD, 1),
    "kexec_load": (246, 0, 17, BAD, _UNKNOWN),
    "kexec_file_load": (320, NOWHERE, NOWHERE, 0, BAD, _UNKNOWN),
    "init_module": (175, BAD, 64, BAD),
    "finit_module": (313, NOWHERE, BAD, 0),
    "delete_module": (176, BAD, 0),
    "open_by_handle_at": (304, NOWHERE, BAD, 0),
    "name_to_handle_at": (303, NOWHERE, BAD, BAD, BAD, _UNKNOWN),
    "iopl": (172, 4),
    "ioperm": (173, 70_000, 1, 1),
    "quotactl": (179, _UNKNOWN, BAD, 0, BAD),
    "reboot": (169, 0, 0, 0, 0),
    "swapon": (167, BAD, 0),
    "swapoff": (168, BAD),
    "syslog": (103, 99, BAD, 1),
    "acct": (163, BAD),
    "settimeofday": (164, BAD, BAD),
    "clock_settime": (227, 0, BAD),
    "adjtimex": (159, BAD),
    "clock_adjtime": (305, 0, BAD),
    "sethostname": (170, BAD, 8),
    "setdomainname": (171, BAD, 8),
    "kcmp": (312, NOWHERE, NOWHERE, 0, 0, 0),
    "fanotify_init": (300, _UNKNOWN, 0),
    "fanotify_mark": (301, NOWHERE, 0, 0, NOWHERE, BAD),
    "pidfd_getfd": (438, NOWHERE, 0, 0),
    "mount_setattr": (442, NOWHERE, BAD, _UNKNOWN, BAD, 32),
    "fsopen": (430, BAD, 0),
    "fsconfig": (431, NOWHERE, 0, BAD, BAD, 0),
    "fsmount": (432, NOWHERE, 0, 0),
    "fspick": (433, NOWHERE, BAD, 0),
    "open_tree": (428, NOWHERE, BAD, _UNKNOWN),
    "move_mount": (429, NOWHERE, BAD, NOWHERE, BAD, _UNKNOWN),
    "statmount": (457, BAD, BAD, 64, 0),
    "listmount": (458, BAD, BAD, 1, 0),
    "memfd_secret": (447, _UNKNOWN),
    "modify_ldt": (154, 1, BAD, 16),
    "personality": (135, 0xFFFFFFFF),
    "setuid": (105, -1),
    "setgid": (106, -1),
    "setreuid": (113, -1, -1),
    "setregid": (114, -1, -1),
    "setresuid": (117, -1, -1, -1),
    "setresgid": (119, -1, -1, -1),
    "setfsuid": (122, -1),
    "setfsgid": (123, -1),
    "setgroups": (116, 70_000, BAD),
    "mknod": (133, BAD, 0o20666, 0x103),
    "mknodat": (259, NOWHERE, BAD, 0o20666, 0x103),
    "vmsplice": (278, NOWHERE, BAD, 1, 0),
    "seccomp": (317, 99, 0, BAD),
    "capset": (126, BAD, BAD),
    "landlock_create_ruleset": (444, BAD, 8, 0),
    "landlock_add_rule": (445, NOWHERE, 1, BAD, 0),
    "landlock_restrict_self": (446, NOWHERE, 0),
    "clone3": (435, BAD, 64),
    "clone__new_user": (56, 0x10000000 | 0x200, 0, 0, 0, 0),
    "clone__new_mounts": (56, 0x00020000 | 0x200, 0, 0, 0, 0),
    "clone__new_processes": (56, 0x20000000 | 0x200 | 0x00020000, 0, 0, 0, 0),
    "clone__new_network": (56, 0x40000000 | 0x200 | 0x00020000, 0, 0, 0, 0),
    "inotify_init1": (294, _UNKNOWN),
    "mq_open": (240, BAD, 0, 0, BAD),
    "shmctl": (31, NOWHERE, 0, BAD),
    "msgctl": (71, NOWHERE, 0, BAD),
    "semctl": (66, NOWHERE, 0, 0, BAD),
    "setxattr": (188, BAD, BAD, BAD, 1, 0),
    "ioprio_set": (251, 99, 0, 0),
    "move_pages": (279, NOWHERE, 1, BAD, BAD, BAD, 0),
    "migrate_pages": (256, NOWHERE, 8, BAD, BAD),
    "process_madvise": (440, NOWHERE, BAD, 1, 0, 0),
    "process_mrelease": (448, NOWHERE, 0),
    "lsm_set_self_attr": (460, 0, BAD, 1, 0),
    "prctl__seccomp": (157, 22, 99, BAD),
    "prctl__dumpable": (157, 4, 99, 0, 0, 0),
    "prctl__memory_map": (157, 35, 99, BAD, 0, 0),
    "ioctl__terminal_input": (16, NOWHERE, 0x5412, BAD),
    "ioctl__console": (16, NOWHERE, 0x541C, BAD),
    "ioctl__file_flags": (16, NOWHERE, 0x40086602, BAD),
    "ioctl__file_attributes": (16, NOWHERE, 0x401C5820, BAD),
    "ioctl__file_version": (16, NOWHERE, 0x40087602, BAD),
    "ioctl__verity": (16, NOWHERE, 0x40806685, BAD),
    "ioctl__encryption": (16, NOWHERE, 0x800C6613, BAD),
    "ioctl__same_blocks": (16, NOWHERE, 0xC0189436, BAD),
    "ioctl__clone_blocks": (16, NOWHERE, 0x40049409, NOWHERE),
    "ioctl__owner": (16, NOWHERE, 0x8901, BAD),
    "ioctl__signals": (16, NOWHERE, 0x5452, BAD),
    "file_setattr": (469, NOWHERE, BAD, BAD, 1, 0),
    "setxattrat": (463, NOWHERE, BAD, 0, BAD, BAD, 1),
    "fcntl__lease": (72, NOWHERE, 1024, 0),
    "fcntl__notify": (72, NOWHERE, 1026, 0),
    "fcntl__owner": (72, NOWHERE, 8, 0),
    "fcntl__owner_kind": (72, NOWHERE, 15, BAD),
    "fcntl__signal": (72, NOWHERE, 10, 9),
    "fcntl__write_hint": (72, NOWHERE, 1036, BAD),
    "setsockopt__filter": (54, NOWHERE, 1, 26, BAD, 16),
    "setsockopt__other_level": (54, NOWHERE, 0, 64, BAD, 40),
    "socket__inet": (41, 2, 1, 0),
    "socket__inet6": (41, 10, 2, 0),
    "socket__netlink": (41, 16, 3, 0),
    "socket__packet": (41, 17, 99, 0),
    "socket__alg": (41, 38, 5, 0),
    "socket__vsock": (41, 40, 1, 0),
    "socketpair__netlink": (53, 16, 3, 0, BAD),
    "socketpair__vsock": (53, 40, 1, 0, BAD),
    "getpid__x32": (0x40000000 | 39,),
    "mount__x32": (0x40000000 | 165, BAD, BAD, BAD, 0, BAD),
}

PROBES: tuple[Probe, ...] = tuple(
    Probe(name, call[0], call[1:]) for name, call in _X86_64.items() if platform.machine() == "x86_64"
)

_TEMPLATE = """\
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
answer = libc.syscall(*[ctypes.c_long(word) for word in {words!r}])
print("answer", ctypes.get_errno() if answer == -1 else 0)
"""


def probe_code(probe: Probe) -> str:
    """The cell that makes the call and prints the error number, 0 for none."""
    return _TEMPLATE.format(words=(probe.number, *probe.arguments))


def reached_kernel(said: str) -> bool | None:
    """Whether the call got through, by what the cell printed; None where it printed nothing (it was killed)."""
    for line in said.splitlines():
        word, _, number = line.partition(" ")
        if word == "answer" and number.isdigit():
            return int(number) not in REFUSALS
    return None
