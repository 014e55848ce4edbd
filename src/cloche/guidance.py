"""One plain sentence of what to do next, for the failures that users meet most."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloche.policy import ExecutionPolicy
    from cloche.result import ExceptionInfo

_NETWORK_TYPES = (
    "gaierror", "URLError", "ConnectionError", "ConnectTimeout", "ConnectionRefusedError", "NewConnectionError",
    "MaxRetryError", "ConnectError",
)  # fmt: skip
_NETWORK_WORDS = re.compile(
    r"Name or service not known|Temporary failure in name resolution|Network (?:is )?unreachable|getaddrinfo failed"
    r"|Address family not supported",
    re.IGNORECASE,
)


def guidance_for(
    outcome: str,
    exception: ExceptionInfo | None,
    policy: ExecutionPolicy,
    timeout_ms: int,
    *,
    network_off: bool,
    detail: str = "",
) -> str | None:
    """The sentence for a result, or None when there is nothing to say."""
    if outcome == "timeout":
        return (
            f"The code ran longer than {timeout_ms} ms: make it do less at a time, or raise the time-out "
            "(timeout_ms=..., --timeout)."
        )
    if outcome == "memory" or (outcome == "killed" and "SIGKILL" in detail):
        limit = "the machine allows" if policy.memory_bytes is None else f"{policy.memory_bytes // 2**20} MiB"
        return f"The code wanted more memory than {limit}: work in pieces, or raise policy.memory_bytes (--memory)."
    if exception is None:
        return None
    kind = exception.type.rpartition(".")[2]
    if kind in _NETWORK_TYPES or (
        kind in ("OSError", "PermissionError", "TimeoutError") and _NETWORK_WORDS.search(exception.message)
    ):
        state = (
            "The network is off in this sandbox" if network_off else "Code in a sandbox should not count on the network"
        )
        return (
            f"{state}: fetch the data outside and pass it in (--file, --context, put_file), or offer a host function "
            "with tools={...}."
        )
    if kind == "ModuleNotFoundError":
        return (
            "The package is not installed for the guest's interpreter: install it there, or choose another one with "
            "python=..."
        )
    if kind == "EOFError" and "no terminal" in exception.message:
        return (
            "There is no terminal behind input(): set a variable with set_variable() or write the value into the code."
        )
    return None
