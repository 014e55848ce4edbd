"""The seccomp program: a list of allowed system calls. What is not on it does not exist (ENOSYS).

Where a call is known to be dangerous it is refused with EPERM, so that libraries see a plain "no" and fall back. A
few are looked into: `clone` may not make namespaces, `socket` may make Unix sockets only, `ioctl`, `fcntl`, `prctl` and
`setsockopt` are allowed by option, `setns`, `unshare`, `chroot` and `capset`
only when PID 1 says so. Many options change a file through a
descriptor that was opened to be read, past Landlock and past the rights of the file: a list of the harmless ones is
short, one of the others would never be complete. inotify is left out: its few instances
are counted against the user who started the jail, and a guest that takes them all leaves none to that user's other
programs.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    Instruction = Tuple[int, int, int, int]

ALLOW = 0x7FFF0000
KILL = 0x80000000
ERRNO = 0x00050000
ASK = 0x7FC00000
"""Somebody outside decides: the PID 1 of the seat (see ``native/pid_one.c``)."""
EPERM, ENOTTY, ENOSYS, EAFNOSUPPORT = 1, 25, 38, 97

_LOAD, _RETURN, _AND = 0x20, 0x06, 0x54
_EQUAL, _GREATER, _GREATER_EQUAL, _ANY_BIT = 0x15, 0x25, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16

_CLONE_NEWNS = 0x20000
CLONE_NAMESPACES = 0x7E020000 | 0x80
_AF_UNIX = 1
_PRIO_PROCESS = 0
_PASS = 0x636C6F63
_SET_ID_BITS = 0o6000
_FILE_TYPE, _NAMED_PIPE = 0o170000, 0o010000
_O_CREAT, _O_TMPFILE = 0o100, 0o20000000
_IOCTLS = (0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Is it a terminal, which group has it, its size (TCGETS, TIOCGPGRP, TIOCGWINSZ); how much can be read (FIONREAD);
whether to block, whether a program that is executed inherits it (FIONBIO, FIONCLEX, FIOCLEX)."""
_FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 16, 36, 37, 38, 1025, 1027, 1028, 1030, 1031, 1032, 1033, 1034, 1035, 1037)
"""Copies of descriptors, flags, locks, sizes of pipes, seals of memory files, and what merely reads. Not: leases and
notifications, which hold up who writes outside (F_SETLEASE, F_NOTIFY); signals to others (F_SETOWN, F_SETOWN_EX,
F_SETSIG); hints about how the file's blocks are written (F_SET_RW_HINT), which need no right to write."""
_SOCKET_OPTIONS = (2, 6, 7, 8, 9, 10, 13, 15, 16, 18, 19, 20, 21, 29, 42, 66, 67)
"""Buffers, time-outs, credentials and what programs set out of habit. Not: programs that filter packets."""
_SOL_SOCKET = 1
_FADV_DONTNEED = 4
_MAP_SHARED, _MAP_ANONYMOUS, _MAP_GROWSDOWN, _MAP_HUGETLB = 0x1, 0x20, 0x100, 0x40000
_MFD_HUGETLB, _O_NOTIFICATION_PIPE = 4, 0o200
_PRCTL_OPTIONS = (1, 2, 3, 15, 16, 23, 38, 39, 0x53564D41)
"""The parent's death signal, names, no_new_privs, names of memory areas; of the rest only what merely reads."""

_X86_64 = """0 read 1 write 3 close 4 stat 5 fstat 6 lstat 7 poll 8 lseek 10 mprotect 11 munmap 12 brk
13 rt_sigaction 14 rt_sigprocmask 15 rt_sigreturn 17 pread64 18 pwrite64 19 readv 20 writev 21 access 22 pipe
23 select 24 sched_yield 25 mremap 26 msync 27 mincore 28 madvise 32 dup 33 dup2 34 pause 35 nanosleep 36 getitimer
37 alarm 38 setitimer 39 getpid 40 sendfile 42 connect 43 accept 44 sendto 45 recvfrom 46 sendmsg 47 recvmsg
48 shutdown 49 bind 50 listen 51 getsockname 52 getpeername 55 getsockopt 57 fork 58 vfork 59 execve
60 exit 61 wait4 62 kill 63 uname 73 flock 74 fsync 75 fdatasync 76 truncate 77 ftruncate 78 getdents
79 getcwd 80 chdir 81 fchdir 82 rename 83 mkdir 84 rmdir 86 link 87 unlink 88 symlink 89 readlink 92 chown
93 fchown 94 lchown 95 umask 96 gettimeofday 97 getrlimit 98 getrusage 99 sysinfo 100 times 102 getuid 104 getgid
107 geteuid 108 getegid 109 setpgid 110 getppid 111 getpgrp 112 setsid 115 getgroups 118 getresuid 120 getresgid
121 getpgid 124 getsid 127 rt_sigpending 128 rt_sigtimedwait 129 rt_sigqueueinfo 130 rt_sigsuspend
131 sigaltstack 132 utime 137 statfs 138 fstatfs 140 getpriority 143 sched_getparam
145 sched_getscheduler 146 sched_get_priority_max 147 sched_get_priority_min 149 mlock 150 munlock 158 arch_prctl
160 setrlimit 186 gettid 187 readahead 191 getxattr 192 lgetxattr 193 fgetxattr 194 listxattr 195 llistxattr
196 flistxattr 200 tkill 201 time 202 futex 204 sched_getaffinity 213 epoll_create
217 getdents64 218 set_tid_address 219 restart_syscall 222 timer_create 223 timer_settime
224 timer_gettime 225 timer_getoverrun 226 timer_delete 228 clock_gettime 229 clock_getres 230 clock_nanosleep
231 exit_group 232 epoll_wait 233 epoll_ctl 234 tgkill 235 utimes 239 get_mempolicy 247 waitid 258 mkdirat
260 fchownat 261 futimesat 262 newfstatat 263 unlinkat 264 renameat 265 linkat 266 symlinkat 267 readlinkat
269 faccessat 270 pselect6 271 ppoll 273 set_robust_list 274 get_robust_list 275 splice 276 tee
280 utimensat 281 epoll_pwait 282 signalfd 283 timerfd_create 284 eventfd 285 fallocate 286 timerfd_settime
287 timerfd_gettime 288 accept4 289 signalfd4 290 eventfd2 291 epoll_create1 292 dup3 295 preadv
296 pwritev 297 rt_tgsigqueueinfo 299 recvmmsg 307 sendmmsg 309 getcpu 316 renameat2 318 getrandom
322 execveat 324 membarrier 326 copy_file_range 327 preadv2 328 pwritev2 329 pkey_mprotect
330 pkey_alloc 331 pkey_free 332 statx 334 rseq 424 pidfd_send_signal 434 pidfd_open 436 close_range 439 faccessat2
441 epoll_pwait2 449 futex_waitv"""

# mount umount2 pivot_root ptrace process_vm_* keyctl add_key request_key bpf userfaultfd
# perf_event_open io_uring_* kexec_* *_module *_handle_at iopl ioperm quotactl reboot swap* syslog acct set*time
# adjtimex set*name kcmp fanotify_init pidfd_getfd mount_setattr fs* open_tree move_mount memfd_secret modify_ldt
# personality set*id setgroups vmsplice seccomp
_X86_64_REFUSED = (
    165, 166, 155, 101, 310, 311, 250, 248, 249, 321, 323, 298, 425, 426, 427, 246, 320, 175, 313, 176,
    304, 303, 172, 173, 179, 169, 167, 168, 103, 163, 164, 227, 159, 305, 170, 171, 312, 300, 438, 442, 430, 431, 432,
    433, 428, 429, 447, 154, 135, 105, 106, 113, 114, 117, 119, 122, 123, 116, 278, 317,
)  # fmt: skip
_X86_64_SPECIAL = {
    "open": 2,
    "mmap": 9,
    "pipe2": 293,
    "memfd_create": 319,
    "creat": 85,
    "chmod": 90,
    "fchmod": 91,
    "sync": 162,
    "openat": 257,
    "fchmodat": 268,
    "syncfs": 306,
    "fchmodat2": 452,
    "clone": 56,
    "clone3": 435,
    "socket": 41,
    "socketpair": 53,
    "ioctl": 16,
    "setsockopt": 54,
    "fadvise64": 221,
    "sync_file_range": 277,
    "fcntl": 72,
    "prctl": 157,
    "setns": 308,
    "unshare": 272,
    "chroot": 161,
    "capset": 126,
    "mknod": 133,
    "mknodat": 259,
    "setpriority": 141,
    "sched_setaffinity": 203,
    "prlimit64": 302,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
_X86_64_AUDIT = 0xC000003E
_X32_BIT = 0x40000000


def build_filter(machine: str, *, memfd: bool, first: dict[int, list[Instruction]] | None = None) -> bytes:
    """The program for this architecture. `memfd`: allow memory files and shared memory without a file (only where a
    memory group counts them).

    `first`: rules by number that come before all others. Each ends in a return.
    """
    numbers = {int(number) for number in _X86_64.split()[0::2]}
    program: list[Instruction] = []
    _special_rules(program, memfd=memfd)
    for low, high in _ranges(numbers):
        if low == high:
            program += [(_EQUAL, 0, 1, low), (_RETURN, 0, 0, ALLOW)]
        else:
            program += [(_GREATER_EQUAL, 0, 2, low), (_GREATER, 1, 0, high), (_RETURN, 0, 0, ALLOW)]
    for low, high in _ranges(set(_X86_64_REFUSED)):
        program += [(_GREATER_EQUAL, 0, 2, low), (_GREATER, 1, 0, high), (_RETURN, 0, 0, ERRNO | EPERM)]
    program.append((_RETURN, 0, 0, ERRNO | ENOSYS))
    return assemble(machine, first or {}, program)


def assemble(machine: str, rules: dict[int, list[Instruction]], rest: list[Instruction]) -> bytes:
    """A program of rules by number, each of which ends in a return, and of what is to be done with all other calls."""
    if machine != "x86_64":
        raise OSError(ENOSYS, "no system call list for this architecture", machine)
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _X86_64_AUDIT),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_GREATER_EQUAL, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, ERRNO | ENOSYS),
    ]
    for number, rule in rules.items():
        program.append((_EQUAL, 0, len(rule), number))
        program.extend(rule)
    program += rest
    return b"".join(
        code.to_bytes(2, sys.byteorder) + bytes((then, otherwise)) + value.to_bytes(4, sys.byteorder)
        for code, then, otherwise, value in program
    )


def _special_rules(program: list[Instruction], *, memfd: bool) -> None:
    """Calls that are judged by an argument. Each body ends in a return, so the number stays loaded for the rest."""
    first = _ARGUMENT
    unix_only: list[Instruction] = [
        (_LOAD, 0, 0, first),
        (_EQUAL, 0, 1, _AF_UNIX),
        (_RETURN, 0, 0, ALLOW),
        (_RETURN, 0, 0, ERRNO | EAFNOSUPPORT),
    ]
    nothing: list[Instruction] = [(_RETURN, 0, 0, ERRNO | 0)]
    bodies: dict[str, list[Instruction]] = {
        "openat": _created_without_set_id(2),
        "open": _created_without_set_id(1),
        "creat": _without_set_id(1),
        "chmod": _without_set_id(1),
        "fchmod": _without_set_id(1),
        "fchmodat": _without_set_id(2),
        "fchmodat2": _without_set_id(2),
        # a guest that flushes the host's disks without end would slow everybody; its own files are in memory
        "sync": nothing,
        "syncfs": nothing,
        "clone": [
            (_LOAD, 0, 0, first),
            (_ANY_BIT, 0, 1, CLONE_NAMESPACES),
            (_RETURN, 0, 0, ERRNO | EPERM),
            (_RETURN, 0, 0, ALLOW),
        ],
        # glibc falls back to clone, whose flags can be read
        "clone3": [(_RETURN, 0, 0, ERRNO | ENOSYS)],
        "socket": unix_only,
        # the kernel loads a protocol's module before it finds that the protocol has no pairs
        "socketpair": unix_only,
        "ioctl": only(1, _IOCTLS, ENOTTY),  # as of a file that does not know it: programs then do without
        "setsockopt": when(1, _SOL_SOCKET, only(2, _SOCKET_OPTIONS, EPERM), refusal(EPERM)),
        # advice that takes files which others read out of memory; and pages of others' files that are to be written now
        "fadvise64": when(3, _FADV_DONTNEED, nothing, permission()),
        "sync_file_range": nothing,
        "mmap": _mappings(shared=memfd),
        "memfd_create": _without_bits(1, _MFD_HUGETLB) if memfd else refusal(ENOSYS),
        # notification queues are charged to the user, and nobody reads keys here
        "pipe2": _without_bits(1, _O_NOTIFICATION_PIPE),
        # for the worker's own step away from its branches (see native/confine.c); nothing else means to use them
        "landlock_create_ruleset": when(3, _PASS, permission(), refusal(EPERM)),
        "landlock_add_rule": when(4, _PASS, permission(), refusal(EPERM)),
        "landlock_restrict_self": when(2, _PASS, permission(), refusal(EPERM)),
        # of oneself: not of a process group, of all of a user's, or of a branch
        "setpriority": when(0, _PRIO_PROCESS, when(1, 0, permission(), refusal(EPERM)), refusal(EPERM)),
        "sched_setaffinity": when(0, 0, permission(), refusal(EPERM)),
        "prlimit64": when(0, 0, permission(), refusal(EPERM)),
        "mknod": _pipes_only(1),
        "mknodat": _pipes_only(2),
        # only into the seat of a branch, while one is being made
        "setns": asking(),
        "unshare": when(0, _CLONE_NEWNS, asking(), refusal(EPERM)),
        "chroot": asking(),
        "capset": asking(),
        "fcntl": only(1, _FCNTLS, EPERM),
        "prctl": only(0, _PRCTL_OPTIONS, EPERM),
    }
    for name, body in bodies.items():
        program.append((_EQUAL, 0, len(body), _X86_64_SPECIAL[name]))
        program.extend(body)


def _without_bits(argument: int, bits: int) -> list[Instruction]:
    """Any value but with one of these bits."""
    return [
        (_LOAD, 0, 0, _ARGUMENT + 8 * argument),
        (_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, ERRNO | EPERM),
        (_RETURN, 0, 0, ALLOW),
    ]


def _without_set_id(argument: int) -> list[Instruction]:
    """No file with the set-user-id or set-group-id bit: in a folder of the host it would work there."""
    return _without_bits(argument, _SET_ID_BITS)


def _mappings(*, shared: bool) -> list[Instruction]:
    """No pages of the machine's pool of huge ones, which nothing counts, and no stack that grows: the limit on data
    does not see it. Nor does it see memory that is shared and has no file; `shared`: something else counts that."""
    rule = _without_bits(3, _MAP_GROWSDOWN | _MAP_HUGETLB)
    if shared:
        return rule
    both = _MAP_SHARED | _MAP_ANONYMOUS
    return [
        (_LOAD, 0, 0, _ARGUMENT + 8 * 3),
        (_AND, 0, 0, both),
        (_EQUAL, 0, 1, both),
        (_RETURN, 0, 0, ERRNO | EPERM),
        *rule,
    ]


def _pipes_only(argument: int) -> list[Instruction]:
    """Named pipes, and no devices."""
    return [
        (_LOAD, 0, 0, _ARGUMENT + 8 * argument),
        (_AND, 0, 0, _FILE_TYPE | _SET_ID_BITS),
        (_EQUAL, 0, 1, _NAMED_PIPE),
        (_RETURN, 0, 0, ALLOW),
        (_RETURN, 0, 0, ERRNO | EPERM),
    ]


def _created_without_set_id(flags: int) -> list[Instruction]:
    """The same for a file that is made by opening it; without O_CREAT the mode means nothing."""
    check = _without_set_id(flags + 1)
    return [
        (_LOAD, 0, 0, _ARGUMENT + 8 * flags),
        (_ANY_BIT, 1, 0, _O_CREAT | _O_TMPFILE),
        (_RETURN, 0, 0, ALLOW),
        *check,
    ]


def _ranges(numbers: set[int]) -> list[tuple[int, int]]:
    """Sorted runs of neighbours: shorter programs load faster."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def only(argument: int, allowed: tuple[int, ...], code: int) -> list[Instruction]:
    """A rule: yes where the lower half of an argument is one of these, else no, with this error number."""
    choices = [(_EQUAL, len(allowed) - index, 0, value) for index, value in enumerate(allowed)]
    return [(_LOAD, 0, 0, _ARGUMENT + 8 * argument), *choices, (_RETURN, 0, 0, ERRNO | code), (_RETURN, 0, 0, ALLOW)]


def refusal(code: int) -> list[Instruction]:
    """A rule: no, with this error number (0: pretend that it was done)."""
    return [(_RETURN, 0, 0, ERRNO | code)]


def permission() -> list[Instruction]:
    """A rule: yes."""
    return [(_RETURN, 0, 0, ALLOW)]


def asking() -> list[Instruction]:
    """A rule: whoever holds the listener decides."""
    return [(_RETURN, 0, 0, ASK)]


def when(argument: int, value: int, then: list[Instruction], otherwise: list[Instruction]) -> list[Instruction]:
    """A rule that looks at the lower half of an argument. Both parts end in a return."""
    return [(_LOAD, 0, 0, _ARGUMENT + 8 * argument), (_EQUAL, 0, len(then), value), *then, *otherwise]


def when_above(argument: int, value: int, then: list[Instruction], otherwise: list[Instruction]) -> list[Instruction]:
    """The same for a larger number."""
    return [(_LOAD, 0, 0, _ARGUMENT + 8 * argument), (_GREATER, 0, len(then), value), *then, *otherwise]


def when_any(argument: int, bits: int, then: list[Instruction], otherwise: list[Instruction]) -> list[Instruction]:
    """The same for one of several bits that is set."""
    return [(_LOAD, 0, 0, _ARGUMENT + 8 * argument), (_ANY_BIT, 0, len(then), bits), *then, *otherwise]
