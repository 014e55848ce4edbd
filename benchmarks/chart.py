"""The chart: for each row two bars, ours and the peer's, drawn to the longer of the two. Plain SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from benchmarks.table import figure, machine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from benchmarks.row import Row

WIDTH = 760
LEFT = 16
LONGEST = 470
ROW = 66
TOP = 60
BAR = 15

_FONT = 'font-family="system-ui, sans-serif"'
_OURS = "#2e7d5b"
_PEER = "#b8b8b8"
_QUIET = "#5f5f5f"
_ALARM = "#a00000"


def draw(entries: Sequence[tuple[Row, dict[str, Any]]]) -> str:
    """The whole picture: rows with their records."""
    height = TOP + ROW * len(entries)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {_FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(LEFT, 26, "Cloche and its peers: medians", size=16, weight="600"),
        _text(LEFT, 43, machine(), size=11, fill=_QUIET),
    ]
    for index, (row, record) in enumerate(entries):
        parts += _row(row, record["p50"], record["peer_p50"], TOP + ROW * index)
    return "\n".join([*parts, "</svg>", ""])


def _row(row: Row, ours: float, peer: float | None, top: int) -> list[str]:
    longest = max(abs(ours), abs(peer or 0.0)) or 1.0
    better = "more is better" if row.higher_is_better else "less is better"
    lines = [
        _text(LEFT, top + 13, row.name, weight="600"),
        _text(WIDTH - LEFT, top + 13, f"{row.what} ({better})", size=11, fill=_QUIET, anchor="end"),
        *_bar(top + 20, ours / longest, _OURS, f"{figure(ours, row.unit)}  Cloche"),
    ]
    if peer is None:
        return [*lines, _text(LEFT, top + 34 + BAR, f"{row.peer.name} did not run", size=11, fill=_ALARM)]
    return [*lines, *_bar(top + 22 + BAR, peer / longest, _PEER, f"{figure(peer, row.unit)}  {row.peer.name}")]


def _bar(top: int, share: float, colour: str, label: str) -> list[str]:
    width = max(2.0, min(1.0, share) * LONGEST)
    return [
        f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2" fill="{colour}"/>',
        _text(LEFT + round(width) + 6, top + 12, label, size=11),
    ]


def _text(
    x: int, y: int, text: str, *, size: int = 13, weight: str = "400", fill: str = "#1b1b1b", anchor: str = "start"
) -> str:
    style = f'font-size="{size}" font-weight="{weight}" fill="{fill}" text-anchor="{anchor}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'
