"""Exceptions as text: the user's frames only, right lines, bounded length."""

from __future__ import annotations

import sys

from cloche_guest.signals import DATA_FILE, KERNEL_FILE, state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_TEXT = 100_000
_FOLDER = KERNEL_FILE.rpartition("/")[0]
"""Where our modules lie when they are modules like others, and not one bundle that is nowhere."""


def describe_exception(exc: BaseException, cell: str) -> dict[str, Any]:
    """Type, message, line, traceback. `str(exc)` is user code: it may raise or hang, and is interruptible."""
    traceback: Any = None
    try:
        import linecache  # noqa: F401 - imported here, masked: an interrupt must not leave half a module behind
        import traceback
    except Exception:  # out of descriptors or memory, which may be the very error that is described
        pass
    report = None
    trouble = ""
    state.user = True
    try:
        report = _format(traceback, exc, cell)
    except BaseException as second:
        trouble = type(second).__name__
    state.user = False
    if report is None:
        text = "%s: <%s while formatting the message>" % (_type_name(exc), trouble)
        report = {"type": _type_name(exc), "message": text, "line": _line_in(exc, cell), "traceback": text + "\n"}
    return report


def _format(traceback: Any, exc: BaseException, cell: str) -> dict[str, Any]:
    text = ""
    if traceback is not None:
        tree = traceback.TracebackException(type(exc), exc, exc.__traceback__)
        _drop_kernel_frames(tree)
        text = "".join(tree.format())
    try:
        message = str(exc)
    except Exception as second:
        message = "<%s in str()>" % type(second).__name__
    if isinstance(exc, SyntaxError):
        message = str(exc.msg)
    return {
        "type": _type_name(exc),
        "message": _shorten(message),
        "line": _line_in(exc, cell),
        "traceback": _shorten(text or "%s: %s\n" % (_type_name(exc), message)),
    }


def _drop_kernel_frames(root: Any) -> None:
    queue, seen = [root], set()
    while queue:
        node = queue.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        stack = list(node.stack)
        if stack and stack[0].filename == KERNEL_FILE:
            # Between the kernel and a cell that awaits lie frames of asyncio, which are the kernel's doing.
            cells = [index for index, frame in enumerate(stack) if frame.filename.startswith(("<cell ", "<string>"))]
            stack = stack[cells[0] :] if cells else stack
        node.stack[:] = [frame for frame in stack if not _is_ours(frame.filename)]
        queue += [node.__cause__, node.__context__]
        queue += getattr(node, "exceptions", None) or ()


def _is_ours(filename: str) -> bool:
    return filename in (KERNEL_FILE, DATA_FILE) or bool(_FOLDER and filename.startswith(_FOLDER + "/"))


def _line_in(exc: BaseException, cell: str) -> int | None:
    """The innermost line of the current cell."""
    line = None
    if isinstance(exc, SyntaxError) and exc.filename == cell:
        return exc.lineno
    trace = exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == cell:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _type_name(exc: BaseException) -> str:
    # By the type's own descriptors: a metaclass could run code of the user's here.
    name = type.__dict__["__qualname__"].__get__(type(exc))
    module = type.__dict__["__module__"].__get__(type(exc))
    if type(module) is not str or module in ("builtins", "__main__", KERNEL_FILE) or module.startswith("cloche_guest"):
        return str(name)[:200]
    return ("%s.%s" % (module, name))[:200]


def _shorten(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return "%s\n... [%d characters left out] ...\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def strip_thread_tracebacks() -> None:
    """Have exceptions that end a thread printed without our frames, unless the user has a hook of his own."""
    threading: Any = sys.modules.get("threading")
    if threading is not None and isinstance(threading.excepthook, type(len)):  # still the interpreter's
        threading.excepthook = _print_thread_exception


def _print_thread_exception(args: Any) -> None:
    import traceback

    if args.exc_type is SystemExit:
        return
    tree = traceback.TracebackException(args.exc_type, args.exc_value, args.exc_traceback)
    _drop_kernel_frames(tree)
    name = getattr(args.thread, "name", "?")
    sys.stderr.write("Exception in thread %s:\n%s" % (name, "".join(tree.format())))
