"""The interactive prompt: history, multi-line editing, completion in the live session."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.lexers import Lexer, PygmentsLexer

from cloche.cli.repl_input import COMMAND_SIGN, needs_more
from cloche.errors import ClocheError
from cloche.paths import cache_dir

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from prompt_toolkit.application.application import Application
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyPressEvent

    from cloche.sandbox import SessionSandbox

HISTORY_FILE = "repl_history"
_INDENT = "    "
_COMPLETE_MS = 1_000
_NAME = re.compile(r"[^\W\d][\w.]*$")


class SessionCompleter(Completer):
    """Names as the guest knows them. Trouble is kept in `trouble` to be told after the line was entered."""

    def __init__(self, sandbox: SessionSandbox, commands: Collection[str]) -> None:
        self._sandbox = sandbox
        self._commands = commands
        self.trouble: ClocheError | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith(COMMAND_SIGN) and " " not in before:
            yield from (Completion(name, -len(before)) for name in self._commands if name.startswith(before))
            return
        found = _NAME.search(before)
        if found is None:
            return
        try:
            matches = self._sandbox.complete(found[0], timeout_ms=_COMPLETE_MS)
        except ClocheError as exc:
            self.trouble = exc
            return
        stem = found[0].rpartition(".")[0]
        for match in matches:
            yield Completion(match, -len(found[0]), display=match[len(stem) + 1 if stem else 0 :])


class Prompt:
    """Reads cells from a person."""

    def __init__(self, sandbox: SessionSandbox, commands: Collection[str]) -> None:
        self.completer = SessionCompleter(sandbox, commands)
        self._session: PromptSession[str] = PromptSession(
            history=open_history(),
            lexer=_lexer(),
            completer=self.completer,
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            multiline=True,
            prompt_continuation="... ",
            key_bindings=_keys(),
        )

    def read(self) -> str:
        """One cell. EOFError on Ctrl-D, KeyboardInterrupt on Ctrl-C."""
        return self._session.prompt(">>> ")


def open_history() -> History:
    """Past cells, in a file that only its owner can read; in memory where none can be written."""
    try:
        path = cache_dir() / HISTORY_FILE
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600))
        path.chmod(0o600)
    except (OSError, ClocheError):
        return InMemoryHistory()
    return FileHistory(str(path))


def _lexer() -> Lexer:
    from pygments.lexers.python import PythonLexer  # type: ignore[import-untyped]  # ships without types

    return PygmentsLexer(PythonLexer)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        document = buffer.document
        if document.text_after_cursor.strip() or needs_more(document.text):
            line = document.current_line_before_cursor
            buffer.newline(copy_margin=True)
            if line.rstrip().endswith(":"):
                buffer.insert_text(_INDENT)
        else:
            buffer.validate_and_handle()

    @keys.add("tab", filter=Condition(_only_blanks_before_cursor))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(_INDENT)

    return keys


def _only_blanks_before_cursor() -> bool:
    from prompt_toolkit.application import get_app

    application: Application[object] = get_app()
    return not application.current_buffer.document.current_line_before_cursor.strip()
