"""Requests and responses of a REPL server, as the host knows them. What a server sends is hostile: checked, bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloche.errors import ProtocolError
from cloche.session.text_operations import checked_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloche.result import SandboxResult

MOST_FILES = 10_000
LONGEST_PATH = 4096
LONGEST_ERROR = 100_000
MOST_ERRORS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class REPLRequest:
    """One piece of code, and the state in which it is to run."""

    code: str
    state: str | None = None
    capture_state: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
    collect_files: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class REPLResponse:
    """What became of it: the six fields of the protocol, and what could not be saved."""

    stdout: str
    stderr: str
    exit_code: int
    state: str | None = None
    files: tuple[str, ...] = ()
    error: str | None = None
    state_errors: Mapping[str, str] = field(default_factory=dict)
    """Variables that are not in `state`, with the reason of each."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """The files, where they were asked for."""

    def to_dict(self) -> dict[str, Any]:
        """The response as it stands on the wire."""
        return {
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.exit_code,
            "state": self.state,
            "files": list(self.files),
            "error": self.error,
            "state_errors": dict(self.state_errors),
        }


@dataclass(frozen=True, slots=True)
class CutOut:
    """A state that was taken out of a frame before it was parsed."""

    pieces: list[bytes | bytearray]


def failed(error: str, exit_code: int = 1, stdout: str = "", stderr: str = "") -> REPLResponse:
    """A request that did not get to its end."""
    return REPLResponse(stdout=stdout, stderr=stderr, exit_code=exit_code, error=error)


def read_response(message: Any, state_limit: int) -> REPLResponse:
    """A response that came over the wire. Raises `ProtocolError` for what is none."""
    if type(message) is not dict:
        raise ProtocolError("the server's response is not an object")
    state = message.get("state")
    return REPLResponse(
        stdout=_text(message, "stdout"),
        stderr=_text(message, "stderr"),
        exit_code=_status(message.get("exit_code")),
        state=None if state is None else _state(state, state_limit),
        files=_files(message.get("files", [])),
        error=_optional_text(message, "error"),
        state_errors=_reasons(message.get("state_errors")),
    )


def _refuse(name: str, what: str) -> ProtocolError:
    return ProtocolError(f"the server's response has a {name!r} that is {what}")


def _text(message: dict[str, Any], name: str) -> str:
    value = message.get(name)
    if type(value) is not str:
        raise _refuse(name, "not text")
    return value


def _optional_text(message: dict[str, Any], name: str) -> str | None:
    if message.get(name) is None:
        return None
    return _text(message, name)[:LONGEST_ERROR]


def _state(value: Any, limit: int) -> str:
    if type(value) is str:
        return checked_text([value.encode("utf-8", "replace")], limit)
    if type(value) is not CutOut:
        raise _refuse("state", "not text")
    return checked_text(value.pieces, limit)


def _status(value: Any) -> int:
    if type(value) is not int or not -(1 << 31) <= value < 1 << 32:
        raise _refuse("exit_code", "not a status")
    return value


def _files(value: Any) -> tuple[str, ...]:
    """Relative paths that stay below the working folder: a careless host may open them."""
    if type(value) is not list or len(value) > MOST_FILES:
        raise _refuse("files", "not a list of a bounded size")
    for path in value:
        if type(path) is not str or not 0 < len(path) <= LONGEST_PATH or "\0" in path:
            raise _refuse("files", "not a list of paths")
        if path.startswith("/") or ".." in path.split("/"):
            raise _refuse("files", "not a list of paths below the working folder")
    return tuple(value)


def _reasons(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if type(value) is not dict or len(value) > MOST_ERRORS:
        raise _refuse("state_errors", "not an object of a bounded size")
    if not all(type(reason) is str for reason in value.values()):
        raise _refuse("state_errors", "not text by name")
    return {name[:1000]: reason[:1000] for name, reason in value.items()}


def response_of(result: SandboxResult) -> REPLResponse:
    """A cell that ran behind a wall, as the REPL server would have answered it."""
    stdout, stderr = result.stdout, result.stderr
    if result.value is not None:
        stdout += result.value + "\n"
    raised = result.exception
    if raised is not None:
        if not raised.traceback.startswith("Traceback"):  # it was never run
            said = f"{raised.type}: {raised.message} (line {raised.line})"
            stderr = stderr.removesuffix(raised.traceback) + said
        stderr = stderr.removesuffix("\n")
    return REPLResponse(
        stdout=stdout,
        stderr=stderr,
        exit_code=result.exit_code,
        files=tuple(sorted({*result.files_created, *result.files_modified})),
        error=result.error,
    )
