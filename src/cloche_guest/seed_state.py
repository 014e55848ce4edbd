"""Variables as one text: base64 of an LZ4 frame around one pickled dict, which anything with lz4 and cloudpickle reads.

Both packages are optional. Without lz4 the frame holds its blocks as they are, which every reader of LZ4 takes;
without cloudpickle, functions of cells are still written, and what needs it is named.
"""

from __future__ import annotations

import sys

from cloche_guest.pickling import make_pickler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = b"\x04\x22\x4d\x18"
PLAIN_FRAME = MAGIC + b"\x60\x70\x73"  # independent blocks of up to 4 MB, no sums; the last byte checks the two before
PLAIN_BLOCK = 1 << 22
STORED = 1 << 31  # in the size of a block: it was not compressed
LONGEST_REASON = 300


class BadState(ValueError):
    """This text is no state, or cannot be read here."""


def save(names: dict[str, Any], wanted: list[str], limit: int, partial: bool) -> tuple[bytes | None, list[list[str]]]:
    """(text, in ASCII; [name, reason] of what could not be saved).

    Without `partial` all or nothing: the text is None when anything fails, and the one entry says why.
    """
    chosen = [name for name in wanted if not is_left_out(name, names[name])]
    try:
        text = _encode(names, chosen)
    except KeyboardInterrupt:  # the deadline
        raise
    except BaseException as exc:
        if not partial:
            return None, [["", reason(exc)]]
    else:
        if len(text) <= limit:
            return text, []
        if not partial:
            return None, [["", "the state has %d bytes, and the limit is %d" % (len(text), limit)]]
    return _save_what_can_be(names, chosen, limit)


def _save_what_can_be(names: dict[str, Any], chosen: list[str], limit: int) -> tuple[bytes | None, list[list[str]]]:
    errors: list[list[str]] = []
    sizes: dict[str, int] = {}
    for name in chosen:
        why = _measure(names, name, sizes)
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
    kept.sort(key=chosen.index)
    while True:
        try:
            text = _encode(names, kept)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # each could be written alone: an object with a will of its own
            errors.extend([name, reason(exc)] for name in kept)
            return _encode(names, []), errors
        if len(text) <= limit or not kept:
            return (text, errors) if len(text) <= limit else (None, errors)
        largest = max(kept, key=sizes.__getitem__)
        kept.remove(largest)
        errors.append([largest, _too_large(sizes[largest], len(text) - sizes[largest], limit)])


def _measure(names: dict[str, Any], name: str, sizes: dict[str, int]) -> str | None:
    """Why a variable cannot be saved, if so."""
    try:
        sizes[name] = len(_encode(names, [name]))
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        return reason(exc)
    return None


def _too_large(size: int, beside: int, limit: int) -> str:
    return "it has %d bytes; the state may hold %d, and %d are taken" % (size, limit, max(beside, 0))


def load(names: dict[str, Any], text: str | bytes | bytearray, reserved: dict[str, Any]) -> list[str]:
    """Put saved variables back, all or none. Their names."""
    import pickle

    data = _unpack(text)
    try:
        found = pickle.loads(data)
    except KeyboardInterrupt:  # the deadline
        raise
    except BaseException as exc:
        if isinstance(exc, ModuleNotFoundError):
            raise BadState("the state needs the package %s, which is not installed here" % (exc.name,)) from None
        raise BadState("the state is damaged, or was made elsewhere: %s" % reason(exc, True)) from None
    if type(found) is not dict or not all(type(name) is str for name in found):
        raise BadState("the state holds %s, not variables by their names" % type(found).__name__)
    restored = []
    for name, value in found.items():
        if name not in reserved and not name.startswith("__"):
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


def reason(exc: BaseException, with_type: bool = False) -> str:
    """What went wrong, in one line."""
    try:
        text = str(exc)
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = ""
    if with_type or not text:
        text = "%s: %s" % (type(exc).__name__, text) if text else type(exc).__name__
    return text[:LONGEST_REASON]


# -- the text ----------------------------------------------------------------------------------


def _encode(names: dict[str, Any], chosen: list[str]) -> bytes:
    import binascii
    import io

    buffer = io.BytesIO()
    make_pickler(buffer, names).dump({name: names[name] for name in chosen})
    with buffer.getbuffer() as data:
        packed = _pack(data)
    del buffer
    return binascii.b2a_base64(packed, newline=False)


def _pack(data: memoryview) -> bytes:
    try:
        import lz4.frame
    except ImportError:
        parts: list[bytes | memoryview] = [PLAIN_FRAME]
        for start in range(0, len(data), PLAIN_BLOCK):
            block = data[start : start + PLAIN_BLOCK]
            parts += [(len(block) | STORED).to_bytes(4, "little"), block]
        parts.append(bytes(4))
        return b"".join(parts)
    packed: bytes = lz4.frame.compress(data)
    return packed


def _unpack(text: str | bytes | bytearray) -> bytes:
    """The pickled dict. One that was not compressed at all is taken as well."""
    import binascii

    try:
        data = binascii.a2b_base64(text.encode("ascii") if isinstance(text, str) else text)
    except (binascii.Error, ValueError) as exc:
        raise BadState("the state is not base64: %s" % exc) from None
    if not data:
        raise BadState("the state is empty")
    if data[:4] != MAGIC:
        if data[:1] != b"\x80":
            raise BadState("the state is neither an LZ4 frame nor a pickle")
        return data
    try:
        import lz4.frame
    except ImportError:
        return _unpack_plain(data)
    try:
        unpacked: bytes = lz4.frame.decompress(data)
    except MemoryError:
        raise
    except Exception as exc:
        raise BadState("the state is damaged: %s" % reason(exc)) from None
    return unpacked


def _unpack_plain(data: bytes) -> bytes:
    """A frame of blocks that were not compressed."""
    flags = data[4] if len(data) > 4 else 0
    start = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    parts: list[bytes] = []
    while True:
        if start + 4 > len(data):
            raise BadState("the state is cut short")
        size = int.from_bytes(data[start : start + 4], "little")
        start += 4
        if size == 0:
            return b"".join(parts)
        if not size & STORED:
            raise BadState("the state is compressed, and the package lz4 is not installed here: pip install lz4")
        block = data[start : start + (size & ~STORED)]
        if len(block) < size & ~STORED:
            raise BadState("the state is cut short")
        parts.append(block)
        start += len(block) + (4 if flags & 0x10 else 0)
