"""Landlock: which files this process, and whatever it starts, may open, and for what."""

from __future__ import annotations

import posix as os

from cloche_guest.jail import syscalls

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_OF_THE_VERSION = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
READ = EXECUTE | READ_FILE | READ_FOLDER
ALL_BUT_NODES = (1 << 15) - 1 & ~(1 << 6 | 1 << 9 | 1 << 11)  # no devices, no sockets, no ioctl on devices

SCOPED = 6
"""The version from which on signals and abstract sockets can be kept inside."""
_FIELDS = ((SCOPED, 3), (4, 2), (1, 1))
"""(version, how many fields its rulesets have)"""

_version: int | None = None


def version() -> int:
    """The version of its interface; 0 where there is none. Found once: it is the kernel's."""
    global _version
    if _version is None:
        _version = _find_version()
    return _version


def _find_version() -> int:
    """What the kernel says, or less: a ruleset with the fields of that version is tried."""
    try:
        said = syscalls.call("landlock_create_ruleset", _CREATE, None, 0, _OF_THE_VERSION)
    except OSError:
        return 0
    for since, fields in _FIELDS:
        if said >= since:
            try:
                os.close(
                    syscalls.call(
                        "landlock_create_ruleset", _CREATE, syscalls.pack("Q" * fields, *[1] * fields), 8 * fields, 0
                    )
                )
            except OSError:
                said = since - 1
            else:
                break
    return said


def restrict(rules: list[tuple[str, int]]) -> None:
    """Confine this thread: these paths with these rights, no TCP, no signals or abstract sockets to the outside.

    What a kernel does not know yet is left out of the request, as its documentation asks.
    """
    known = version()
    if known < 1:
        raise OSError(95, "Landlock is not available")
    files = (1 << (13 if known < 2 else 14 if known < 3 else 15 if known < 5 else 16)) - 1
    network, scope = 3, 3
    fields = [files] + ([network] if known >= 4 else []) + ([scope] if known >= 6 else [])
    attribute = syscalls.pack("Q" * len(fields), *fields)
    ruleset = syscalls.call("landlock_create_ruleset", _CREATE, attribute, len(attribute), 0)
    try:
        for path, rights in rules:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                rule = syscalls.pack("=Qi", rights & files, descriptor)
                syscalls.call("landlock_add_rule", _ADD, ruleset, 1, rule, 0)
            finally:
                os.close(descriptor)
        syscalls.call("landlock_restrict_self", _RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def rights_on(path: str, rights: int) -> int:
    """Of these rights, those that a rule on this path may give: on a file fewer than on a folder."""
    is_folder = os.stat(path).st_mode & 0o170000 == 0o040000
    return rights if is_folder else rights & (EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE)
