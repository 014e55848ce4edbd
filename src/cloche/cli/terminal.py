"""Writing to people and to pipes. What a guest wrote must not steer a person's terminal."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from cloche.errors import ClocheError

if TYPE_CHECKING:
    from typing import TextIO

    from rich.console import Console

_PIPE_WIDTH = 160

_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # all but tab, newline and carriage return
    "\u202a-\u202e\u2066-\u2069]"  # text that reads differently from what it is
)

_LINE_ENDS = re.compile("[\\n\\r\u2028\u2029]")


def neutralise(text: str) -> str:
    """`text` with every control character made visible, so that no terminal acts on it.

    One character at a time: a sequence cut in two is no way through.
    """
    return _CONTROL.sub(_picture, text)


def one_line(text: object) -> str:
    """The name of a file, or other text that is to stay within its line: line ends are made visible too.

    A name may hold them, and would write whole lines of its own, or over the line in which it stands.
    """
    return _LINE_ENDS.sub(_picture, neutralise(str(text)))


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class ReaderGone(Exception):
    """Whoever read our output has closed it, as ``head`` does."""


class OutputLost(ClocheError):
    """Our output cannot be written, as on a full disk."""

    code = "output_lost"


class Terminal:
    """Standard output and error of this command, and where their cursors are."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._out_partial = False
        self._err_partial = False

    def out(self, text: str) -> None:
        """Text of the guest for standard output, at once."""
        self._out_partial = _write(self._out, text, self._out_partial)

    def err(self, text: str) -> None:
        """Text of the guest for standard error, at once."""
        self._err_partial = _write(self._err, text, self._err_partial)

    def out_line(self, text: str) -> None:
        """A whole line on standard output, on a line of its own."""
        self.out(("\n" if self._out_partial else "") + text + "\n")

    def note(self, text: str) -> None:
        """A line of ours on standard error, on a line of its own."""
        shared = self._out_partial and _is_person(self._out) and _is_person(self._err)
        self.err(("\n" if self._err_partial or shared else "") + text + "\n")
        self._out_partial = self._out_partial and not shared

    def finish_line(self) -> None:
        """Leave the cursor at the start of a line when a person looks at it."""
        if self._out_partial and _is_person(self._out):
            self.out("\n")
        if self._err_partial and _is_person(self._err):
            self.err("\n")


def people_console(*, quiet: bool = False, width: int = _PIPE_WIDTH) -> Console:
    """A rich console that takes text literally, at most `width` wide; a pipe has no width of its own."""
    import shutil

    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise ReaderGone

    if _is_person(sys.stdout):
        width = min(width, shutil.get_terminal_size().columns)
    return Screen(markup=False, highlight=False, quiet=quiet, width=width)


def write_json(data: Any) -> None:
    """One JSON document on standard output: indented for a person, one line for a program."""
    _write(sys.stdout, json.dumps(data, indent=2 if _is_person(sys.stdout) else None) + "\n", False)


def _is_person(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _write(stream: TextIO | None, text: str, partial: bool) -> bool:
    """Write and flush; whether the stream is now in the middle of a line."""
    if stream is None or not text:  # None: this process was started with the stream closed
        return partial
    try:
        stream.write(neutralise(text) if _is_person(stream) else text)
        stream.flush()
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as exc:
        raise OutputLost("the output cannot be written", cause=exc.strerror) from None
    return not text.endswith("\n")
