"""Outputs that are too long to be shown: stored whole under a handle, with a summary in their place."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cloche.errors import MachineError
from cloche.host import guest_files
from cloche.host.abandoned import abandoned
from cloche.paths import outputs_dir
from cloche.session.hosts import Host, hold

if TYPE_CHECKING:
    from cloche.repl.config import PromptConfig

HEAD, TAIL = 15, 5
"""Lines of a summary that no model made."""
LONGEST_LINE = 200
SUMMARISED = 4000
"""Characters of a new output that a summarising model sees; the end, where results stand."""


class Spill:
    """The stored outputs of one environment."""

    def __init__(self, folder: str | None, quota_bytes: int) -> None:
        self.session_id = str(Host.here())
        self._given = folder
        self._own: Path | None = None
        self._held = -1
        self._quota = quota_bytes
        self._sizes: OrderedDict[int, int] = OrderedDict()
        self.cut: dict[int, int] = {}
        """Outputs of which not all is stored, with how many characters are."""
        self.summary = ""
        """What the model that summarises has made of all outputs so far."""

    @property
    def folder(self) -> Path:
        """Where they lie: for this session alone."""
        if self._own is None:
            base = Path(self._given) if self._given is not None else _default_folder()
            own = base / self.session_id
            own.mkdir(mode=0o700, parents=True)  # a folder that is there already is somebody else's
            self._held = guest_files.open_folder(own)
            hold(self._held)
            self._own = own
            self._remove = partial(_remove, own, self._held, os.getpid())
            self._watched = abandoned.watch(self, self._remove)
            _remove_leftovers(base)
        return self._own

    def store(self, turn: int, text: str) -> Path:
        """Keep an output whole. The oldest give way to it; one that is over the quota by itself is cut at its end.

        OSError where it cannot be written.
        """
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > self._quota:
            kept = data[: self._quota].decode("utf-8", "ignore")
            data, self.cut[turn] = kept.encode(), len(kept)
        while self._sizes and sum(self._sizes.values()) + len(data) > self._quota:
            oldest, _ = self._sizes.popitem(last=False)
            with suppress(FileNotFoundError):
                os.unlink(_name(oldest), dir_fd=self._held)
        try:
            path = self._write(turn, data)
        except FileNotFoundError:  # somebody has tidied up: the folder is gone, with all that was in it
            self._leave_folder()
            path = self._write(turn, data)
        self._sizes[turn] = len(data)
        return path

    def _write(self, turn: int, data: bytes) -> Path:
        path = self._path(turn)  # which makes the folder
        guest_files.write_file(path.name, self._held, (data,), mode=0o600)
        return path

    def read(self, turn: int) -> str | None:
        """An output by the number of its turn; None when it is not there (any more)."""
        if turn not in self._sizes:
            return None
        try:
            return guest_files.read_file(_name(turn), self._held, limit=self._quota).decode("utf-8", "surrogatepass")
        except (OSError, UnicodeDecodeError):
            return None

    def number_of(self, path: str) -> int | None:
        """The turn whose output lies in the file of that name."""
        if self._own is None or not path.startswith(f"{self._own}/"):
            return None
        return next((turn for turn in self._sizes if path == str(self._path(turn))), None)

    @property
    def turns(self) -> list[int]:
        """Those whose output can be looked at."""
        return list(self._sizes)

    @property
    def handles(self) -> list[str]:
        """Those that can be looked at."""
        return [f"out:{turn}" for turn in self._sizes]

    def clear(self) -> None:
        """Remove them all. Those of an environment that nobody closed go with it, or with the process."""
        self.summary = ""
        self._leave_folder()

    def _leave_folder(self) -> None:
        self._sizes.clear()
        self.cut.clear()
        if self._own is not None:
            self._own = None
            self._watched.cancel()
            self._remove()

    def _path(self, turn: int) -> Path:
        return self.folder / _name(turn)


def _name(turn: int) -> str:
    return f"turn_{turn}.txt"


def head_and_tail(text: str) -> str:
    """What can be said of an output without a model: how it begins and how it ends. Long lines are cut."""
    lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]  # as `peek` and `grep` count them
    if len(lines) <= HEAD + TAIL:
        return "\n".join(map(_cut, lines))
    left_out = len(lines) - HEAD - TAIL
    middle = f"... [{left_out} lines left out: {HEAD + 1} to {HEAD + left_out}]"
    return "\n".join([*map(_cut, lines[:HEAD]), middle, *map(_cut, lines[-TAIL:])])


def summary_request(previous: str, text: str, prompt: PromptConfig) -> str:
    """What a model is asked: the summary so far and the end of the new output make the new summary."""
    tail = text[-SUMMARISED:]
    before = f"Summary of the outputs so far:\n{previous}\n\n" if previous else ""
    return (
        f"{before}End of the new output ({len(text)} characters in all):\n{tail}\n\n"
        f"Write the new summary: at most {prompt.summary_lines} lines. Keep what matters for the task (findings, "
        "figures, names, errors); drop what the new output has made obsolete."
    )


def bounded_summary(answer: str, prompt: PromptConfig) -> str:
    """A model's answer within its bounds, whatever it wrote. Four characters are about a token."""
    lines = answer.strip().splitlines()[: prompt.summary_lines]
    return "\n".join(map(_cut, lines))[: prompt.summary_tokens * 4]


def compose(
    turn: int,
    text: str,
    path: Path | OSError,
    summary: str,
    prompt: PromptConfig,
    *,
    cut: int | None = None,
    ending: str = "",
) -> str:
    """What takes the place of a stored output: head, summary, and how to see more (or why it cannot be seen).

    `cut`: how many characters are in its file, if that is not all of them. `ending`: what no summary may leave out.
    """
    lines = text.count("\n") + (not text.endswith("\n"))
    size = f"{len(text)} characters, {lines} line{'' if lines == 1 else 's'}"
    part = "" if cut is None else f"the first {cut} characters "
    head = f"[Output: {size}, {part}stored as out:{turn} ({path})]"
    footer = f'[To see more: peek("out:{turn}"), peek("out:{turn}", lines=(1, 40)), grep("pattern", "out:{turn}")]'
    if isinstance(path, OSError):
        head, footer = f"[Output: {size}; it could not be stored: {path.strerror}]", ""
    ending = _fit(ending, prompt.max_output_preview // 2)
    others = [part for part in (head, ending, footer) if part]
    shown = _fit(summary, prompt.max_output_preview - sum(map(len, others)) - len(others))
    return "\n".join(part for part in (head, shown, ending, footer) if part)


def _fit(summary: str, room: int) -> str:
    keep = max(room, 80) // 2 - 3
    return summary if len(summary) <= max(room, 80) else f"{summary[:keep]}\n...\n{summary[-keep:]}"


def _default_folder() -> Path:
    try:
        return outputs_dir()
    except MachineError:  # somebody else was there first
        return Path(tempfile.mkdtemp(prefix="cloche-outputs-"))


def _remove(folder: Path, held: int, owner: int) -> None:
    os.close(held)
    if os.getpid() == owner:  # a child of the process that made it leaves it alone
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(base: Path) -> None:
    """Outputs of processes that were killed: nobody else would remove them."""
    for path in base.iterdir():
        host = Host.parse(path.name)
        if host is not None and host.has_left(str(path)):
            shutil.rmtree(path, ignore_errors=True)


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}... [{len(line) - LONGEST_LINE} more]"
