"""Descriptors 0, 1 and 2: the wire moves away, and what the cell writes is captured, whoever writes it.

With a host that passes capture pipes, 1 and 2 become those pipes, so `os.write`, C code and children are captured
and the host reads as it comes. Under any other host the guest captures by itself: Python's streams send `output`
notifications, and 1 and 2 are unlinked files that are emptied into notifications at the end of the cell.
"""

from __future__ import annotations

import posix as _os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Notify = Callable[[str, dict[str, Any]], None]

OWN_CAPTURE_LIMIT = 8 * 1024 * 1024
PIECE = 65536  # characters
STDOUT_BUFFER = 65536
LINES_AT_ONCE = 400  # writes; print() makes two
_FIRST_PRIVATE = 200  # out of the way of code that closes "3 to 100"


def keep_private(descriptor: int) -> int:
    """A close-on-exec duplicate with a high number; the original is left to the caller."""
    for number in (*range(_FIRST_PRIVATE, _FIRST_PRIVATE + 50), *range(10, _FIRST_PRIVATE)):
        if _identity(number) is None:
            try:
                return _os.dup2(descriptor, number, False)
            except OSError:  # the limit on descriptors is lower than that
                continue
    raise OSError(24, "no descriptor is left")


def take_wire() -> tuple[int, int]:
    """Move the wire from 0 and 1 to private descriptors and put /dev/null on 0."""
    reader, writer = keep_private(0), keep_private(1)
    null = _os.open("/dev/null", _os.O_RDWR)
    _os.dup2(null, 0)
    _os.close(null)
    return reader, writer


def flush() -> None:
    """What Python's streams still hold. A cell may have put anything in their place, which may raise anything."""
    sys.stdout.flush()
    sys.stderr.flush()


def flush_quietly() -> None:
    """What a stream of the cell's own cannot take is the cell's loss, and must not be that of a fork or a host call."""
    try:
        flush()
    except Exception:  # see above
        pass


class PipeCapture:
    """1 and 2 are pipes that the host reads."""

    def __init__(self, out: int, err: int) -> None:
        self._kept = {1: keep_private(out), 2: keep_private(err)}
        for target, source in self._kept.items():
            _os.dup2(source, target)
        for given in (out, err):
            if given not in (1, 2):
                _os.close(given)
        self._stdout: Any = sys.stdout
        self._stderr: Any = sys.stderr
        self._identity = {target: _identity(target) for target in self._kept}

    def install(self) -> None:
        """Give Python streams of ours: a stdout whose buffering can change in mid-cell, and a stderr to match.

        Those it has may have been made for other files, in the process that we were forked from.
        """
        self._stdout = sys.stdout = sys.__stdout__ = _text_output(1)  # type: ignore[misc]  # __stdout__ is read-only for checkers
        self._stderr = sys.stderr = sys.__stderr__ = _text_output(2)  # type: ignore[misc]  # as above

    def streams(self) -> tuple[Any, Any]:
        """Python's stdout and stderr, made anew where a cell closed or took them apart."""
        if _is_broken(self._stdout):
            self._stdout = sys.__stdout__ = _text_output(1)  # type: ignore[misc]  # read-only for checkers
        if _is_broken(self._stderr):
            self._stderr = sys.__stderr__ = _text_output(2)  # type: ignore[misc]  # read-only for checkers
        return self._stdout, self._stderr

    def begin(self, live: bool) -> None:
        """Line by line, so that what was printed before a crash or a kill is not lost with the buffer.

        A cell that goes on writing, with nobody listening, is given blocks after a while: four times as fast.
        """
        stdout = self._stdout
        stdout.reconfigure(line_buffering=True)
        write: Callable[[Any, str], int] = type(stdout).write
        left = LINES_AT_ONCE

        def write_line(text: str) -> int:
            nonlocal left
            left -= 1
            if not left:
                del stdout.write
                stdout.reconfigure(line_buffering=False)
            return write(stdout, text)

        if live:
            stdout.__dict__.pop("write", None)
        else:
            stdout.write = write_line

    def end(self) -> None:
        """Undo what the cell did to the descriptors."""
        for target, source in self._kept.items():
            if _identity(target) != self._identity[target]:
                try:
                    _os.dup2(source, target)
                except OSError:
                    _os._exit(1)  # our own copies are closed too: nothing would be heard of this session any more

    def begin_again(self, out: int, err: int) -> None:
        """In a copy of the session: the same numbers, other pipes."""
        for target, given in ((1, out), (2, err)):
            _os.dup2(given, self._kept[target], inheritable=False)
            _os.dup2(given, target)
            self._identity[target] = _identity(target)


class OwnCapture:
    """For a host that gave no capture pipes: everything becomes `output` notifications."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._files = {1: _unlinked_file(), 2: _unlinked_file()}
        for target, source in self._files.items():
            _os.dup2(source, target)
        self._streams: dict[str, Any] = {}
        self._raw: dict[str, Any] = {}

    def install(self) -> None:
        """Give Python streams that speak to the host; what goes past them lands in the files."""
        sys.stdout, sys.stderr = self.streams()

    def streams(self) -> tuple[Any, Any]:
        """Python's stdout and stderr, made anew where a cell closed or took them apart."""
        for name in ("stdout", "stderr"):
            if name not in self._streams or _is_broken(self._streams[name]):
                self._streams[name] = self._open(name)
                setattr(sys, "__%s__" % name, self._streams[name])
        return self._streams["stdout"], self._streams["stderr"]

    def _open(self, name: str) -> Any:
        stream = open_notifying(self._notify, name)
        self._raw[name] = stream.buffer.raw
        return stream

    def begin(self, live: bool) -> None:
        """Nothing to prepare: the streams are live."""

    def end(self) -> None:
        """Send what is left in Python's streams and what was written past them, and empty the files."""
        for raw in self._raw.values():
            raw.finish()
        for target, source in self._files.items():
            if _identity(target) != _identity(source):
                _os.dup2(source, target)
            size = _os.fstat(source).st_size
            if size:
                data = _os.pread(source, min(size, OWN_CAPTURE_LIMIT), 0)
                _os.ftruncate(source, 0)
                text = data.decode("utf-8", "replace")
                if size > len(data):
                    text += "\n... [truncated, %d bytes omitted]" % (size - len(data))
                _notify_text(self._notify, "stdout" if target == 1 else "stderr", text)


def open_notifying(notify: Notify, name: str) -> Any:
    """A text stream that becomes notifications."""
    import io

    class Output(io.TextIOWrapper):
        """Ordinary text output, as below."""

    buffer = io.BufferedWriter(_notifying_stream(io, notify, name), 8192)
    return Output(buffer, "utf-8", "backslashreplace", line_buffering=True, write_through=name == "stderr")


def _text_output(descriptor: int) -> Any:
    """A text stream on 1 or 2. A lone surrogate in the context must be printable."""
    import io

    class Output(io.TextIOWrapper):
        """Ordinary text output. As a class of Python's it has room for an attribute that stands before `write`."""

    raw = io.FileIO(descriptor, "wb", closefd=False)
    raw.name = "<stdout>" if descriptor == 1 else "<stderr>"
    buffer = io.BufferedWriter(raw, STDOUT_BUFFER)
    return Output(buffer, "utf-8", "backslashreplace", line_buffering=True, write_through=descriptor == 2)


def _is_broken(stream: Any) -> bool:
    try:
        return bool(stream.closed)
    except ValueError:  # detached from its buffer
        return True


def _notify_text(notify: Notify, name: str, text: str) -> None:
    """In pieces: a host bounds its frames."""
    for start in range(0, len(text), PIECE):
        notify("output", {"stream": name, "text": text[start : start + PIECE]})


def _notifying_stream(io: Any, notify: Notify, name: str) -> Any:
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def send(data: bytes, final: bool) -> None:
        _notify_text(notify, name, decoder.decode(data, final))

    class NotifyingStream(io.RawIOBase):  # type: ignore[misc]  # io is imported late, so its types are not known here
        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            send(bytes(data), False)
            return len(data)

        def finish(self) -> None:
            """Half a character that is not completed in this cell is none."""
            send(b"", True)

    return NotifyingStream()


def _unlinked_file() -> int:
    """A file without a name, in append mode, so that several writers do not overwrite each other."""
    if hasattr(_os, "memfd_create"):
        descriptor = _os.memfd_create("output", 1)
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETFL, _os.O_APPEND)
        return descriptor
    import tempfile

    handle, path = tempfile.mkstemp()
    _os.close(handle)
    descriptor = _os.open(path, _os.O_RDWR | _os.O_APPEND)
    _os.unlink(path)
    return descriptor


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        status = _os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
