"""Commands of the prompt: lines that begin with a colon."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloche.cli.inputs import placements
from cloche.cli.named import NamedSession
from cloche.cli.outputs import fetch, fetch_to
from cloche.cli.quantities import milliseconds
from cloche.cli.terminal import one_line
from cloche.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloche.sandbox import SessionSandbox

COMMANDS = {
    ":help": ("", "this list"),
    ":vars": ("", "your variables and their types"),
    ":reset": ("", "forget all variables and empty a private workspace; the context stays"),
    ":files": ("", "the files of the workspace"),
    ":get": ("PATH [DEST]", "copy a file out of the workspace"),
    ":put": ("FILE [DEST]", "copy a file or folder into the workspace"),
    ":save": ("NAME", "keep this session under a name, and go on in it; each cell is saved from then on"),
    ":timeout": ("TIME", "the deadline of each cell: 500ms, 2s, 1m"),
    ":quit": ("", "leave, as Ctrl-D does"),
}
"""Name, arguments (in brackets where they may be left out), meaning."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found: lines for people, data for programs."""

    lines: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    leave: bool = False
    changed: bool = False
    """The session is another than before, and is to be saved."""


class ReplCommands:
    """Carries out commands in one session."""

    table: Mapping[str, tuple[str, str]] = COMMANDS

    def __init__(self, sandbox: SessionSandbox, session: NamedSession) -> None:
        self._sandbox = sandbox
        self._session = session
        self.timeout_ms: int | None = None

    def run(self, line: str) -> Answer:
        """Carry out one line."""
        try:
            name, *arguments = shlex.split(line)
        except ValueError as exc:
            raise RequestError(f"{line!r} cannot be read", cause=str(exc)) from None
        if name not in self.table:
            raise RequestError(f"there is no command {name}", remedy=f"one of: {' '.join(self.table)}")
        usage = self.table[name][0].split()
        needed = [word for word in usage if not word.startswith("[")]
        if not len(needed) <= len(arguments) <= len(usage):
            raise RequestError(f"{name} does not take that", remedy=f"{name} {self.table[name][0]}".rstrip())
        action: Callable[..., Answer] = getattr(self, f"_{name[1:]}")
        return action(*arguments)

    def _help(self) -> Answer:
        usages = {f"{name} {arguments}".rstrip(): meaning for name, (arguments, meaning) in self.table.items()}
        return Answer(_columns(usages), {"commands": usages})

    def _vars(self) -> Answer:
        found = self._sandbox.list_variables(timeout_ms=self.timeout_ms)
        return Answer(_columns(found) or ["no variables yet"], {"variables": found})

    def _reset(self) -> Answer:
        self._sandbox.reset()
        return Answer(["the session starts afresh"], {"reset": True}, changed=True)

    def _files(self) -> Answer:
        found = {item.path: item.size for item in self._sandbox.list_files()}
        lines = _columns({path: f"{size} bytes" for path, size in found.items()})
        return Answer(lines or ["the workspace is empty"], {"files": found})

    def _get(self, path: str, place: str = "") -> Answer:
        wanted = fetch_to(path, str(Path(place).expanduser()) if place else "")
        wanted.refuse_guests(self._sandbox)
        target = fetch(self._sandbox, wanted)
        return Answer([f"saved {one_line(target)}"], {"saved": str(target)})

    def _put(self, source: str, target: str = "") -> Answer:
        placed = placements(Path(source).expanduser(), target)
        for placement in placed:
            self._sandbox.put_file(placement.target, placement.read())
        names = [placement.target for placement in placed]
        return Answer([f"put {', '.join(map(one_line, names))}"], {"put": names}, changed=True)

    def _save(self, name: str) -> Answer:
        kept = self._session.rename(name)
        return Answer(
            [*kept.notes, f"this is the session {name!r} now; come back with: cloche repl --session {name}"],
            {"session": kept.data},
        )

    def _timeout(self, text: str) -> Answer:
        try:
            self.timeout_ms = milliseconds(text)
        except ValueError as exc:
            raise RequestError(str(exc)) from None
        return Answer([f"each cell has {self.timeout_ms} ms"], {"timeout_ms": self.timeout_ms})

    def _quit(self) -> Answer:
        return Answer(leave=True)


def _columns(pairs: dict[str, str]) -> list[str]:
    lines = [(one_line(left), one_line(right)) for left, right in pairs.items()]
    width = max((len(left) for left, _ in lines), default=0)
    return [f"{left:<{width}}  {right}" for left, right in lines]
