"""Drives a command through a real pseudo-terminal: keys go in, the screen's bytes come out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

from tests.cli.command import Cloche

DEADLINE = 15
"""Seconds; for a hang only."""

CTRL_C, CTRL_D, TAB, ENTER = "\x03", "\x04", "\t", "\r"

# The terminal must be the session's controlling one, or Ctrl-C would be a mere character.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[()].|[=>78])")


class Typewriter:
    """A command behind a terminal."""

    def __init__(self, cloche: Cloche) -> None:
        self._cloche = cloche
        self._screen = ""
        self._read_to = 0
        self._master = -1
        self._process: subprocess.Popen[bytes] | None = None
        self.raw = b""
        """Every byte that has appeared."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            os.close(self._master)

    def start(self, *arguments: str | Path) -> None:
        """Start the command."""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        quiet = {"PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm-256color"}  # we do not answer questions about the cursor
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *self._cloche.command(*arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=self._cloche.cwd,
            env={**self._cloche.environment, **quiet},
            start_new_session=True,
        )
        os.close(slave)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def expect(self, pattern: str) -> str:
        """Wait until `pattern` appears after what was expected last; the text up to its end."""
        end = time.monotonic() + DEADLINE
        while True:
            found = re.compile(pattern).search(self._screen, self._read_to)
            if found is not None:
                text = self._screen[self._read_to : found.end()]
                self._read_to = found.end()
                return text
            if not self._more(end):
                raise AssertionError(f"{pattern!r} did not appear after {self._screen[self._read_to :]!r}")

    def finish(self) -> int:
        """Wait for the end of the command; its exit code."""
        if self._process is None:
            raise AssertionError("nothing was started")
        end = time.monotonic() + DEADLINE
        while self._more(end):
            continue
        return self._process.wait(DEADLINE)

    @property
    def rest(self) -> str:
        """What has appeared since the last `expect`."""
        return self._screen[self._read_to :]

    def _more(self, end: float) -> bool:
        """Read on; False at the end of the command or of our patience."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.raw += data
        self._screen = _SEQUENCE.sub("", self.raw.decode(errors="replace"))
        return bool(data)
