"""Saving and restoring variables, each on its own: what cannot be saved costs only itself.

The bytes are made and read here, inside the wall; the host carries them and never looks inside. A state is a list of
entries. An entry holds one variable, or several that share objects which can change: these come back sharing them.
Its stream is a pickle of the list of their values; large buffers (arrays, columns) lie beside it and are sent from
where they are. Streams and buffers are cut into pieces. A piece that the host has from an earlier save is named by
its digest instead of being sent.
"""

from __future__ import annotations

import sys

from cloche_guest.cell_objects import Apply
from cloche_guest.codes import StateError
from cloche_guest.namespace import is_variable
from cloche_guest.pickling import picklers, reason, reference
from cloche_guest.pieces import Stream, cut, digests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

    MakePickler = Callable[[Stream, Callable[[Any], bool]], Any]

LEAST_BUFFER = 1 << 14
MOST_REMEMBERED = 250_000
"""Objects. Looking for what is shared costs some hundred bytes for each."""

_BY_REFERENCE = (type, type(sys), type(len), Apply)
_FUNCTION = type(lambda: 0)


class _Entry:
    """Variables that are saved together."""

    def __init__(self, names: list[str], values: list[Any], make_pickler: MakePickler) -> None:
        self.names = names
        self.values = values
        self.types: list[str] = []
        self.buffers: list[tuple[bool, list[Any]]] = []
        stream = Stream()
        pickler = make_pickler(stream, self._keep)
        pickler.dump(values)
        self.pieces = stream.pieces()
        self.objects: dict[int, tuple[int, Any]] | None = None  # None: too many of them
        if stream.marks <= MOST_REMEMBERED:
            self.objects = pickler.memo.copy()
            del self.objects[id(values)]

    def _keep(self, buffer: Any) -> bool:
        """Whether a buffer is to be a part of the stream."""
        try:
            view = buffer.raw()
        except BufferError:  # not contiguous: only the pickler knows how to write that
            return True
        if view.nbytes < LEAST_BUFFER:
            return True
        self.buffers.append((view.readonly, cut(view)))
        return False

    def size(self) -> int:
        return sum(map(len, self.pieces)) + sum(len(piece) for _, pieces in self.buffers for piece in pieces)


def save(
    names: dict[str, Any], wanted: list[str], limit: int, held: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], list[Any]]:
    """(what there is, the pieces to send). `held` are digests of pieces that the host has."""
    make_pickler = picklers(names)
    skipped: list[list[str]] = []
    entries: list[_Entry] = []
    # As they are now: code of one that is saved may change the others.
    for name, value in [(name, names[name]) for name in wanted]:
        made = _try_entry([name], [value], make_pickler)
        if isinstance(made, _Entry):
            entries.append(made)
        else:
            skipped.append([name, made])
    total = 0
    sent: list[Any] = []
    listed: list[dict[str, Any]] = []
    for entry in _join_shared(entries, make_pickler):
        size = entry.size()
        if total + size > limit:
            text = "%d bytes; the snapshot may hold %d, and has %d" % (size, limit, total)
            skipped.extend([name, text] for name in entry.names)
            continue
        total += size
        listed.append(_list_pieces(entry, held, sent))
    return {"entries": listed, "skipped": skipped}, sent


def load(
    names: dict[str, Any], listed: Any, data: bytes | bytearray, reserved: dict[str, Any]
) -> tuple[list[str], list[list[str]]]:
    """Put saved variables back. ([names], [name, reason] of those that could not be read here)."""
    _check(listed, len(data))
    restored: list[str] = []
    failed: list[list[str]] = []
    pending = list(_cut_out(listed, memoryview(data)))
    while pending:
        again: list[_Parts] = []
        before = len(restored)
        for parts in pending:
            values = _read(parts)
            if isinstance(values, list):
                for name, value in zip(parts.names, values):
                    if is_variable(name) and name not in reserved:
                        names[name] = value
                        restored.append(name)
            elif isinstance(values, (NameError, AttributeError)):
                again.append(parts)  # its own code, which runs when it is read, may need a variable that comes later
            else:
                failed.extend([name, reason(values)] for name in parts.names)
        if len(restored) == before:
            failed.extend([name, parts.trouble] for parts in again for name in parts.names)
            break
        pending = again
    return restored, failed


def _read(parts: _Parts) -> list[Any] | BaseException:
    """The values of an entry, or what its reading raised."""
    import pickle

    try:
        # Copies of its own: one small array that is kept must not hold the whole state in memory.
        buffers = [bytes(part) if readonly else bytearray(part) for readonly, part in parts.buffers]
        values = pickle.loads(parts.stream, buffers=buffers)
        if type(values) is not list or len(values) != len(parts.names):
            raise StateError("the saved state is damaged")
    except KeyboardInterrupt:  # the deadline
        raise
    except BaseException as exc:
        parts.trouble = reason(exc)
        return exc.with_traceback(None)
    return values


def _try_entry(names: list[str], values: list[Any], make_pickler: MakePickler) -> _Entry | str:
    """An entry, or why there is none: the objects' own code runs here."""
    try:
        entry = _Entry(names, [_to_save(value) for value in values], make_pickler)
        entry.types = [str(type(value).__name__)[:100] for value in values]
        return entry
    except KeyboardInterrupt:  # the deadline
        raise
    except BaseException as exc:
        return reason(exc)


def _to_save(value: Any) -> Any:
    if not issubclass(type(value), type(sys)):  # not isinstance: that asks the object
        return value
    module = reference(value)
    if module is None:
        raise StateError("a module that cannot be imported by its name")
    return module


# -- what is shared ------------------------------------------------------------------------------


def _join_shared(entries: list[_Entry], make_pickler: MakePickler) -> list[_Entry]:
    """Entries of which no two share an object that can change."""
    if len(entries) < 2:
        return entries
    variables = {id(value) for entry in entries for value in entry.values}
    groups = _Groups(len(entries))
    first_with: dict[int, int] = {}
    many: int | None = None
    for number, entry in enumerate(entries):
        if entry.objects is None:
            # Too many to look at each: whatever it may share is saved together with it.
            many = number if many is None else many
            groups.join(many, number)
            continue
        for key, (_, value) in entry.objects.items():
            if _can_change(value, key in variables):
                groups.join(first_with.setdefault(key, number), number)
    if many is not None:
        for number in set(first_with.values()):
            groups.join(many, number)
    joined = []
    for members in groups.members():
        if len(members) == 1:
            joined.append(entries[members[0]])
            continue
        together = [entries[number] for number in members]
        values = [value for entry in together for value in entry.values]
        made = _try_entry([name for entry in together for name in entry.names], values, make_pickler)
        if isinstance(made, _Entry):
            made.types = [kind for entry in together for kind in entry.types]
        # An object may let itself be written once only: better apart than not at all.
        joined.extend([made] if isinstance(made, _Entry) else together)
    return joined


def _can_change(value: Any, is_variable: bool) -> bool:
    """Whether it matters that two variables have the same object and not two equal ones.

    What has a hash of its own does not change, by convention. Functions are left out where they are not variables:
    most come with a class, which is the same one for all its objects however often it is read.
    """
    kind = type(value)
    if issubclass(kind, _BY_REFERENCE):
        return False
    if kind is _FUNCTION:
        return is_variable
    own: Any = kind.__hash__
    return own is None or own is object.__hash__


class _Groups:
    """Which numbers belong together."""

    def __init__(self, count: int) -> None:
        self._leader = list(range(count))

    def _find(self, number: int) -> int:
        while self._leader[number] != number:
            self._leader[number] = number = self._leader[self._leader[number]]
        return number

    def join(self, one: int, other: int) -> None:
        one, other = self._find(one), self._find(other)
        if one != other:
            self._leader[max(one, other)] = min(one, other)

    def members(self) -> list[list[int]]:
        groups: dict[int, list[int]] = {}
        for number in range(len(self._leader)):
            groups.setdefault(self._find(number), []).append(number)
        return list(groups.values())


# -- pieces --------------------------------------------------------------------------------------


def _list_pieces(entry: _Entry, held: frozenset[str], sent: list[Any]) -> dict[str, Any]:
    """What an entry is made of: the size of a piece that is sent, the digest of one that need not be."""
    every = [*entry.pieces, *[piece for _, pieces in entry.buffers for piece in pieces]]
    known = digests(every) if held else [""] * len(every)
    marks: list[int | str] = []
    for piece, digest in zip(every, known):
        if digest in held:
            marks.append(digest)
        else:
            marks.append(len(piece))
            sent.append(piece)
    at = len(entry.pieces)
    buffers = []
    for readonly, pieces in entry.buffers:
        buffers.append({"readonly": readonly, "pieces": marks[at : at + len(pieces)]})
        at += len(pieces)
    return {"names": entry.names, "types": entry.types, "stream": marks[: len(entry.pieces)], "buffers": buffers}


def _check(listed: Any, size: int) -> None:
    """Whether the list is one of ours, and speaks of as many bytes as there are."""
    try:
        total = 0
        for entry in listed:
            total += sum(entry["stream"]) + sum(sum(buffer["pieces"]) for buffer in entry["buffers"])
            if not all(type(name) is str for name in entry["names"]):
                raise TypeError("a name that is not text")
        if total != size:
            raise ValueError("%d bytes instead of %d" % (size, total))
    except (KeyError, TypeError, ValueError) as exc:
        raise StateError("the saved state is damaged: %s" % reason(exc)) from None


class _Parts:
    """An entry that is to be read."""

    def __init__(self, names: list[str], stream: memoryview, buffers: list[tuple[bool, memoryview]]) -> None:
        self.names = names
        self.stream = stream
        self.buffers = buffers
        self.trouble = ""


def _cut_out(listed: Any, data: memoryview) -> Iterator[_Parts]:
    """The parts of each entry."""
    at = 0

    def take(sizes: list[int]) -> memoryview:
        nonlocal at
        start, at = at, at + sum(sizes)
        return data[start:at]

    for entry in listed:
        stream = take(entry["stream"])
        buffers = [(buffer["readonly"] is True, take(buffer["pieces"])) for buffer in entry["buffers"]]
        yield _Parts(entry["names"], stream, buffers)
