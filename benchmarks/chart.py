"""The chart: for each row two bars, ours and the peer's, drawn to the longer of the two. Plain SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from benchmarks.table import figure, machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measurement import Measurement

WIDTH = 760
LABELS = 250
BARS = 330
ROW = 52
TOP = 54
BAR = 15

_FONT = 'font-family="system-ui, sans-serif"'
_OURS = "#2e7d5b"
_PEER = "#b8b8b8"


def draw(measurements: Sequence[Measurement]) -> str:
    """The whole picture."""
    height = TOP + ROW * len(measurements) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {_FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(14, 24, "Cloche and its peers, medians", size=16, weight="600"),
        _text(14, 42, machine(), size=11, fill="#666666"),
    ]
    for index, measurement in enumerate(measurements):
        parts += _row(measurement, TOP + ROW * index)
    return "\n".join([*parts, "</svg>", ""])


def _row(measurement: Measurement, top: int) -> list[str]:
    row = measurement.row
    peer = measurement.peer_p50
    longest = max(abs(measurement.p50), abs(peer or 0.0)) or 1.0
    better = "more is better" if row.higher_is_better else "less is better"
    lines = [
        _text(14, top + 18, row.name, weight="600"),
        _text(14, top + 34, f"{row.what}; {better}"[:44], size=10, fill="#666666"),
        *_bar(top + 4, measurement.p50 / longest, _OURS, figure(measurement.p50, row.unit)),
    ]
    if peer is None:
        return [
            *lines,
            _text(LABELS, top + 4 + 2 * BAR, f"{row.peer.name} did not run", size=11, fill="#a00000"),
        ]
    label = f"{figure(peer, row.unit)}  {row.peer.name}"
    return [*lines, *_bar(top + 6 + BAR, peer / longest, _PEER, label)]


def _bar(top: int, share: float, colour: str, label: str) -> list[str]:
    width = max(2.0, min(1.0, share) * BARS)
    return [
        f'<rect x="{LABELS}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2" fill="{colour}"/>',
        _text(LABELS + round(width) + 6, top + 12, label, size=11),
    ]


def _text(x: int, y: int, text: str, *, size: int = 13, weight: str = "400", fill: str = "#1b1b1b") -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{fill}">{escape(text)}</text>'
