"""What can be asked of a session: how each request is put on the wire, and what its reply means."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from cloche.errors import ProtocolError, RequestError, SnapshotError, ValueTransferError
from cloche.session import replies
from cloche.session.machine import Call, Finished
from cloche.session.plain_data import NotPlain, encode_plain
from cloche.snapshot import Skipped, Snapshot, SnapshotPiece, assemble, disassemble
from cloche_guest.codes import BAD_STATE, TOO_LARGE
from cloche_guest.values import TooLarge, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloche.session.witness import Witness

T = TypeVar("T")

BODY_CHUNK = 1 << 18
_TEXT_HEADER = sys.getsizeof("\u0100") - 4  # a string of one two-byte character: header, character, terminator


class Operation(ABC, Generic[T]):
    """A request other than a cell."""

    name: str
    changes_state: ClassVar[bool] = False
    """Whether the session's variables are others afterwards."""

    @abstractmethod
    def call(self) -> Call:
        """The request."""

    @abstractmethod
    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> T:
        """The meaning of a good reply."""

    def tell(self, witness: Witness) -> None:
        """Say what was done."""

    def refuse(self, error: dict[str, Any]) -> Exception:
        """The meaning of an error reply."""
        if error["code"] == TOO_LARGE:
            return ValueTransferError(
                f"{self.name}: {error['message']}", remedy="raise policy.value_max_bytes, or take a part"
            )
        if error["code"] == BAD_STATE:
            return SnapshotError(error["message"])
        return RequestError(f"{self.name}: {error['message']}")


@dataclass(slots=True)
class SetContext(Operation[None]):
    """Bind `context`."""

    changes_state: ClassVar[bool] = True
    context: Any
    limit: int
    name: str = "initialize"

    def check(self) -> None:
        """Refuse what cannot cross the wall, before anything is changed. A text always can."""
        if type(self.context) is not str:
            self.call()

    def call(self) -> Call:
        call = context_call(self.context, self.limit)
        return Call("context", call.params, call.body_size, call.body)

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> None:
        return None


@dataclass(slots=True)
class Validate(Operation[bool]):
    """Compile, never run."""

    code: str
    name: str = "validate_code"

    def call(self) -> Call:
        return Call("validate", {"code": self.code})

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> bool:
        return replies.field(result, "valid", bool, False)


@dataclass(slots=True)
class GetVariable(Operation[Any]):
    """Read a variable."""

    variable: str
    default: Any
    name: str = "get_variable"

    def call(self) -> Call:
        return Call("get_variable", {"name": self.variable})

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> Any:
        if not replies.field(result, "found", bool, False):
            return self.default
        try:
            return decode(result.get("value"))
        except (ValueError, RecursionError, OverflowError) as exc:
            raise ValueTransferError(f"the value of {self.variable!r} cannot be read", cause=str(exc)[:200]) from None


@dataclass(slots=True)
class SetVariable(Operation[None]):
    """Bind a variable."""

    changes_state: ClassVar[bool] = True
    variable: str
    value: Any
    limit: int
    name: str = "set_variable"

    def call(self) -> Call:
        return Call("set_variable", {"name": self.variable, "value": outgoing(self.value, self.limit, self.variable)})

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> None:
        return None

    def tell(self, witness: Witness) -> None:
        witness.variable_set(self.variable, self.value)


@dataclass(slots=True)
class ListVariables(Operation[dict[str, str]]):
    """Names and type names of the user's variables."""

    name: str = "list_variables"

    def call(self) -> Call:
        return Call("list_variables")

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> dict[str, str]:
        return dict(replies.names_and_reasons(result, "variables"))


@dataclass(slots=True)
class Complete(Operation[list[str]]):
    """Completions of a dotted name."""

    text: str
    name: str = "complete"

    def call(self) -> Call:
        return Call("complete", {"text": self.text})

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> list[str]:
        return replies.strings(result, "matches")


@dataclass(slots=True)
class TakeSnapshot(Operation[Snapshot]):
    """Save the variables; with a base, send only what has changed since."""

    limit: int
    base: Snapshot | None = None
    name: str = "snapshot"
    _held: dict[str, SnapshotPiece] = field(init=False, default_factory=dict)

    def call(self) -> Call:
        if self.base is not None:
            self._held = self.base.held()
        return Call("snapshot", {"limit": self.limit, "held": list(self._held)})

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> Snapshot:
        skipped = tuple(Skipped(name, reason) for name, reason in replies.names_and_reasons(result, "skipped"))
        data = memoryview(attachment or b"").toreadonly()
        try:
            entries = assemble(replies.field(result, "entries", list, []), data, self._held)
        except (KeyError, TypeError, ValueError) as exc:
            raise ProtocolError("the guest's snapshot is not what it lists", cause=str(exc)[:200]) from None
        snapshot = Snapshot(entries, skipped, replies.text(result, "python")[:40], len(data))
        if snapshot.size > self.limit:  # it may name the same piece over and over
            raise ProtocolError("the guest's snapshot is too large", cause=f"{snapshot.size} bytes of {self.limit}")
        return snapshot


@dataclass(slots=True)
class Restore(Operation[tuple[Skipped, ...]]):
    """Put saved variables back; what could not be read here is reported."""

    changes_state: ClassVar[bool] = True
    snapshot: Snapshot
    limit: int
    name: str = "restore"

    def call(self) -> Call:
        size = self.snapshot.size
        if size > self.limit:
            raise SnapshotError(
                f"the snapshot has {size} bytes, and this sandbox takes {self.limit}",
                remedy="raise snapshot_max_bytes in its policy",
            )
        body = (part for piece in self.snapshot.pieces() for part in slices(piece.data))
        return Call("restore", {"entries": disassemble(self.snapshot.entries)}, size, body)

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> tuple[Skipped, ...]:
        return tuple(Skipped(name, reason) for name, reason in replies.names_and_reasons(result, "failed"))

    def tell(self, witness: Witness) -> None:
        witness.restored(self.snapshot)


@dataclass(frozen=True, slots=True)
class GuestVersions:
    """What a session runs on."""

    python: str
    implementation: str
    platform: str
    packages: Mapping[str, str]
    """Imported packages and their versions, by the names under which they are imported."""


@dataclass(slots=True)
class Versions(Operation[GuestVersions]):
    """Interpreter and imported packages."""

    name: str = "versions"

    def call(self) -> Call:
        return Call("versions")

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> GuestVersions:
        python, implementation, platform = (
            replies.text(result, name)[:100] for name in ("python", "implementation", "platform")
        )
        packages = replies.names_and_reasons(result, "packages")[:1000]
        return GuestVersions(python, implementation, platform, dict(packages))


@dataclass(slots=True)
class Ping(Operation[None]):
    """Is the guest there?"""

    name: str = "ping"

    def call(self) -> Call:
        return Call("ping")

    def read(self, result: dict[str, Any], attachment: bytes | bytearray | None) -> None:
        return None


def read_reply(operation: Operation[T], finished: Finished) -> T:
    """The value of an operation whose guest lives."""
    if finished.error is not None:
        raise operation.refuse(finished.error)
    # Given away: a session that idles does not hold its last state until somebody asks for the next thing.
    result, finished.result = finished.result, None
    attachment, finished.attachment = finished.attachment, None
    return operation.read(result or {}, attachment)


def outgoing(value: Any, limit: int, what: str) -> Any:
    """A host value as wire data. What would arrive as a mere description is refused instead."""
    try:
        return encode_plain(value, limit)[0]
    except NotPlain as exc:
        raise ValueTransferError(
            f"{what}{exc}", remedy="pass plain data (str, numbers, lists, dicts, bytes, datetime...), or a file"
        ) from None
    except TooLarge as exc:
        raise ValueTransferError(
            f"{what}: {exc}", remedy="raise policy.value_max_bytes, or pass it as a file"
        ) from None


def context_call(context: Any, limit: int) -> Call:
    """`context` as the parameters and body of a request. Text goes as raw bytes, by its own width, in chunks."""
    if context is None:
        return Call("context", {"none": True})
    if type(context) is not str:
        return Call("context", {"value": outgoing(context, limit, "context")})
    encoding, size = _natural_encoding(context)
    return Call("context", {"encoding": encoding}, size, _encoded_chunks(context, encoding))


def _natural_encoding(text: str) -> tuple[str, int]:
    """The encoding in which a string lies in memory already, and its size: encoding is then a copy."""
    if text.isascii():
        return "ascii", len(text)
    width = (sys.getsizeof(text) - _TEXT_HEADER) // (len(text) + 1)
    if width >= 4:
        # most such text is far smaller in UTF-8 than at four bytes a character
        return "utf-8", len(text.encode("utf-8", "surrogatepass"))
    if width >= 2:  # also 3: a string that carries a cached UTF-8 form looks wider than it is
        return "utf-16-le", 2 * len(text)
    return "latin-1", len(text)


def _encoded_chunks(text: str, encoding: str) -> Iterator[bytes]:
    errors = "strict" if encoding in ("ascii", "latin-1") else "surrogatepass"
    for start in range(0, len(text), BODY_CHUNK):
        yield text[start : start + BODY_CHUNK].encode(encoding, errors)


def slices(data: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """The body of a request, in pieces."""
    for start in range(0, len(data), BODY_CHUNK):
        yield data[start : start + BODY_CHUNK]
