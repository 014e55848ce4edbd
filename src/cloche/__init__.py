"""Cloche runs Python that a language model wrote: sealed, warm, and in view."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloche.aio import AsyncSandbox
    from cloche.config import SandboxConfig, load_config
    from cloche.errors import (
        AdmissionError,
        BackendUnavailableError,
        BinaryMissingError,
        BranchError,
        BusyError,
        CallTimeoutError,
        ClocheError,
        CodeError,
        ConflictError,
        DamagedEntryError,
        ExecutionError,
        ExecutionTimeoutError,
        IsolationError,
        LookError,
        MachineError,
        PatternError,
        PolicyError,
        PrematureFinalError,
        ProtocolError,
        QuotaError,
        ReentrantCallError,
        RequestError,
        SessionClosedError,
        SessionError,
        SessionFileError,
        SessionLostError,
        SnapshotError,
        SourceError,
        StartError,
        StoreError,
        UnknownBackendError,
        UnknownEntryError,
        UnknownSessionError,
        UnsupportedError,
        ValueTransferError,
        WorkspaceFileError,
    )
    from cloche.executor import REPLExecutor, REPLHealth, REPLResponse, REPLSettings
    from cloche.factory import UNSET, backend_names, create_async_sandbox, create_sandbox, run
    from cloche.guardrails.unicode import Replacement, Sanitized, sanitize_code_unicode
    from cloche.guardrails.visitor import ASTSecurityVisitor, Violation
    from cloche.inprocess import InProcessSandbox
    from cloche.isolation import Isolation, Layer
    from cloche.jail import JailSandbox
    from cloche.logger import SandboxLogger
    from cloche.native import NativePythonSandbox
    from cloche.policy import ExecutionPolicy, Mount
    from cloche.pyodide import PyodideSandbox
    from cloche.remote import DaemonClientSandbox, DetachedSession
    from cloche.repl.aio import AsyncREPLEnvironment
    from cloche.repl.bench import Tool
    from cloche.repl.config import PromptConfig, REPLConfig
    from cloche.repl.environment import REPLEnvironment
    from cloche.repl.turn import HostCall, TurnResult
    from cloche.result import CodeExecution, Display, ExceptionInfo, SandboxResult, Usage
    from cloche.sandbox import BaseSandbox, SessionSandbox
    from cloche.session.callbacks import calling_sandbox
    from cloche.session.channel import Availability, Backend, Channel
    from cloche.session.copying import BranchCopy, WaitingCopy
    from cloche.session.operations import GuestVersions
    from cloche.session.text_operations import SavedText
    from cloche.session.witness import Witness
    from cloche.session.workspace import FileInfo
    from cloche.snapshot import Skipped, Snapshot, SnapshotEntry, SnapshotPiece
    from cloche.wasm import PythonSandbox, run_untrusted_python
    from cloche_guest.values import RemoteObject

__version__ = "0.1.0"

__all__ = [
    "UNSET", "ASTSecurityVisitor", "AdmissionError", "AsyncREPLEnvironment", "AsyncSandbox", "Availability", "Backend",
    "BackendUnavailableError", "BaseSandbox", "BinaryMissingError", "BranchCopy", "BranchError", "BusyError",
    "CallTimeoutError", "Channel", "ClocheError", "CodeError", "CodeExecution", "ConflictError", "DaemonClientSandbox",
    "DamagedEntryError", "DetachedSession", "Display", "ExceptionInfo", "ExecutionError", "ExecutionPolicy",
    "ExecutionTimeoutError", "FileInfo", "GuestVersions", "HostCall", "InProcessSandbox", "Isolation", "IsolationError",
    "JailSandbox", "Layer", "LookError", "MachineError", "Mount", "NativePythonSandbox", "PatternError", "PolicyError",
    "PrematureFinalError", "PromptConfig", "ProtocolError", "PyodideSandbox", "PythonSandbox", "QuotaError",
    "REPLConfig", "REPLEnvironment", "REPLExecutor", "REPLHealth", "REPLResponse", "REPLSettings", "ReentrantCallError",
    "RemoteObject", "Replacement", "RequestError", "SandboxConfig", "SandboxLogger", "SandboxResult", "Sanitized",
    "SavedText", "SessionClosedError", "SessionError", "SessionFileError", "SessionLostError", "SessionSandbox",
    "Skipped", "Snapshot", "SnapshotEntry", "SnapshotError", "SnapshotPiece", "SourceError", "StartError", "StoreError",
    "Tool", "TurnResult", "UnknownBackendError", "UnknownEntryError", "UnknownSessionError", "UnsupportedError",
    "Usage", "ValueTransferError", "Violation", "WaitingCopy", "Witness", "WorkspaceFileError", "__version__",
    "backend_names", "calling_sandbox", "create_async_sandbox", "create_sandbox", "load_config", "run",
    "run_untrusted_python", "sanitize_code_unicode",
]  # fmt: skip

_HOMES = {
    "aio": ("AsyncSandbox",),
    "config": ("SandboxConfig", "load_config"),
    "executor": ("REPLExecutor", "REPLHealth", "REPLResponse", "REPLSettings"),
    "factory": ("UNSET", "backend_names", "create_async_sandbox", "create_sandbox", "run"),
    "guardrails.unicode": ("Replacement", "Sanitized", "sanitize_code_unicode"),
    "guardrails.visitor": ("ASTSecurityVisitor", "Violation"),
    "inprocess": ("InProcessSandbox",),
    "isolation": ("Isolation", "Layer"),
    "jail": ("JailSandbox",),
    "logger": ("SandboxLogger",),
    "native": ("NativePythonSandbox",),
    "policy": ("ExecutionPolicy", "Mount"),
    "pyodide": ("PyodideSandbox",),
    "remote": ("DaemonClientSandbox", "DetachedSession"),
    "repl.aio": ("AsyncREPLEnvironment",),
    "repl.bench": ("Tool",),
    "repl.config": ("PromptConfig", "REPLConfig"),
    "repl.environment": ("REPLEnvironment",),
    "repl.turn": ("HostCall", "TurnResult"),
    "result": ("CodeExecution", "Display", "ExceptionInfo", "SandboxResult", "Usage"),
    "sandbox": ("BaseSandbox", "SessionSandbox"),
    "session.callbacks": ("calling_sandbox",),
    "session.channel": ("Availability", "Backend", "Channel"),
    "session.copying": ("BranchCopy", "WaitingCopy"),
    "session.operations": ("GuestVersions",),
    "session.text_operations": ("SavedText",),
    "session.witness": ("Witness",),
    "session.workspace": ("FileInfo",),
    "snapshot": ("Skipped", "Snapshot", "SnapshotEntry", "SnapshotPiece"),
    "wasm": ("PythonSandbox", "run_untrusted_python"),
}
_WHERE = {name: f"cloche.{module}" for module, names in _HOMES.items() for name in names}
_WHERE["RemoteObject"] = "cloche_guest.values"


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import cloche` stays quick, anyio is paid for by those who await."""
    if name not in __all__:
        raise AttributeError(f"module 'cloche' has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE.get(name, "cloche.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
