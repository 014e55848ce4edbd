"""One plain sentence of what to do next, for the failures that users meet most."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

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


def unprotected_guidance(why: str) -> str:
    """The sentence for a result after which `policy.protect_state` cannot be honoured for the moment."""
    return (
        f"The state of the session could not be saved ({why}): should the next cell be killed, its variables are lost. "
        "Remove what the session does not need, or set protect_state=False."
    )


def guidance_for(
    outcome: str,
    exception: ExceptionInfo | None,
    policy: ExecutionPolicy,
    timeout_ms: int,
    *,
    layers: Collection[str] = (),
    detail: str = "",
) -> str | None:
    """The sentence for a result, or None when there is nothing to say. `layers` are those of the wall."""
    if outcome == "out_of_fuel":
        return (
            f"The code used all of its {policy.fuel_budget} units of fuel: make it do less at a time, or raise "
            "policy.fuel_budget."
        )
    if outcome == "timeout":
        return (
            f"The code ran longer than {timeout_ms} ms: make it do less at a time, or raise the time-out "
            "(timeout_ms=..., --timeout)."
        )
    limit = "the machine allows" if policy.memory_bytes is None else f"{policy.memory_bytes // 2**20} MiB"
    if outcome == "memory" and exception is not None and "too complex to parse" in exception.message:
        return "The code is nested too deeply for the parser: build such a value step by step, or read it with json."
    if outcome == "memory":
        return f"The code wanted more memory than {limit}: work in pieces, or raise policy.memory_bytes (--memory)."
    if outcome == "killed" and "SIGKILL" in detail:
        return (
            f"Something killed the process; if the code wanted more memory than {limit}, work in pieces, or raise "
            "policy.memory_bytes (--memory)."
        )
    return None if exception is None else _for_exception(exception, layers)


def _for_exception(exception: ExceptionInfo, layers: Collection[str]) -> str | None:
    kind = exception.type.rpartition(".")[2]
    if "webassembly" in layers:
        found = _without_a_system(kind, exception.message, exception.traceback, fetches="permissions" in layers)
        if found is not None:
            return found
    if kind in _NETWORK_TYPES or (
        kind in ("OSError", "PermissionError", "TimeoutError") and _NETWORK_WORDS.search(exception.message)
    ):
        off = "network" in layers
        state = "The network is off in this sandbox" if off else "Code in a sandbox should not count on the network"
        return (
            f"{state}: fetch the data outside and pass it in (--file, --context, put_file), or offer a host function "
            "with tools={...}."
        )
    if kind == "ModuleNotFoundError":
        return (
            "The package is not installed for the guest's interpreter: install it there, or choose another one with "
            "python=..."
        )
    if kind in ("SyntaxError", "IndentationError"):
        return _not_python(exception.traceback, exception.message)
    if kind == "BdbQuit" or (kind == "RuntimeError" and exception.message.startswith("breakpoint()")):
        return "There is no terminal for a debugger: print what you want to know, and remove breakpoint()."
    if kind == "ZoneInfoNotFoundError":
        return (
            "The guest has no table of time zones: install tzdata for its interpreter, or use fixed offsets "
            "(datetime.timezone)."
        )
    if kind == "RuntimeError" and "no running event loop" in exception.message:
        return "No event loop runs here: call it from a coroutine that the cell awaits (await main())."
    if kind == "GuardrailError":
        return (
            "The guard-rails do not let this code run: use what the message names in its place, or run it behind a "
            "wall (backend='jail'), where it may do this."
        )
    if kind == "EOFError" and "no terminal" in exception.message:
        return (
            "There is no terminal behind input(): set a variable with set_variable() or write the value into the code."
        )
    return None


_FENCE = re.compile(r"^ {4}```", re.MULTILINE)
_MAGIC = re.compile(r"^ {4}(?:\w+ = )?[!%]{1,2}[a-z]", re.MULTILINE)
_PROMPT = re.compile(r"^ {4}(?:>>>|In \[\d*\]:)", re.MULTILINE)
_QUESTION = re.compile(r"^ {4}\??[\w.]+\?{1,2}$|^ {4}\?{1,2}[\w.]+$", re.MULTILINE)
"""In a traceback, the line of source is set in by four."""


def _not_python(traceback: str, message: str) -> str | None:
    """What models put around code, and notebooks allow in it."""
    if message.startswith("unexpected indent"):
        return (
            "The code is set in as a whole, or one line of it is: begin at the left edge (textwrap.dedent does that)."
        )
    if _PROMPT.search(traceback):
        return (
            "The code has the prompts of an interactive session in it: pass its lines without >>> and ... before them."
        )
    if _QUESTION.search(traceback):
        return "A question mark for help is of IPython, and this is plain Python: use help(name), or name.__doc__."
    if _FENCE.search(traceback):
        return "The code has its Markdown fence around it: pass only what stands between the fences."
    if _MAGIC.search(traceback):
        return (
            "Lines with ! or % are of IPython, and this is plain Python: use subprocess, or a module, in their place."
        )
    return None


_NETWORK_CODE = re.compile(r"\b(?:socket|urllib|http|requests|httpx|aiohttp|ftplib|smtplib|ssl)\b")
_PATH = re.compile(r"'(/[^']*)'")
_MODULE = re.compile(r"No module named '([^'.]+)")


def _without_a_system(kind: str, message: str, traceback: str, *, fetches: bool) -> str | None:
    """For a guest that has no operating system: what is missing, and what to do instead.

    `fetches`: the host can fetch packages for it.
    """
    if kind == "ModuleNotFoundError":
        return _missing_module(message, fetches=fetches)
    if "can't start new thread" in message:
        return "There are no threads behind this wall: do one thing after another, use asyncio, or the jail backend."
    if "does not support processes" in message or re.search(
        r"has no attribute '(fork|system|popen|spawn|exec|kill|pipe)", message
    ):
        return "There are no other processes behind this wall: do it in Python, or use the jail backend."
    if "Illegal byte sequence" in message:
        return "Names of files must be UTF-8 behind this wall: choose another name."
    if kind == "PermissionError" and " -> " in message:
        return "A link may only lead to a relative path inside /app: copy the file instead."
    if kind == "OverflowError" and "index-sized" in message:
        return "This guest has 32-bit addresses and holds 4 GiB at the most: work in pieces, or use the jail backend."
    if kind in ("FileNotFoundError", "PermissionError", "OSError", "NotADirectoryError"):
        path = _PATH.search(message)
        if path is None and kind == "PermissionError" and _NETWORK_CODE.search(traceback):
            return (
                "The network is off in this sandbox: fetch the data outside and pass it in (--file, --context, "
                "put_file), or offer a host function with tools={...}."
            )
        if path is not None and (not path[1].startswith("/app/") or ".." in path[1]):
            return (
                "Only /app exists behind this wall: use a relative path, and bring files in with put_file() or --file."
            )
        if path is not None and path[1].startswith("/app/site-packages"):
            return "Packages in /app/site-packages are read-only: write elsewhere in /app."
    return None


def _missing_module(message: str, *, fetches: bool) -> str | None:
    found = _MODULE.search(message)
    if found is not None and found[1] in sys.stdlib_module_names:
        return (
            f"The standard module {found[1].strip('_')} needs an operating system and is not installed behind this "
            "wall: do without it, or use the jail backend."
        )
    if fetches:
        return (
            "The package is not installed for this guest: name it in policy.packages (packages=[...]). numpy, pandas "
            "and others that are not on the package index for it need the jail backend."
        )
    return (
        "The package is not installed for this guest: pip install --target FOLDER --only-binary :all: NAME, and pass "
        "site_packages=FOLDER. Packages with compiled code, such as numpy, need the jail backend."
    )
