"""Structured log events of the execution life cycle: structlog where it is configured, else standard logging."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any, Protocol

from cloche.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloche.policy import ExecutionPolicy
    from cloche.result import SandboxResult


class EventSink(Protocol):
    """Anything that takes an event and keyword fields, as structlog's loggers do."""

    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...


class StandardSink:
    """Events through `logging`: the message is ``event key=value ...``, the fields are in ``record.cloche``."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def listens(self) -> bool:
        """Whether an ordinary event would reach anybody."""
        return self._logger.isEnabledFor(logging.INFO)

    def _log(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            text = " ".join(f"{key}={json.dumps(value, default=str)}" for key, value in fields.items())
            self._logger.log(level, "%s %s", event, text, extra={"cloche": {"event": event, **fields}})

    def info(self, event: str, **fields: Any) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._log(logging.WARNING, event, fields)


def _default_sink() -> EventSink:
    """structlog when the application has configured it, the standard library's logging otherwise.

    structlog's own default prints to standard output, which belongs to the application. And it is not imported
    here: an application that uses it has done so.
    """
    structlog = sys.modules.get("structlog")
    if structlog is not None and structlog.is_configured():
        sink: EventSink = structlog.get_logger("cloche")
        return sink
    logger = logging.getLogger("cloche")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # a library is silent until somebody listens
    return StandardSink(logger)


def as_sandbox_logger(given: Any) -> SandboxLogger:
    """What a sandbox logs with: what it was given, or a logger of its own."""
    if given is not None and not hasattr(given, "log_execution_complete"):
        raise PolicyError(
            f"logger must be a SandboxLogger, not {type(given).__name__}",
            field="logger",
            remedy="logger=SandboxLogger(your_logger)",
        )
    logger: SandboxLogger = given or SandboxLogger()
    return logger


class SandboxLogger:
    """Receives the events of a sandbox. Subclass it, or hand it any logger that takes keyword fields."""

    def __init__(self, sink: EventSink | logging.Logger | None = None) -> None:
        self._sink: EventSink | None = StandardSink(sink) if isinstance(sink, logging.Logger) else sink

    @property
    def sink(self) -> EventSink:
        """Where the events go; chosen at first use."""
        if self._sink is None:
            self._sink = _default_sink()
        return self._sink

    def _listens(self) -> bool:
        """Building the fields costs more than dropping them."""
        sink = self.sink
        return not isinstance(sink, StandardSink) or sink.listens()

    def log_execution_start(self, runtime: str, policy: ExecutionPolicy, **fields: Any) -> None:
        """A cell is about to run."""
        if not self._listens():
            return
        self.sink.info(
            "execution.start",
            runtime=runtime,
            fuel_budget=policy.fuel_budget,
            memory_bytes=policy.memory_bytes,
            timeout_ms=policy.timeout_ms,
            **fields,
        )

    def log_execution_complete(self, result: SandboxResult) -> None:
        """A cell has a result."""
        if not self._listens():
            return
        self.sink.info(
            "execution.complete",
            success=result.success,
            outcome=result.outcome,
            duration_ms=round(result.duration_ms, 3),
            fuel_consumed=result.fuel_consumed,
            memory_used_bytes=result.memory_used_bytes,
            session_state=result.session_state,
        )

    def log_security_event(self, event_type: str, **fields: Any) -> None:
        """A limit was hit or a boundary was tried: ``security.<event_type>``."""
        self.sink.warning(f"security.{event_type}", event_type=event_type, **fields)

    def log_session_event(self, event_type: str, **fields: Any) -> None:
        """A session started, was lost, was reset or was destroyed: ``session.<event_type>``."""
        self.sink.info(f"session.{event_type}", **fields)

    def log_file_event(self, event_type: str, **fields: Any) -> None:
        """A file was put into or taken out of a workspace: ``file.<event_type>``."""
        self.sink.info(f"file.{event_type}", **fields)
