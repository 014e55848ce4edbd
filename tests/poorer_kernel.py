"""Runs a command as if on a poorer kernel: ``python poorer_kernel.py WORD[,WORD] COMMAND ...``.

A seccomp filter, which the command and all that it starts inherit, refuses what such a kernel would refuse.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from cloche_guest.jail import filter as calls  # noqa: E402 - as a program it has to find them first
from cloche_guest.jail import syscalls  # noqa: E402

E2BIG, ENOSYS, EOPNOTSUPP = 7, 38, 95
_NAMESPACES = 0x7E020080


def any_bit(argument: int, bits: int, error: int) -> list[calls.Instruction]:
    """Refuse when one of these bits is set."""
    return [(0x20, 0, 0, 16 + 8 * argument), (0x45, 0, 1, bits), *calls.refusal(error), *calls.permission()]


def larger(argument: int, bound: int, error: int) -> list[calls.Instruction]:
    """Refuse what is larger."""
    return [(0x20, 0, 0, 16 + 8 * argument), (0x25, 0, 1, bound), *calls.refusal(error), *calls.permission()]


def equal(argument: int, value: int, error: int) -> list[calls.Instruction]:
    """Refuse this value."""
    return [(0x20, 0, 0, 16 + 8 * argument), (0x15, 0, 1, value), *calls.refusal(error), *calls.permission()]


CONTAINER_REFUSES = (
    321, 300, 433, 212, 298, 179, 443, 171, 103, 169, 176, 175, 313, 163, 312, 438, 440, 172, 173, 164, 227, 153, 237,
    238, 239, 450, 304, 248, 249, 250, 323, 246, 320, 167, 168, 180, 256, 279, 457, 458, 463, 464, 465, 466, 467, 469,
)  # fmt: skip
"""bpf, fanotify_init, fspick, lookup_dcookie, perf_event_open, quotactl(_fd), setdomainname, syslog, reboot,
modules, acct, kcmp, pidfd_getfd, process_madvise, iopl, ioperm, clocks, vhangup, memory policies,
open_by_handle_at, keys, userfaultfd, kexec, swap, nfsservctl, migrate_pages, move_pages, statmount, listmount,
attributes by handle."""

KERNELS: dict[str, dict[int, list[calls.Instruction]]] = {
    # user namespaces forbidden, as in most containers: unshare, clone, clone3
    "no-namespaces": {
        272: any_bit(0, _NAMESPACES, calls.EPERM),
        56: any_bit(0, _NAMESPACES, calls.EPERM),
        435: calls.refusal(ENOSYS),
    },
    "no-landlock": {444: calls.refusal(EOPNOTSUPP)},
    # before version 6: the ruleset has no room for what keeps signals and abstract sockets inside
    "old-landlock": {444: larger(1, 16, E2BIG)},
    "no-seccomp": {317: calls.refusal(ENOSYS)},
    # a profile that leaves a process as it is: PR_SET_DUMPABLE; capset
    "always-dumpable": {157: equal(0, 4, calls.EPERM)},
    "no-capset": {126: calls.refusal(calls.EPERM)},
    # a container's profile, extended as `cloche doctor --seccomp-profile` does it: what it still refuses
    "container-profile": {
        **{number: calls.refusal(calls.EPERM) for number in CONTAINER_REFUSES},
        435: calls.refusal(ENOSYS),  # clone3
    },
    # root without the right to become somebody else
    "no-setuid": {117: calls.refusal(calls.EPERM), 119: calls.refusal(calls.EPERM)},
}


def run_on(words: str, *command: str, timeout: float = 50, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run our interpreter with these arguments on a kernel that lacks something."""
    with tempfile.TemporaryDirectory(prefix="cloche-kernel-", dir="/tmp" if os.getuid() == 0 else None) as folder:
        os.chmod(folder, 0o711)
        own = {"PYTHONPATH": str(ROOT / "src"), "CLOCHE_SESSIONS_DIR": folder + "/sessions"}
        return subprocess.run(
            [sys.executable, __file__, words, sys.executable, *command], capture_output=True, text=True,
            timeout=timeout,
            env={**os.environ, **own, **environment}, check=False,
        )  # fmt: skip


def main() -> None:
    """Install the filter, become the command."""
    words, command = sys.argv[1].split(","), sys.argv[2:]
    program: list[calls.Instruction] = [(0x20, 0, 0, 0)]
    for word in words:
        for number, rule in KERNELS[word].items():
            program += [(0x15, 0, len(rule), number), *rule]
    program += calls.permission()
    syscalls.no_new_privileges()
    syscalls.install_filter(b"".join(struct.pack("HBBI", *instruction) for instruction in program), listener=False)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
