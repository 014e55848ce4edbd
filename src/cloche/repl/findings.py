"""What an agent has noted down for later."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cloche.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 1000
LONGEST = 20_000
LOOKED_AT = 2000
"""Characters of a tag or a source in which secrets are looked for; fewer are kept."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One note."""

    id: int
    content: str
    tags: tuple[str, ...]
    source: str | None
    turn: int


class Findings:
    """Notes in the order in which they were made."""

    def __init__(self, kept: list[Finding] | None = None) -> None:
        self.all: list[Finding] = list(kept or [])

    def mark(
        self, turn: int, clean: Callable[[str], str], content: Any, tags: Any = (), source: Any = None
    ) -> dict[str, Any]:
        """Note something down. `clean` masks secrets, before anything is cut."""
        if len(self.all) >= MOST:
            raise RequestError(f"there are {MOST} findings already", remedy="sum some of them up in one")
        text = str(content)
        if len(text) > LONGEST:
            raise RequestError(f"the finding has {len(text)} characters; it may have {LONGEST}")
        if not isinstance(tags, str | list | tuple | set | frozenset):
            raise RequestError(f"tags must be a list of words, not {type(tags).__name__}")
        text = clean(text)
        marked = tuple(
            clean(str(tag)[:LOOKED_AT])[:100] for tag in ([tags] if isinstance(tags, str) else list(tags))[:20]
        )
        finding = Finding(
            len(self.all) + 1, text, marked, None if source is None else clean(str(source)[:LOOKED_AT])[:500], turn
        )
        self.all.append(finding)
        return {"id": finding.id, "content": text[:100], "tags": list(marked)}

    def listed(self) -> list[dict[str, Any]]:
        """All of them, shortened."""
        return [{**asdict(item), "content": item.content[:200], "tags": list(item.tags)} for item in self.all]

    @classmethod
    def from_data(cls, data: list[dict[str, Any]]) -> Findings:
        """From a checkpoint. TypeError, KeyError or ValueError for what was no such list."""
        return cls(
            [
                Finding(
                    id=int(item["id"]),
                    content=str(item["content"]),
                    tags=tuple(map(str, item["tags"])),
                    source=None if item["source"] is None else str(item["source"]),
                    turn=int(item["turn"]),
                )
                for item in data
            ]
        )
