"""Compile a cell: the code to run, and apart from it the last bare expression, whose value is shown.

The obvious way builds the tree of the whole cell, takes the last expression off and compiles both parts; the
detour through Python objects costs as much again as compiling. So the cell is first cut as text, before its
last statement, and each part compiled once. That answer is taken only where it must be the tree's: a cut
inside a string, a bracket or a compound statement leaves a head that does not compile, and whatever else can
differ (see `_needs_tree`) goes to the tree at once.

A semicolon after the last expression hides its value, as in notebooks: ``plt.plot(x);``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

# Every flag that a `from __future__` import can set, in `co_flags` and as an argument of `compile` alike.
FUTURE_FLAGS = 0x1FF0000

# The `ast` module has names for these two, and costs many times what a whole cell costs.
_TOP_LEVEL_AWAIT = 0x2000
_ONLY_TREE = 0x400

# A line that starts so is not the first line of a top-level statement.
_NEVER_FIRST = " \t\n#)]}"
_CLAUSES = ("elif", "else", "except", "finally")

# A backslash before one of these is no invalid escape in any kind of literal.
_PLAIN_ESCAPES = "\n\\'\"abfnrtvx0123"

_TOO_DEEP = "the code is nested too deeply, or is too large, to be compiled"


class Cell:
    """A compiled cell."""

    __slots__ = ("body", "future_flags", "last")

    def __init__(self, body: tuple[CodeType, ...], last: CodeType | None, future_flags: int) -> None:
        #: to be executed in this order
        self.body = body
        #: to be evaluated after them, or None where the cell has no value
        self.last = last
        #: the future features in force, for a caller that wants them in the next cell too
        self.future_flags = future_flags


def compile_cell(source: str, filename: str, flags: int = 0) -> Cell:
    """Compile `source`, with top-level `await`; `flags` are future features to begin with.

    Whatever keeps the source from being compiled is a SyntaxError, with the line where there is one. A code
    object with CO_COROUTINE (0x80) in its `co_flags` gives a coroutine; others of the same cell may not.
    """
    if flags & ~FUTURE_FLAGS:
        raise ValueError("only flags of future features can be given, not %#x" % flags)
    # What the compiler does too; done here so that one kind of line end is left to think about.
    text = source.replace("\r\n", "\n").replace("\r", "\n") if "\r" in source else source
    if "\0" in text:
        raise _unreadable(text, text.index("\0"), filename, "a null character")
    try:
        cell = _split_text(text, filename, flags | _TOP_LEVEL_AWAIT)
        return _split_tree(text, filename, flags | _TOP_LEVEL_AWAIT) if cell is None else cell
    except SyntaxError as error:
        _fill_in_line(error, text)
        raise
    except UnicodeEncodeError as error:
        raise _unreadable(error.object, error.start, filename, "half of a surrogate pair") from None
    except (RecursionError, MemoryError):
        raise SyntaxError(_TOO_DEEP, (filename, None, None, None)) from None


def _split_text(text: str, filename: str, flags: int) -> Cell | None:
    """Cut before the last statement; None where only the tree can tell."""
    if _needs_tree(text):
        return None
    start = _last_statement(text)
    if start < 0:
        if "\\" in text:
            return None
        compile(text, filename, "exec", flags, True)
        return Cell((), None, flags & FUTURE_FLAGS)
    head = text[:start]
    if not head.strip(" \t\n"):
        return _one_statement(text, start, filename, flags)
    if _may_import_future(text, start):
        return None
    try:
        first = compile(head, filename, "exec", flags, True)
    except SyntaxError:
        # No statement starts there: the cell may still be one long expression.
        return _expression(text, filename, flags)
    flags |= first.co_flags & FUTURE_FLAGS
    padding = "\n" * head.count("\n")
    rest = _one_statement(padding + text[start:], len(padding), filename, flags)
    if rest is None or any(_is_a_whole_module(code, first) for code in rest.body):
        return None
    return Cell((first, *rest.body), rest.last, rest.future_flags)


def _one_statement(text: str, start: int, filename: str, flags: int) -> Cell | None:
    """Compile text in which only one line, at `start`, begins a statement."""
    if not _is_assignment(text, start):
        cell = _expression(text, filename, flags)
        if cell is not None:
            return cell
        if text.rstrip(" \t\n").endswith("\\") or _is_starred(text, filename, flags):
            return None
    try:
        if ";" in text:
            return _split_tree(text, filename, flags)
        code = compile(text, filename, "exec", flags, True)
    except SyntaxError:
        return None
    return Cell((code,), None, code.co_flags & FUTURE_FLAGS)


def _expression(text: str, filename: str, flags: int) -> Cell | None:
    """Compile text that is one expression; None where it is not."""
    try:
        # In this mode blanks on the last line are an error.
        code = compile(text.rstrip(" \t\n"), filename, "eval", flags, True)
    except SyntaxError:
        return None
    return Cell((), code, flags & FUTURE_FLAGS)


def _is_assignment(text: str, start: int) -> bool:
    """Whether this is ``name = ...``: common enough to save the attempt to take it for an expression."""
    equals = text.find("=", start)
    if equals < 0 or text.startswith("==", equals):
        return False
    return text[start:equals].rstrip(" ").isidentifier()


def _is_starred(text: str, filename: str, flags: int) -> bool:
    """Whether this may be a tuple such as ``*a, b``: fine as a statement, but `eval` wants it in brackets."""
    return "*" in text and "," in text and _expression("(%s\n)" % text, filename, flags) is not None


def _split_tree(text: str, filename: str, flags: int) -> Cell:
    """Take the last expression off the tree of the whole text."""
    import _ast

    try:
        # Any: typeshed describes the tree in `ast` only, which is not to be imported.
        tree: Any = compile(text, filename, "exec", flags | _ONLY_TREE, True)
        body: tuple[CodeType, ...] = ()
        last = value = None
        if tree.body and isinstance(tree.body[-1], _ast.Expr) and not semicolon_after(tree.body[-1], text):
            last = tree.body.pop()
        if tree.body:
            body = (compile(tree, filename, "exec", flags, True),)
            flags |= body[0].co_flags & FUTURE_FLAGS
        if last is not None:
            value = compile(_ast.Expression(last.value), filename, "eval", flags, True)
        return Cell(body, value, flags & FUTURE_FLAGS)
    except RecursionError:
        # A tree may be nested less deeply than code: better to run the cell without a value than not at all.
        code = compile(text, filename, "exec", flags, True)
        return Cell((code,), None, code.co_flags & FUTURE_FLAGS)


def _needs_tree(text: str) -> bool:
    """Whether parts of the text, compiled by themselves, could mean something else than the whole."""
    return (
        # Resets the column, so that an indented line can start a statement.
        "\f" in text
        # Its rules hold for the whole cell: no use before the declaration, no annotation after it.
        or "global" in text
        # Some literal may draw a warning, and would draw it again each time a part is tried.
        or any(part[:1] not in _PLAIN_ESCAPES for part in text.split("\\")[1:])
    )


def _last_statement(text: str) -> int:
    """Where the last line begins that can be the first of a top-level statement; -1 if there is none."""
    end = len(text)
    while True:
        start = text.rfind("\n", 0, end) + 1
        if text[start : start + 1] not in _NEVER_FIRST and not _is_clause(text, start):
            break
        if start == 0:
            return -1
        end = start - 1
    if text.startswith(("def ", "class ", "async "), start):
        # Decorators belong to what they decorate.
        while start > 0:
            above = text.rfind("\n", 0, start - 1) + 1
            if text[above] != "@":
                break
            start = above
    return start


def _is_clause(text: str, start: int) -> bool:
    """Whether a later clause of a compound statement starts here."""
    for word in _CLAUSES:
        if text.startswith(word, start):
            after = text[start + len(word) : start + len(word) + 1]
            return not (after.isalnum() or after == "_" or after > "\x7f")
    return False


def _may_import_future(text: str, start: int) -> bool:
    """Such an import is allowed at the start of a cell only, and this text is not at the start."""
    if text.find("__future__", start) >= 0:
        return True
    # Names are compared in their normal form: wide letters can spell that module too.
    return text.find("from", start) >= 0 and not text[start:].isascii()


def _is_a_whole_module(code: CodeType, first: CodeType) -> bool:
    """Whether code does what is done once for a module, and here would be done again after `first`."""
    # A string as its first statement became a docstring. 3.14 makes one function of all annotations.
    return "__doc__" in code.co_names or ("__annotate__" in code.co_names and "__annotate__" in first.co_names)


def semicolon_after(last: Any, text: str) -> bool:
    """Whether a semicolon follows the last expression. No string can, so there `#` starts a comment."""
    lines = text.split("\n")[last.end_lineno - 1 :]
    lines[0] = lines[0].encode()[last.end_col_offset :].decode()
    return any(";" in line.partition("#")[0] for line in lines)


def _unreadable(source: str, index: int, filename: str, what: str) -> SyntaxError:
    """An error for a character that no program can contain."""
    start = source.rfind("\n", 0, index) + 1
    # Shown as a question mark: what cannot be compiled often cannot be printed or sent either.
    line = source[start:index] + "?" + source[index + 1 :].partition("\n")[0]
    line = line.replace("\0", "?").encode("utf-8", "replace").decode()
    place = (filename, source.count("\n", 0, index) + 1, index - start + 1, line + "\n")
    return SyntaxError("the code contains %s, %s" % (what, ascii(source[index])), place)


def _fill_in_line(error: SyntaxError, text: str) -> None:
    """Later stages of the compiler look for the line in a file of the cell's name, and there is none."""
    if error.text is None and error.lineno:
        lines = text.split("\n")
        if error.lineno <= len(lines):
            error.text = lines[error.lineno - 1] + "\n"
