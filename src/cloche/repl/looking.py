"""Looking without a model: `peek`, `grep`, the cuts of a context, folders and files. All of it read-only."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cloche.errors import LookError
from cloche.repl.searching import Searcher
from cloche_guest.values import RemoteObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.repl.searching import Hit
    from cloche.repl.sources import Source, Sources

DEFAULT_PEEK = 500
MOST_ENTRIES = 100
MOST_LISTED = 100_000
"""Names of a folder that are counted."""
MOST_LINES_AROUND = 100_000
NEAR_A_LINE = 200
"""Characters: a cut is moved to the end of a line when one is that near."""
MOST_CHUNKS = 10_000


def peek(sources: Sources, source: Any = None, n: Any = None, start: Any = 0, lines: Any = None) -> str:
    """A piece of a text: `peek(n)`, `peek(source, n, start)`, `peek(source, lines=(first, last))`."""
    if isinstance(source, int) and not isinstance(source, bool):
        if n is not None and not isinstance(n, str):
            raise LookError(f"{source} is no source", remedy=f"peek(n={n}, start={source})")
        source, n = n, source  # also peek(n, source)
    found = sources.find(source)
    if lines is not None:
        return found.lines(*_line_range(lines))
    n = DEFAULT_PEEK if n is None else n
    for name, value in (("n", n), ("start", start)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise LookError(f"{name} must be a whole number, not {described(value)}")
    if n < 0:
        raise LookError(f"n must not be negative: {n}", remedy=f"peek(start=-{-n}) shows the end")
    if start < 0:
        start = max(len(found.text) + start, 0)
    return found.piece(start, start + n)


def grep(
    sources: Sources,
    most: int,
    between: Callable[[], None] | None,
    pattern: Any,
    source: Any = None,
    before: Any = 0,
    after: Any = 0,
    ignore_case: Any = True,
    max_results: Any = None,
) -> dict[str, Any]:
    """Lines that match, `most` of them at most. When only the first argument names a text, it is the source and the
    second the pattern. `between` is called now and then, and may raise to give up."""
    if isinstance(source, str) and sources.knows(pattern) and not sources.knows(source):
        pattern, source = source, pattern
    if not isinstance(pattern, str):
        compiled = isinstance(pattern, RemoteObject) and pattern.type.endswith("Pattern")
        remedy = "give the text of a compiled pattern: pattern.pattern" if compiled else None
        raise LookError(f"pattern must be text, not {described(pattern)}", remedy=remedy)
    wanted = most if max_results is None else max_results
    for name, value in (("before", before), ("after", after), ("max_results", wanted)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise LookError(f"{name} must be a whole number from 0 on, not {described(value)}")
    wanted = min(wanted, most)
    if (before + after) * wanted > MOST_LINES_AROUND:
        raise LookError(
            f"{before + after} lines around each of {wanted} hits are too much to hand over",
            remedy=f"(before + after) * max_results may be {MOST_LINES_AROUND}; peek(lines=(first, last)) reads on",
        )
    found: Source = sources.find(source)
    searcher = Searcher(pattern, ignore_case=bool(ignore_case))
    matches = searcher.find_lines(
        found.searchable, before=before, after=after, max_results=wanted, between=between, cut_out=found.cut_out
    )
    hidden = found.hidden_lines()
    hits = [_shown(hit, hidden) for hit in matches.hits]
    return {
        "source": found.label,
        "total": matches.total,
        "exact": matches.exact,
        "note": matches.note,
        "hits": hits,
    }


def _shown(hit: Hit, hidden: list[tuple[int, int, str]]) -> dict[str, Any]:
    """A hit as it travels; `hidden` lines are not shown."""

    def line(number: int, text: str) -> str:
        return next((instead for first, last, instead in hidden if first <= number <= last), text)

    return {
        "line": hit.line,
        "last_line": hit.last_line,
        "column": hit.column,
        "start": hit.start,
        "text": line(hit.line, hit.text),
        "before": [line(hit.line - len(hit.before) + n, text) for n, text in enumerate(hit.before)],
        "after": [line(hit.last_line + 1 + n, text) for n, text in enumerate(hit.after)],
    }


def chunk_context(sources: Sources, n_chunks: Any = 4, overlap: Any = 200) -> list[Any]:
    """Where each piece begins and ends; and the piece itself, where the code does not have the context as one text."""
    text = sources.context.text
    found = cuts(text, n_chunks, overlap)
    return found if sources.context_is_text else [(start, end, text[start:end]) for start, end in found]


def cuts(text: str, n_chunks: Any = 4, overlap: Any = 200) -> list[tuple[int, int]]:
    """Where `chunk_context` cuts: nothing is left out, and joining what each adds gives the text again."""
    for name, value, least in (("n_chunks", n_chunks, 1), ("overlap", overlap, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value:
            raise LookError(f"{name} must be a whole number from {least} on, not {described(value)}")
    if n_chunks > MOST_CHUNKS:
        raise LookError(f"n_chunks may be {MOST_CHUNKS}")
    length = len(text)
    ends: list[int] = []
    for number in range(1, n_chunks):
        end = length * number // n_chunks
        near = text.find("\n", end, min(end + NEAR_A_LINE, length))
        ends.append(max(near + 1 if near >= 0 else end, ends[-1] if ends else 0))
    ends.append(length)
    starts = [0, *ends[:-1]]
    found = [(max(start - overlap, 0), end) for start, end in zip(starts, ends, strict=True)]
    return [(start, end) for start, end in found if end > start] or [(0, length)]


def list_dir(sources: Sources, path: Any = ".") -> dict[str, Any]:
    """What is in a folder of the workspace or under a root; folders first. Without a path, the roots as well."""
    inside = sources.workspace_path(path)
    found = None if inside is None else _workspace_entries(sources, inside)
    if inside == ".":
        found = found or []
        found += [{"name": root, "path": root, "is_dir": True, "size": None} for root in sources.roots.folders]
    if found is not None:
        return {"total": len(found), "entries": found[:MOST_ENTRIES]}
    real = sources.roots.resolve(path)
    try:
        found = [_entry(real, name, status) for name, status in sources.roots.entries(real, MOST_LISTED)]
    except OSError as exc:
        raise LookError(f"{path!r:.200} cannot be listed", cause=exc.strerror) from None
    found.sort(key=lambda entry: (not entry["is_dir"], entry["name"]))
    return {"total": len(found), "entries": found[:MOST_ENTRIES]}


def file_info(sources: Sources, path: Any) -> dict[str, Any]:
    """What is known of a file of the workspace, or of a file or folder under a root."""
    inside = sources.workspace_status(path)
    if inside is not None:
        return _information(path, inside)
    real = sources.roots.resolve(path)
    try:
        return _information(path, sources.roots.status(real))
    except OSError as exc:
        raise LookError(f"{path!r:.200} cannot be looked at", cause=str(exc)[:200]) from None


def _information(path: str, status: os.stat_result) -> dict[str, Any]:
    kinds = {stat.S_IFDIR: "folder", stat.S_IFREG: "file"}
    try:
        changed = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):  # a file may say that it is from any year
        changed = None
    return {
        "path": path,
        "type": kinds.get(stat.S_IFMT(status.st_mode), "other"),
        "size": status.st_size,
        "modified": changed,
        "extension": os.path.splitext(path)[1],
    }


def _workspace_entries(sources: Sources, folder: str) -> list[dict[str, Any]] | None:
    """Names directly in a folder of the session; None for what is no folder there."""
    assert sources.workspace is not None
    prefix = "" if folder == "." else folder + "/"
    try:
        listed = sources.workspace().entries(prefix.rstrip("/"))
    except OSError:
        return None
    found = []
    for name, status in listed:
        is_dir = stat.S_ISDIR(status.st_mode)
        found.append(_described_entry(name, prefix + name, is_dir, None if is_dir else status.st_size))
    return sorted(found, key=lambda entry: (not entry["is_dir"], entry["name"]))


def _described_entry(name: str, path: str, is_dir: bool, size: int | None) -> dict[str, Any]:
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return {"name": shown, "path": path, "is_dir": is_dir, "size": size}


def _entry(folder: str, name: str, status: os.stat_result) -> dict[str, Any]:
    is_dir = stat.S_ISDIR(status.st_mode)
    return _described_entry(name, os.path.join(folder, name), is_dir, None if is_dir else status.st_size)


def _line_range(lines: Any) -> tuple[int, int]:
    first, last = _two_numbers(lines)
    if not 1 <= first <= last:
        raise LookError(
            f"there are no lines {described(lines)}: they are counted from 1, the first before the last",
            remedy="peek(start=-500) shows the end",
        )
    return first, last


def _two_numbers(lines: Any) -> tuple[int, int]:
    if isinstance(lines, int) and not isinstance(lines, bool):
        return lines, lines
    if isinstance(lines, str):
        first, _, last = lines.partition("-")
        if len(lines) <= 40 and first.strip().isdecimal() and (last or first).strip().isdecimal():
            return int(first), int(last or first)
    if isinstance(lines, tuple | list) and len(lines) == 2 and all(type(number) is int for number in lines):
        return lines[0], lines[1]
    raise LookError(f"lines must be a number or (first, last), not {described(lines)}")


def described(value: Any) -> str:
    """What the code gave, as it would show it itself."""
    return f"{value.repr:.60}" if isinstance(value, RemoteObject) else f"{value!r:.60}"
