"""Whoever keeps a record of a session: told of each thing that changes it, in order, by either driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloche.result import SandboxResult
    from cloche.snapshot import Snapshot


class Witness:
    """Every method does nothing unless it is overridden. None may call into the session."""

    def context_set(self, context: Any) -> None:
        """`initialize` has bound a context."""

    def variable_set(self, name: str, value: Any) -> None:
        """The host has bound a variable."""

    def file_put(self, path: str, data: bytes) -> None:
        """The host has put a file into the workspace."""

    def restored(self, snapshot: Snapshot) -> None:
        """The host has put saved variables back."""

    def was_reset(self) -> None:
        """The session is empty again."""

    def marked(self) -> None:
        """`savepoint()` has marked the state."""

    def undone(self) -> None:
        """`undo()` has returned to the mark."""

    def bridge_answered(
        self, name: str, args: list[Any], kwargs: dict[str, Any], value: Any, error: BaseException | None
    ) -> None:
        """A host function that a cell called has returned, raised, or run out of time. Items of a batch come singly."""

    def lost(self) -> None:
        """The guest has died outside of any cell, and the variables with it."""

    def cell_ended(self, result: SandboxResult, timeout_ms: int) -> None:
        """A cell has a result."""
