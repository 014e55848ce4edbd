"""Variables as one text: base64 of an LZ4 frame around one pickled dict, which anything with lz4 and cloudpickle reads.

Both packages are optional. Without lz4 the frame holds its blocks as they are, which every reader of LZ4 takes;
without cloudpickle, functions of cells are still written, and what needs it is named.
"""

from __future__ import annotations

import sys

from cloche_guest.cell_objects import Apply
from cloche_guest.codes import StateError
from cloche_guest.namespace import is_variable
from cloche_guest.pickling import picklers, reason
from cloche_guest.pieces import LARGE, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generator, Iterator

MAGIC = b"\x04\x22\x4d\x18"
PLAIN_FRAME = MAGIC + b"\x60\x70\x73"  # independent blocks of up to 4 MB, no sums; the last byte checks the two before
PLAIN_BLOCK = 1 << 22
STORED = 1 << 31  # in the size of a block: it was not compressed
CHUNK = 1 << 22


def save(
    names: dict[str, Any], wanted: list[str], limit: int, partial: bool
) -> tuple[list[bytes] | None, list[list[str]]]:
    """(the text in pieces, in ASCII; [name, reason] of what could not be saved).

    Without `partial` all or nothing: the text is None when anything fails, and the one entry says why.
    """
    # As they are now: code of one that is saved may change the others.
    chosen = {name: names[name] for name in wanted if not is_left_out(name, names[name])}
    try:
        text = _encode(names, chosen)
    except KeyboardInterrupt:  # the deadline
        raise
    except BaseException as exc:
        if not partial:
            return None, [["", reason(exc, False)]]
    else:
        size = sum(map(len, text))
        if size <= limit:
            return text, []
        if not partial:
            return None, [["", "the state has %d bytes, and the limit is %d" % (size, limit)]]
    return _save_what_can_be(names, chosen, limit)


def _save_what_can_be(
    names: dict[str, Any], chosen: dict[str, Any], limit: int
) -> tuple[list[bytes] | None, list[list[str]]]:
    errors: list[list[str]] = []
    sizes: dict[str, int] = {}
    for name, value in chosen.items():
        why = _measure(names, name, value, sizes)
        if why is not None:
            errors.append([name, why])
    # The smallest first: one large variable costs only itself.
    kept: list[str] = []
    total = 0
    for name in sorted(sizes, key=sizes.__getitem__):
        if total + sizes[name] <= limit:
            total += sizes[name]
            kept.append(name)
        else:
            errors.append([name, _too_large(sizes[name], total, limit)])
    left = frozenset(kept)
    kept = [name for name in chosen if name in left]
    while True:
        try:
            text = _encode(names, {name: chosen[name] for name in kept})
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # each could be written alone: an object with a will of its own
            errors.extend([name, reason(exc, False)] for name in kept)
            return _encode(names, {}), errors
        size = sum(map(len, text))
        if size <= limit or not kept:
            return (text, errors) if size <= limit else (None, errors)
        largest = max(kept, key=sizes.__getitem__)
        kept.remove(largest)
        errors.append([largest, _too_large(sizes[largest], size - sizes[largest], limit)])


def _measure(names: dict[str, Any], name: str, value: Any, sizes: dict[str, int]) -> str | None:
    """Why a variable cannot be saved, if so."""
    try:
        sizes[name] = sum(map(len, _encode(names, {name: value})))
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        return reason(exc, False)
    return None


def _too_large(size: int, beside: int, limit: int) -> str:
    return "it has %d bytes; the state may hold %d, and %d are taken" % (size, limit, max(beside, 0))


def load(names: dict[str, Any], text: str | bytes | bytearray, reserved: dict[str, Any]) -> list[str]:
    """Put saved variables back, all or none. Their names."""
    before = frozenset(names)
    try:
        found = _unpickle(text.encode("utf-8", "replace") if isinstance(text, str) else text)
    except (KeyboardInterrupt, StateError):  # the deadline; or it was not even read
        raise
    except BaseException as exc:
        for name in [name for name in names if name not in before]:
            del names[name]
        if isinstance(exc, ModuleNotFoundError):
            raise StateError("the state needs the package %s, which is not installed here" % (exc.name,)) from None
        raise StateError("the state is damaged, or was made elsewhere: %s" % reason(exc)) from None
    if type(found) is not dict or not all(type(name) is str for name in found):
        raise StateError("the state holds %s, not variables by their names" % type(found).__name__)
    restored = []
    for name, value in found.items():
        if is_variable(name) and name not in reserved:
            names[name] = value
            restored.append(name)
    return restored


def is_left_out(name: str, value: Any) -> bool:
    """Whether a variable is no part of any state: private, a module, a builtin's own, a generator, an open file."""
    if name.startswith("_"):
        return True
    kind = type(value)  # never asked of the object itself
    if issubclass(kind, type(sys)) or issubclass(kind, _generators()):
        return True
    if issubclass(kind, _open_files()):
        return True
    import builtins

    return builtins.__dict__.get(name, names_nothing) is value


names_nothing = object()


def _generators() -> tuple[type, ...]:
    import types

    return types.GeneratorType, types.AsyncGeneratorType, types.CoroutineType


def _open_files() -> tuple[type, ...]:
    """What stands for an open file. Texts and bytes that only look like one (StringIO, BytesIO) can be saved."""
    import io

    kinds: list[type] = [io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair]
    kinds.append(io.TextIOWrapper)
    tempfile: Any = sys.modules.get("tempfile")
    if tempfile is not None and type(getattr(tempfile, "_TemporaryFileWrapper", None)) is type:
        kinds.append(tempfile._TemporaryFileWrapper)
    return tuple(kinds)


# -- the text ----------------------------------------------------------------------------------
#
# In pieces all the way: a state of a hundred megabytes is never copied as a whole, neither here nor there.


class _Stream(Stream):
    """Takes large buffers as they are handed over in the stream, too."""

    def write(self, data: Any) -> int:
        if type(data) is not bytes:
            data = memoryview(data).cast("B")
            data = data if len(data) >= LARGE else bytes(data)
        return Stream.write(self, data)


class _Bound:
    """A variable that is there for the code of those after it while they are read: a hash, a constructor."""

    def __init__(self, name: str, value: Any) -> None:
        self._name, self._value = name, value

    def __reduce__(self) -> tuple[Any, ...]:
        return _bind, (self._name, self._value)


_bind = Apply(
    "(lambda name, value: (__import__('sys').modules['__main__'].__dict__.setdefault(name, value), value)[1])"
)


def _encode(names: dict[str, Any], values: dict[str, Any]) -> list[bytes]:
    """Pieces of base64, to be sent one after the other."""
    stream = _Stream()
    if any(_has_code(type(value)) for value in values.values()):
        values = {name: _Bound(name, value) for name, value in values.items()}
    picklers(names)(stream).dump(values)
    return list(_in_base64(_packed(stream.pieces())))


def _has_code(kind: Any) -> bool:
    """Whether a variable of this type may bring code of a cell along: a function, a class, or an object of one."""
    return issubclass(kind, (type, type(_has_code))) or kind.__module__ == "__main__"


def _in_base64(parts: Iterator[bytes]) -> Iterator[bytes]:
    from binascii import b2a_base64

    left = b""
    for part in parts:
        data = left + part if left else part
        whole = len(data) - len(data) % 3
        left = bytes(data[whole:])
        if whole:
            yield b2a_base64(data[:whole] if left else data, newline=False)
    if left:
        yield b2a_base64(left, newline=False)


def _packed(pieces: list[Any]) -> Iterator[bytes]:
    try:
        import lz4.frame
    except ImportError:
        yield PLAIN_FRAME
        for piece in pieces:
            for start in range(0, len(piece), PLAIN_BLOCK):
                block = piece[start : start + PLAIN_BLOCK]
                yield (len(block) | STORED).to_bytes(4, "little") + block
        yield bytes(4)
        return
    with lz4.frame.LZ4FrameCompressor() as compressor:
        yield compressor.begin(sum(map(len, pieces)))
        for piece in pieces:
            yield compressor.compress(piece)
        yield compressor.flush()


def _unpickle(text: bytes | bytearray) -> Any:
    """What a state holds. One that was not compressed at all is taken as well."""
    import io
    import pickle

    chunks = _unpacked(_from_base64(text))

    class Unpacked(io.RawIOBase):
        left = memoryview(b"")

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            while not self.left:
                chunk = next(chunks, None)
                if chunk is None:
                    return 0
                self.left = memoryview(chunk)
            size = min(len(buffer), len(self.left))
            buffer[:size] = self.left[:size]
            self.left = self.left[size:]
            return size

    try:
        return pickle.Unpickler(io.BufferedReader(Unpacked(), CHUNK)).load()
    finally:
        chunks.close()  # a class is garbage only when somebody looks for cycles; the text must not wait for that


def _from_base64(text: bytes | bytearray) -> Iterator[bytes]:
    if any(mark in text for mark in (b"\n", b"\r", b" ")):  # which some writers put in
        text = text.translate(None, b"\r\n ")
    with memoryview(text) as view:
        for start in range(0, len(view), CHUNK):
            yield _decoded(view[start : start + CHUNK])


def _decoded(text: memoryview) -> bytes:
    import binascii

    try:
        return binascii.a2b_base64(text)
    except binascii.Error as exc:
        raise StateError("the state is not base64: %s" % exc) from None


def _unpacked(parts: Iterator[bytes]) -> Generator[bytes, None, None]:
    first = b""
    for part in parts:
        first += part
        if len(first) >= len(PLAIN_FRAME):
            break
    if not first:
        raise StateError("the state is empty")
    if first[:4] != MAGIC:
        if first[:1] != b"\x80":
            raise StateError("the state is neither an LZ4 frame nor a pickle")
        yield first
        yield from parts
        return
    try:
        import lz4.frame
    except ImportError:
        yield from _unpacked_plain(first + b"".join(parts))
        return
    decompressor = lz4.frame.LZ4FrameDecompressor()
    yield _decompressed(decompressor, first)
    for part in parts:
        if decompressor.eof:
            return
        yield _decompressed(decompressor, part)
    if not decompressor.eof:
        raise StateError("the state is damaged: it is cut short")


def _decompressed(decompressor: Any, part: bytes) -> bytes:
    try:
        unpacked: bytes = decompressor.decompress(part)
    except RuntimeError as exc:
        raise StateError("the state is damaged: %s" % exc) from None
    return unpacked


def _unpacked_plain(data: bytes) -> Iterator[bytes]:
    """A frame of blocks that were not compressed."""
    flags = data[4] if len(data) > 4 else 0
    start = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    while True:
        if start + 4 > len(data):
            raise StateError("the state is cut short")
        size = int.from_bytes(data[start : start + 4], "little")
        start += 4
        if size == 0:
            return
        if not size & STORED:
            raise StateError("the state is compressed, and the package lz4 is not installed here: pip install lz4")
        block = data[start : start + (size & ~STORED)]
        if len(block) < size & ~STORED:
            raise StateError("the state is cut short")
        yield block
        start += len(block) + (4 if flags & 0x10 else 0)
