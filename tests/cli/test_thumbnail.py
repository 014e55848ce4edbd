"""Pictures as text: the PNG reader agrees with Pillow, and hostile bytes give no picture instead of an error."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from cloche.cli.thumbnail import read_png, thumbnail


def picture(mode: str, width: int = 23, height: int = 17) -> Image.Image:
    """Smooth on the left and noisy on the right, so that an encoder wants every filter."""
    samples = bytearray()
    for y in range(height):
        for x in range(width):
            for channel in range(len(mode)):
                smooth = x * 5 + y * 3 + channel
                samples.append((smooth if x < width // 2 else smooth * x * y * 31) % 251)
    return Image.frombytes(mode, (width, height), bytes(samples))


def encoded(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["L", "RGB", "LA", "RGBA"])
def test_a_picture_is_read_as_pillow_reads_it(mode: str) -> None:
    image = picture(mode)
    found = read_png(encoded(image))
    assert found is not None
    assert (found.width, found.height, b"".join(found.rows)) == (*image.size, image.tobytes())


@pytest.mark.parametrize("kind", range(5))
def test_every_filter_is_undone(kind: int) -> None:
    image = picture("RGB")
    data = _with_filter(image.tobytes(), *image.size, 3, kind)
    assert Image.open(io.BytesIO(data)).tobytes() == image.tobytes()  # the encoder below is right
    found = read_png(data)
    assert found is not None
    assert b"".join(found.rows) == image.tobytes()


def _with_filter(pixels: bytes, width: int, height: int, channels: int, kind: int) -> bytes:
    stride = width * channels
    body = bytearray()
    for y in range(height):
        row = pixels[y * stride : (y + 1) * stride]
        above = pixels[(y - 1) * stride : y * stride] if y else bytes(stride)
        body.append(kind)
        for i, value in enumerate(row):
            left, up = (row[i - channels] if i >= channels else 0), above[i]
            corner = above[i - channels] if i >= channels else 0
            distances = {near: abs(left + up - corner - near) for near in (left, up, corner)}
            paeth = min(distances, key=lambda near: distances[near])
            body.append((value - (0, left, up, (left + up) // 2, paeth)[kind]) & 0xFF)
    return png(struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), zlib.compress(bytes(body)))


def png(header: bytes, body: bytes) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@given(st.data())
def test_damaged_bytes_give_a_picture_or_none(data: st.DataObject) -> None:
    whole = bytearray(encoded(picture("RGBA")))
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    read_png(bytes(whole[: data.draw(st.integers(0, len(whole)))]))


@given(st.binary(max_size=200))
def test_any_bytes_give_a_picture_or_none(data: bytes) -> None:
    assert read_png(data) is None
    read_png(b"\x89PNG\r\n\x1a\n" + data)


def test_a_picture_that_claims_to_be_huge_is_not_read() -> None:
    header = struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 6, 0, 0, 0)
    assert read_png(png(header, zlib.compress(bytes(10**6)))) is None


def test_a_thumbnail_fits_and_shows_dark_on_light() -> None:
    image = Image.new("RGB", (200, 100), "white")
    image.paste("black", (0, 0, 100, 100))
    console = Console(file=io.StringIO(), width=80, color_system=None)
    text = thumbnail(encoded(image), console, columns=40)
    assert text is not None
    lines = text.plain.splitlines()
    assert (len(lines), {len(line) for line in lines}) == (10, {42})
    assert {line[2:] for line in lines} == {"@" * 20 + " " * 20}


def test_a_thumbnail_has_colours_where_the_terminal_has() -> None:
    console = Console(file=io.StringIO(), width=80, color_system="truecolor", force_terminal=True)
    text = thumbnail(encoded(Image.new("RGB", (20, 20), (200, 30, 40))), console)
    assert text is not None
    assert "▀" in text.plain
    assert "rgb(200,30,40) on rgb(200,30,40)" in {str(span.style) for span in text.spans}


def test_there_is_no_thumbnail_of_what_is_no_picture() -> None:
    assert thumbnail(b"not a picture", Console(file=io.StringIO())) is None
