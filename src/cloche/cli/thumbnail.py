"""A picture as a few rows of text, so that a plot can be seen where it was made.

Reads the PNG files that plotting libraries write (8 bits a channel, not interlaced); for anything else there is no
thumbnail. The bytes are a guest's: sizes are bounded before anything is allocated.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
_MAX_PIXELS = 4_000_000
_INK = " .:-=+*#%@"

Pixel = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Picture:
    """Rows of samples, `channels` bytes a pixel."""

    width: int
    height: int
    channels: int
    rows: list[bytearray]

    def mean(self, left: int, right: int, top: int, bottom: int) -> Pixel:
        """The mean colour of a box, on white."""
        samples = [
            self._pixel(row[x * self.channels : (x + 1) * self.channels])
            for row in self.rows[top:bottom]
            for x in range(left, right)
        ]
        red, green, blue = (sum(channel) // len(samples) for channel in zip(*samples, strict=True))
        return red, green, blue

    def _pixel(self, data: bytearray) -> Pixel:
        colour = data[:3] if self.channels > 2 else data[:1] * 3
        alpha = data[-1] if self.channels in (2, 4) else 255
        red, green, blue = (value * alpha // 255 + 255 - alpha for value in colour)
        return red, green, blue


def read_png(data: bytes) -> Picture | None:
    """The picture, or None when it is of a kind that is not read here."""
    try:
        return _decode(data)
    except (struct.error, zlib.error, IndexError, ValueError):
        return None


def _decode(data: bytes) -> Picture | None:
    if not data.startswith(_SIGNATURE):
        return None
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    channels = _CHANNELS.get(kind)
    if depth != 8 or channels is None or interlaced or not 0 < width * height <= _MAX_PIXELS:
        return None
    packed, position = bytearray(), len(_SIGNATURE)
    while position < len(data):
        length, name = struct.unpack(">I4s", data[position : position + 8])
        if name == b"IDAT":
            packed += data[position + 8 : position + 8 + length]
        position += length + 12
    stride = width * channels
    raw = zlib.decompressobj().decompress(bytes(packed), (stride + 1) * height)
    rows: list[bytearray] = []
    before = bytearray(stride)
    for start in range(0, (stride + 1) * height, stride + 1):
        before = _unfilter(raw[start], bytearray(raw[start + 1 : start + 1 + stride]), before, channels)
        if len(before) != stride:
            return None
        rows.append(before)
    return Picture(width, height, channels, rows)


def _unfilter(kind: int, row: bytearray, above: bytearray, step: int) -> bytearray:
    """Undo one of the five filters of the PNG specification."""
    if kind == 0:
        return row
    for i, value in enumerate(row):
        left = row[i - step] if i >= step else 0
        up = above[i]
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = up
        elif kind == 3:
            guess = (left + up) // 2
        elif kind == 4:
            corner = above[i - step] if i >= step else 0
            guess = _nearest(left, up, corner)
        else:
            raise ValueError("no such filter")
        row[i] = (value + guess) & 0xFF
    return row


def _nearest(left: int, up: int, corner: int) -> int:
    """Paeth's predictor."""
    wanted = left + up - corner
    best = left if abs(wanted - left) <= abs(wanted - up) else up
    return best if abs(wanted - best) <= abs(wanted - corner) else corner


def thumbnail(data: bytes, console: Console, columns: int = 60) -> Text | None:
    """The picture in half blocks where the terminal has colours, in ink where it has none."""
    from rich.text import Text

    picture = read_png(data)
    if picture is None:
        return None
    columns = max(1, min(columns, picture.width, console.width - 4))
    lines = max(2, columns * picture.height // picture.width // 2 * 2)
    across = [column * picture.width // columns for column in range(columns + 1)]
    down = [line * picture.height // lines for line in range(lines + 1)]
    grid = [
        [picture.mean(left, right, top, max(bottom, top + 1)) for left, right in pairwise(across)]
        for top, bottom in pairwise(down)
    ]
    text = Text(no_wrap=True)
    for upper, lower in zip(grid[::2], grid[1::2], strict=True):
        text.append("  ")
        for first, second in zip(upper, lower, strict=True):
            if console.color_system is None:
                text.append(_ink(first, second))
            else:
                text.append("▀", style=f"rgb({_rgb(first)}) on rgb({_rgb(second)})")
        text.append("\n")
    return text


def _rgb(pixel: Pixel) -> str:
    return ",".join(map(str, pixel))


def _ink(first: Pixel, second: Pixel) -> str:
    dark = 255 - min(sum(first), sum(second)) // 3
    return _INK[min(len(_INK) - 1, dark * len(_INK) // 160)]
