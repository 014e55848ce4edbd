"""Numbers that both ends of the wire know, and the failures that are answered with one."""

from __future__ import annotations

PROTOCOL = 1

METHOD_NOT_FOUND = -32601
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
INTERRUPTED = -32001
TOO_LARGE = -32002
BAD_STATE = -32003
CANNOT_BRANCH = -32004


class RequestFailed(Exception):
    """Answered as a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        Exception.__init__(self, message)
        self.code = code


class StateError(ValueError):
    """Something is no state, or no part of one; what it says is for the user as it is."""
