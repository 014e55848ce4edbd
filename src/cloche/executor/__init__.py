"""Code in, result and state out: REPL servers that are warm when a request comes, one for each."""

from __future__ import annotations

from cloche.errors import ExecutionTimeoutError
from cloche.executor.executor import REPLExecutor, REPLHealth
from cloche.executor.process import ServerProcess
from cloche.executor.response import REPLRequest, REPLResponse
from cloche.executor.settings import REPLSettings

__all__ = [
    "ExecutionTimeoutError",
    "REPLExecutor",
    "REPLHealth",
    "REPLRequest",
    "REPLResponse",
    "REPLSettings",
    "ServerProcess",
]
