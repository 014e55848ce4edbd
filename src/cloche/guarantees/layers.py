"""What each layer of each wall does, as ``cloche doctor`` says it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_JAIL = {
    "namespaces": "its own users, mounts, processes, IPC and host name",
    "network": "an empty network namespace; only Unix sockets can be made",
    "view": "only the interpreter and system libraries exist, read-only",
    "seccomp": "a list of allowed system calls",
    "landlock": "a second line on files",
    "scope": "a second line on signals and abstract sockets, behind namespaces and process groups",
    "capabilities": "none, and no way to gain any",
    "rlimits": "memory, processes, files and descriptors are bounded",
    "environment": "built from nothing",
    "lifeline": "everything ends when the host ends",
    "cgroup": "memory, processes and CPU of a whole session are counted and bounded",
}
LAYERS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "jail": _JAIL,
        "jail, confined": {
            **_JAIL,
            "network": "no socket can be made but connected pairs",
            "landlock": "a list of paths that can be opened",
            "scope": "no signals and sockets to the outside",
        },
        "wasm": {
            "webassembly": "no instruction of the guest reaches outside of its own memory",
            "view": "only /app and a home exist",
            "network": "there are no sockets",
            "fuel": "every instruction is counted, and can be limited",
            "memory": "a hard limit",
            "process": "a process of its own, without a host's environment",
            "rlimits": "file size, descriptors and memory of the process are bounded",
            "lifeline": "the kernel kills the worker when the host dies",
        },
        "pyodide": {
            "process": "its own process, killed whole",
            "webassembly": "the interpreter computes in a memory of its own",
            "permissions": "Deno denies files, programs, libraries and what it knows of the system",
            "network": "Deno denies it, and loads no module from outside",
            "environment": "empty",
            "landlock": "the process may read Deno and Pyodide, and write nothing",
            "seccomp": "no sockets, no other processes",
            "lifeline": "the kernel kills the guest when the host dies",
            "rlimits": "memory and CPU are bounded, no file can be written",
        },
        "native": {
            "process": "its own process and process group, killed whole",
            "environment": "an allow-list of variables; no key of the host is visible",
            "lifeline": "the kernel kills the guest when the host dies",
            "rlimits": "memory, file size and descriptors are bounded",
        },
    }
)
