"""What looks at texts and folders give: lists of plain text that print well, and short."""

from __future__ import annotations

from cloche_guest.values import PlainList, PlainText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Hit(PlainText):
    """A line that matched, as text, with where it was found. A match may go on to `last_line`."""

    __slots__ = ("after", "before", "column", "last_line", "line", "start")

    line: int
    last_line: int
    column: int
    start: int
    before: list[str]
    after: list[str]

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str.__str__(self),)  # saved and read again it is a plain line

    def __repr__(self) -> str:
        return "\n".join(_numbered([self]))


class Hits(PlainList):
    """Lines that matched. `total` counts also those that are not here."""

    total = 0
    exact = True  # or there are more than were counted
    note = ""  # what may surprise about the pattern
    source = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # saved and read again it is a plain list

    def __repr__(self) -> str:
        note = "\n[%s]" % self.note if self.note else ""
        if not self.total:
            return "no match in %s%s" % (self.source, note)
        if all(type(hit) is Hit for hit in self):
            text = "\n".join(_numbered(self))
        else:  # what the code has put in is shown as it is
            text = "\n".join(map(repr, self))
        if self.total > len(self):
            total = "%d" % self.total if self.exact else "more than %d" % self.total
            text += "\n... %d of %s matching lines in %s" % (len(self), total, self.source)
        return text + note

    __str__ = __repr__


def _numbered(hits: list[Hit]) -> list[str]:
    """Every line once, also where those around two hits are the same; with a rule where lines are left out."""
    wide = any(hit.before or hit.after for hit in hits)
    lines: list[str] = []
    shown = 0  # the number of the last line
    for index, hit in enumerate(hits):
        following = hits[index + 1].line if index + 1 < len(hits) else 0
        if hit.line <= shown:  # the code has put them in an order of its own
            shown = 0
        first = hit.line - len(hit.before)
        before = [(first + n, text) for n, text in enumerate(hit.before) if first + n > shown]
        after = [(hit.last_line + 1 + n, text) for n, text in enumerate(hit.after)]
        if hit.last_line < following:
            after = [(number, text) for number, text in after if number < following]
        if wide and lines and (before[0][0] if before else hit.line) != shown + 1:
            lines.append("--")
        lines.extend("%d- %s" % line for line in before)
        lines.extend(_own_lines(hit))
        lines.extend("%d- %s" % line for line in after)
        shown = after[-1][0] if after else hit.last_line
    return lines


def _own_lines(hit: Hit) -> list[str]:
    parts = str.__str__(hit).split("\n")
    if len(parts) != hit.last_line - hit.line + 1:  # cut, since it was too long
        return ["%d: %s" % (hit.line, str.__str__(hit))]
    return ["%d: %s" % (hit.line + n, part.rstrip("\r")) for n, part in enumerate(parts)]


class Entry(PlainText):
    """The name of a file or folder, with what is known of it."""

    __slots__ = ("is_dir", "path", "size")

    path: str
    is_dir: bool
    size: int | None

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str.__str__(self),)

    def __repr__(self) -> str:
        return str.__str__(self) + "/" if self.is_dir else "%s (%s bytes)" % (str.__str__(self), self.size)


class Listing(PlainList):
    """What is in a folder. `total` counts also what is not here."""

    total = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def __repr__(self) -> str:
        text = "\n".join(map(repr, self)) or "empty"
        return text if self.total <= len(self) else "%s\n... %d of %d entries" % (text, len(self), self.total)

    __str__ = __repr__


def make_hits(reply: dict[str, Any]) -> Hits:
    """Of what the host answered to `grep`."""
    hits = Hits()
    hits.total, hits.source = reply["total"], reply["source"]
    hits.exact, hits.note = reply["exact"], reply["note"] or ""
    for item in reply["hits"]:
        hit = Hit(item["text"])
        hit.line, hit.last_line, hit.column, hit.start = item["line"], item["last_line"], item["column"], item["start"]
        hit.before, hit.after = item["before"], item["after"]
        hits.append(hit)
    return hits


def make_listing(reply: dict[str, Any]) -> Listing:
    """Of what the host answered to `list_dir`."""
    listing = Listing()
    listing.total = reply["total"]
    for item in reply["entries"]:
        entry = Entry(item["name"])
        entry.path, entry.is_dir, entry.size = item["path"], item["is_dir"], item["size"]
        listing.append(entry)
    return listing
