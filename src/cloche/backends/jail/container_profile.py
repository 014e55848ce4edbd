"""The seccomp profile of a container in which the jail can have namespaces: the container's own, and these calls more.

A container's profile refuses what makes namespaces and mounts. The jail needs a few of those calls for its own start,
in user namespaces of its making, where they give no power over anything outside; guests are refused them by the jail's
own filter. Everything else that the profile refuses stays refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloche.errors import RequestError

NEEDED_CALLS: Mapping[str, str] = {
    "clone": "namespaces of a session, with its first process",
    "unshare": "namespaces of the jail, the user namespace and the mount list of a worker",
    "setns": "a worker enters its seat, a branch its own",
    "mount": "the view: file systems in memory, /proc, what is read-only",
    "umount2": "the container's own files are left behind",
    "pivot_root": "the view becomes the root",
    "chroot": "the list of mounts is hidden",
    "open_tree": "copies of folders that enter the view",
    "move_mount": "their places in the view",
    "mount_setattr": "read-only, without set-user-id programs and devices, with another owner",
    "fsopen": "file systems in memory that have no place: saved files, a list of processes",
    "fsconfig": "their sizes",
    "fsmount": "a handle of them",
    "sethostname": "the name of the machine, as a session sees it",
}
"""System calls that a start of the jail makes and that containers refuse to processes without capabilities, with what
each is for."""

SOURCE = "https://github.com/moby/profiles/blob/main/seccomp/default.json"
_ALLOW = "SCMP_ACT_ALLOW"


def extend_profile(profile: object) -> dict[str, Any]:
    """The same profile with what the jail needs. Raises `RequestError` for what is no profile."""
    if not isinstance(profile, dict) or not isinstance(profile.get("syscalls"), list) or "defaultAction" not in profile:
        raise RequestError(
            "this is no seccomp profile of a container",
            cause="it has no list of syscalls, or no default action",
            remedy=f"give the profile that the container engine uses by default: {SOURCE}",
        )
    rule = {"names": sorted(NEEDED_CALLS), "action": _ALLOW, "comment": "the start of Cloche's jail"}
    return {**profile, "syscalls": [*profile["syscalls"], rule]}
