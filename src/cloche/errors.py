"""Every error that Cloche raises, in one tree.

::

    ClocheError
    ├── RequestError              the request was wrong; the session is as it was
    │   ├── PolicyError           (ValueError) a policy or configuration value is wrong
    │   ├── UnknownBackendError   (LookupError) no backend has that name
    │   ├── UnsupportedError      this backend cannot do that
    │   ├── ReentrantCallError    a bridge callback called into its own session
    │   ├── BusyError             another call held the session until our deadline
    │   ├── WorkspaceFileError    (OSError) a workspace path is wrong, missing or not a plain file
    │   ├── SnapshotError         a snapshot could not be made or read
    │   ├── BranchError           the session cannot be branched, marked or taken back now
    │   ├── QuotaError            this owner has used up what it may use
    │   ├── UnknownSessionError   (LookupError) there is no such session, or it is another owner's
    │   ├── UnknownEntryError     (LookupError) a store has nothing under that key of that owner
    │   ├── ConflictError         somebody else has written meanwhile; nothing was overwritten
    │   ├── DamagedEntryError     what a store holds is not what was written to it
    │   ├── SessionFileError      a session file is damaged, too large, or not one
    │   ├── PatternError          (ValueError) a pattern is wrong, or needs what a linear engine does not have
    │   ├── LookError             (ValueError) a look was asked for in a way that has no meaning
    │   ├── SourceError           (LookupError) there is no such text, or it may not be seen
    │   ├── PrematureFinalError   (ValueError) an answer before the context was looked at
    │   └── ValueTransferError    (ValueError) a value cannot cross the wall
    ├── SessionError              the session is not what it was
    │   ├── SessionClosedError    destroy() was called
    │   ├── SessionLostError      the guest died or was killed; the next call starts afresh
    │   ├── CallTimeoutError      (TimeoutError) a call other than a cell passed its deadline
    │   └── ProtocolError         the guest broke the protocol and was killed
    ├── MachineError              this machine cannot
    │   ├── BackendUnavailableError
    │   │   └── BinaryMissingError  (FileNotFoundError) the WebAssembly binary is not there
    │   ├── IsolationError        the demanded isolation cannot be had
    │   ├── AdmissionError        the pool is full and stayed so
    │   ├── StoreError            a store cannot be reached or written
    │   └── StartError            the guest did not come up
    └── ExecutionError            raised by ``SandboxResult.check()``; carries ``.result``
        ├── CodeError             the code raised
        └── ExecutionTimeoutError (TimeoutError) the code ran out of time

``code`` is a stable word for programs, ``cause`` says why, ``remedy`` is the next thing to type or change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from cloche.result import SandboxResult


class ClocheError(Exception):
    """Root of all errors raised by Cloche."""

    code: ClassVar[str] = "cloche_error"

    def __init__(self, message: str, *, cause: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        text = self.message
        if self.cause:
            text += f" ({self.cause})"
        if self.remedy:
            text += f"\n  remedy: {self.remedy}"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        # By default an exception is made anew from its positional arguments, and ours have others.
        return _restore, (type(self), self.args), self.__dict__


def _restore(kind: type[ClocheError], args: tuple[Any, ...]) -> ClocheError:
    """An error that crosses a process border, as in pools and test runners."""
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class RequestError(ClocheError):
    """The request was wrong; nothing was changed."""

    code = "bad_request"


class PolicyError(RequestError, ValueError):
    """A policy or configuration value is wrong; ``field`` names it."""

    code = "bad_policy"

    def __init__(
        self, message: str, *, field: str | None = None, cause: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, cause=cause, remedy=remedy)
        self.field = field


class UnknownBackendError(RequestError, LookupError):
    """No backend of that name is registered."""

    code = "unknown_backend"


class UnsupportedError(RequestError):
    """The backend cannot do this; ``capability`` names what is missing."""

    code = "unsupported"

    def __init__(self, message: str, *, capability: str, cause: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message, cause=cause, remedy=remedy)
        self.capability = capability


class ReentrantCallError(RequestError):
    """A bridge callback called into the session that is waiting for it."""

    code = "reentrant_call"


class BusyError(RequestError):
    """Another call held the session until this one's deadline."""

    code = "busy"


class WorkspaceFileError(RequestError, OSError):
    """A workspace path is wrong, missing, or not a plain file."""

    code = "workspace_file"


class SnapshotError(RequestError):
    """A snapshot could not be made, or is not one of ours."""

    code = "snapshot"


class BranchError(RequestError):
    """The session cannot be branched, marked or taken back now; nothing was changed."""

    code = "branch"


class ValueTransferError(RequestError, ValueError):
    """A value cannot cross the wall (too large, too deep, or of a kind that does not travel)."""

    code = "value_transfer"


class PatternError(RequestError, ValueError):
    """A pattern to search for is wrong, or needs what an engine of linear time does not have: ``feature`` names it."""

    code = "pattern"

    def __init__(
        self,
        message: str,
        *,
        pattern: str = "",
        feature: str | None = None,
        cause: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, cause=cause, remedy=remedy)
        self.pattern = pattern
        self.feature = feature


class QuotaError(RequestError):
    """The owner has used up what it may use; ``quota`` names which."""

    code = "quota"

    def __init__(self, message: str, *, quota: str, cause: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message, cause=cause, remedy=remedy)
        self.quota = quota


class UnknownSessionError(RequestError, LookupError):
    """There is no session of that id for whoever asks."""

    code = "unknown_session"


class UnknownEntryError(RequestError, LookupError):
    """A store has nothing under that key for whoever asks."""

    code = "unknown_entry"


class ConflictError(RequestError):
    """Somebody else has written meanwhile: nothing was overwritten. ``found`` is the version that is there now."""

    code = "conflict"

    def __init__(
        self,
        message: str,
        *,
        expected: str | None = None,
        found: str | None = None,
        cause: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, cause=cause, remedy=remedy)
        self.expected = expected
        self.found = found


class DamagedEntryError(RequestError):
    """What a store holds is not what was written to it: truncated, altered, or gone in part."""

    code = "damaged_entry"


class SessionFileError(RequestError):
    """A session file is damaged, too large, newer than this version, or not one at all."""

    code = "session_file"


class LookError(RequestError, ValueError):
    """A look at a text was asked for in a way that has no meaning."""

    code = "bad_look"


class SourceError(RequestError, LookupError):
    """There is no such text, or it may not be seen."""

    code = "no_source"


class PrematureFinalError(RequestError, ValueError):
    """An answer before the context was looked at."""

    code = "premature_final"


class SessionError(ClocheError):
    """The session is closed, lost, or out of step."""

    code = "session"


class SessionClosedError(SessionError):
    """destroy() was called on this sandbox."""

    code = "session_closed"


class SessionLostError(SessionError):
    """The guest is gone, and its variables with it. The next call starts a fresh session."""

    code = "session_lost"


class CallTimeoutError(SessionError, TimeoutError):
    """A call other than a cell passed its deadline; ``session_state`` says what became of the variables."""

    code = "call_timeout"

    def __init__(
        self, message: str, *, session_state: str, cause: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, cause=cause, remedy=remedy)
        self.session_state = session_state


class ProtocolError(SessionError):
    """The guest sent something that is not the protocol; it was killed."""

    code = "protocol"


class MachineError(ClocheError):
    """This machine cannot do what was asked."""

    code = "machine"


class BackendUnavailableError(MachineError):
    """The backend cannot run here; ``remedy`` says what would change that."""

    code = "backend_unavailable"


class BinaryMissingError(BackendUnavailableError, FileNotFoundError):
    """The WebAssembly binary of a session is not there; ``filename`` is where it was looked for."""

    code = "binary_missing"

    def __init__(
        self, message: str, *, filename: str | None = None, cause: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, cause=cause, remedy=remedy)
        self.filename = filename


class IsolationError(MachineError):
    """The demanded isolation cannot be had here; it is refused, not weakened."""

    code = "isolation"


class AdmissionError(MachineError):
    """The pool is full, and no place became free in time."""

    code = "admission"


class StoreError(MachineError):
    """A store cannot be reached, opened or written."""

    code = "store"


class StartError(MachineError):
    """The guest process did not come up."""

    code = "start"


class ExecutionError(ClocheError):
    """The code did not succeed; raised by ``SandboxResult.check()``."""

    code = "execution"

    def __init__(self, message: str, *, result: SandboxResult, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.result = result


class CodeError(ExecutionError):
    """The code raised an exception."""

    code = "code_error"


class ExecutionTimeoutError(ExecutionError, TimeoutError):
    """The code ran out of time."""

    code = "execution_timeout"
