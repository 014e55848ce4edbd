"""The kernel: serves the host's requests, one at a time."""

from __future__ import annotations

import posix as _os
import sys
from time import perf_counter, process_time

from cloche_guest import notebook, signals, text_methods, versions, workbench
from cloche_guest import state as saving
from cloche_guest.bridges import BridgeError, Bridges
from cloche_guest.capture import flush, flush_quietly
from cloche_guest.cells import compile_cell
from cloche_guest.codes import (
    BAD_STATE,
    INTERNAL_ERROR,
    INTERRUPTED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PROTOCOL,
    TOO_LARGE,
    RequestFailed,
    StateError,
)
from cloche_guest.context_tools import bind as bind_context_tools
from cloche_guest.display import Displays
from cloche_guest.environment import use_environment
from cloche_guest.imports import CellSources, ChildFlags, NotebookImports, forget_folder, use_site_paths
from cloche_guest.namespace import Namespace
from cloche_guest.resources import limit_resources, peak_bytes
from cloche_guest.runner import Runner
from cloche_guest.signals import state
from cloche_guest.tracebacks import describe_exception
from cloche_guest.values import TooLarge, decode
from cloche_guest.variables import Variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.cells import Cell

    Attachment = list[Any] | None  # buffers
    Reply = tuple[dict[str, Any] | None, Attachment]

MAX_VALUE_TEXT = 100_000
PIECE = 1 << 20
LEAST_RECURSION = 500  # what the kernel itself needs to format an error


class Kernel:
    """One session. `link` reaches the host (`call`, `notify`); `capture` owns descriptors 1 and 2."""

    def __init__(self, link: Any, capture: Any) -> None:
        self.link = link
        self.capture = capture
        self.space = Namespace()
        self.runner = Runner(self.space.names)
        self.sources = CellSources()
        self.displays = Displays(lambda params: link.notify("display", params))
        self.bridges = Bridges(link.call, flush_quietly, self.space.current_context)
        self.workspace: str | None = None
        self.held: Any = None  # a context that was here before the session
        self.before: Callable[[str], None] | None = None
        """Called with the name of each method before that is called, while there is something to do then."""
        self.bench: workbench.Workbench | None = None  # what an agent finds beside the plain namespace
        self._methods: dict[str, Callable[[dict[str, Any], bytearray | None], Reply]] = {
            "execute": self.execute,
            "initialize": self.initialize,
            "context": self.set_context,
            "validate": self.validate,
            "snapshot": self.snapshot,
            "restore": self.restore,
            "versions": self.versions,
            "ping": lambda params, body: ({}, None),
            **Variables(self.space, lambda: self.bridges.value_limit, self._guarded).methods(),
            **{name: self._text_method(name) for name in ("preload", "load_state", "save_state")},
        }
        sys.meta_path.insert(0, self.sources)
        flags = ChildFlags()
        if "subprocess" in sys.modules:
            flags.patch(sys.modules["subprocess"])
        else:
            sys.meta_path.insert(0, flags)
        for name, function in self.bridges.standard().items():
            self.space.reserve(name, function)
        for name, function in bind_context_tools(lambda: self.space.current_context()[1]).items():
            self.space.reserve(name, function)
        show = self.displays.function()
        self.space.reserve("display", show)
        sys.meta_path.insert(0, NotebookImports(lambda: notebook.NotebookFunctions(show, self.displays)))
        self.space.reserve("BridgeError", BridgeError)

    def add_methods(self, methods: dict[str, Callable[[dict[str, Any], bytearray | None], Reply]]) -> None:
        """What only some walls can do."""
        self._methods.update(methods)

    # -- serving -------------------------------------------------------------------------------

    def serve(self) -> None:
        """Until the host goes away or says `shutdown`."""
        while self.serve_next():
            pass

    def serve_next(self) -> bool:
        """One request; whether there may be another."""
        link = self.link
        request, body = link.receive()
        if request.get("method") == "shutdown":
            link.send({"jsonrpc": "2.0", "id": request.get("id"), "result": {}})
            return False
        reply, attachment = self.answer(request, body)
        if reply is None:
            return True
        try:
            link.send(reply, attachment)
        except (TypeError, ValueError, RecursionError):  # an object of the user's got into it; nothing was sent yet
            error = {"code": INTERNAL_ERROR, "message": "the reply cannot be sent"}
            link.send({"jsonrpc": "2.0", "id": reply["id"], "error": error})
        return True

    def answer(self, request: dict[str, Any], body: bytearray | None) -> Reply:
        """The reply to one request, never an exception. None for a notification."""
        signals.begin_call()
        number = request.get("id")
        attachment = None
        try:
            if self.before is not None:
                self.before(request.get("method", ""))
            method = self._methods.get(request.get("method", ""))
            if method is None:
                raise RequestFailed(METHOD_NOT_FOUND, "no method %.60r" % (request.get("method"),))
            result, attachment = method(request.get("params") or {}, body)
            if result is None:  # another process answers
                number = None
            reply = {"jsonrpc": "2.0", "id": number, "result": result}
        except RequestFailed as exc:
            reply = {"jsonrpc": "2.0", "id": number, "error": {"code": exc.code, "message": str(exc)}}
        except (KeyError, TypeError, ValueError) as exc:
            code, text = INVALID_PARAMS, "bad parameters: %s: %s" % (type(exc).__name__, exc)
            if _is_cell(request):  # a handler that an earlier cell left for some signal may strike anywhere
                code, text = INTERNAL_ERROR, type(exc).__name__
            reply = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}
        except BaseException as exc:  # most likely no memory is left for the reply itself
            reply = {"jsonrpc": "2.0", "id": number, "error": {"code": INTERNAL_ERROR, "message": type(exc).__name__}}
        signals.end_call()
        return (None, None) if number is None else (reply, attachment)

    # -- set-up --------------------------------------------------------------------------------

    def initialize(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Limits, packages, tools and context of the session."""
        if params.get("protocol", PROTOCOL) != PROTOCOL:
            raise RequestFailed(INVALID_REQUEST, "this guest speaks protocol %d" % PROTOCOL)
        limits = params.get("limits") or {}
        self.bridges.value_limit = limits.get("value_bytes", self.bridges.value_limit)
        self.displays.limit = limits.get("display_bytes", 1 << 24)
        self.workspace = params.get("workspace")
        state.workspace = (self.workspace or _os.getcwd()) + "/"
        use_site_paths(
            params.get("path") or [], params.get("prefix"), params.get("exec_prefix"), self.workspace or _os.getcwd()
        )
        if params.get("environment") is not None:
            use_environment(params["environment"])
        self._add_tools(params.get("tools") or ())
        if "context" in params:
            self.set_context(params["context"], body)
        limit_resources(limits)
        version = "%d.%d.%d" % sys.version_info[:3]
        return {"protocol": PROTOCOL, "python": version, "pid": _os.getpid()}, None

    def _add_tools(self, tools: Any) -> None:
        for tool in tools:
            name, doc, ends = tool["name"], tool.get("doc") or "", bool(tool.get("ends"))
            if tool.get("stub") is None:
                stub = self.bridges.tool(name, doc, ends=ends)
            else:
                if self.bench is None:
                    self.bench = workbench.Workbench(self.bridges, self.space)
                stub = self.bench.stub(tool["stub"], name, doc)
            self.space.reserve(name, stub)

    def set_context(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Bind `context`: text from the attachment in the given encoding, or a plain value."""
        if params.get("none"):
            self.space.release("context")
        elif params.get("held"):
            if self.held is None:
                raise RequestFailed(INVALID_PARAMS, "there is no context that came with this guest")
            self.space.reserve("context", self.held)
            self.held = None
        elif body is not None:
            self.space.reserve("context", _decode_text(body, params["encoding"]))
        else:
            self.space.reserve("context", decode(params["value"]))
        return {}, None

    # -- cells ---------------------------------------------------------------------------------

    def execute(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Run one cell."""
        source = params["code"]
        if type(source) is not str:
            raise RequestFailed(INVALID_PARAMS, "code must be text")
        name = params.get("file")
        if name is None:
            name = "<cell %d>" % params.get("cell", 0)
            self.sources.remember(name, source)  # a name that several cells share would show lines of another
        forget_folder(self.workspace)
        self.displays.begin()
        self.capture.begin(bool(params.get("live")))
        started, cpu = perf_counter(), process_time()
        try:
            with_input = params.get("stdin")
            result = self._run(params, name) if with_input is None else self._run_with(with_input, params, name)
            result["elapsed_ms"] = (perf_counter() - started) * 1000
            result["cpu_ms"] = (process_time() - cpu) * 1000
            result["peak_bytes"] = peak_bytes()
        except BaseException as exc:
            # Not the request's fault: what was raised may have a will of its own, or a handler that the cell left
            # for some signal has struck here.
            raise RequestFailed(INTERNAL_ERROR, type(exc).__name__) from None
        return result, None

    def compile(self, params: dict[str, Any], name: str) -> Cell:
        """The cell of a request. SyntaxError for code that is not to be run."""
        return compile_cell(params["code"], name)

    def _run(self, params: dict[str, Any], name: str) -> dict[str, Any]:
        value = None
        try:
            cell = self.compile(params, name)
        except SyntaxError as exc:
            raised: BaseException | None = exc.with_traceback(None)
        else:
            value, raised = self.runner.run(cell, self._show_value)
        if state.forked:
            self._leave_child(raised)
        return self._finish(name, value, raised)

    def _run_with(self, text: str, params: dict[str, Any], name: str) -> dict[str, Any]:
        """A cell for which the host has given what it reads from standard input."""
        import io

        before = getattr(sys, "stdin", None)
        given = sys.stdin = io.StringIO(text)
        try:
            return self._run(params, name)
        finally:
            if getattr(sys, "stdin", None) is given:
                sys.stdin = before

    def _show_value(self, result: Any) -> str:
        """Called as user code: repr may do anything."""
        self.displays.show_value(result)
        text = repr(result) if self.bench is None else self.bench.show(result)
        if len(text) > MAX_VALUE_TEXT:
            text = "%s... [%d characters left out]" % (text[:MAX_VALUE_TEXT], len(text) - MAX_VALUE_TEXT)
        return text

    def _finish(self, name: str, value: str | None, raised: BaseException | None) -> dict[str, Any]:
        if raised is None and "matplotlib.pyplot" in sys.modules:
            _, raised = self.runner.guarded(self.displays.flush_figures)
        if raised is None and self.bench is not None:
            _, raised = self.runner.guarded(self.bench.after_cell)
        _, trouble = self.runner.guarded(flush)
        if trouble is not None and raised is None and isinstance(trouble, KeyboardInterrupt):
            raised = trouble
        self.capture.end()
        stdout, stderr = self.capture.streams()
        # By identity: an object that a cell put there may compare as it likes, or be missing.
        if getattr(sys, "stdout", None) is not stdout or getattr(sys, "stderr", None) is not stderr:
            sys.stdout, sys.stderr = stdout, stderr
            flush_quietly()
        self.space.restore_reserved()
        if sys.getrecursionlimit() < LEAST_RECURSION:
            sys.setrecursionlimit(LEAST_RECURSION)
        result: dict[str, Any] = {"outcome": "ok", "interrupts": state.delivered}
        if value is not None:
            result["value"] = value
        if raised is not None:
            self._report(result, name, raised)
        return result

    def _report(self, result: dict[str, Any], name: str, raised: BaseException) -> None:
        if state.concluded:  # what it raised afterwards is of no interest
            pass
        elif isinstance(raised, KeyboardInterrupt) and state.delivered:
            result["outcome"] = "interrupted"
        elif isinstance(raised, SystemExit):
            result["outcome"] = "exited"
            status, _ = self.runner.guarded(lambda: _exit_status(raised.code))  # an object of the user's
            result["code"], text = status or (1, "")
            if text:
                _, _ = self.runner.guarded(lambda: _print_error(text))
        else:
            result["outcome"] = "memory" if isinstance(raised, MemoryError) else "error"
            result["exception"] = describe_exception(raised, name)
        result["interrupts"] = state.delivered
        # Frames hold the cell's variables; nobody needs them any more.
        for link in ("__traceback__", "__context__", "__cause__"):
            BaseException.__setattr__(raised, link, None)

    def _leave_child(self, raised: BaseException | None) -> None:
        """A forked child that falls out of the cell must not answer a second time."""
        code = 0 if raised is None else 1
        if isinstance(raised, SystemExit):
            code = _exit_status(raised.code)[0]
        try:
            flush()
        finally:
            _os._exit(code & 0xFF)

    def validate(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Compile, never run."""
        try:
            self.compile(params, "<sandbox>")
        except SyntaxError as exc:
            return {"valid": False, "message": str(exc.msg), "line": exc.lineno}, None
        return {"valid": True}, None

    # -- state ---------------------------------------------------------------------------------

    def snapshot(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """All variables that can be saved."""
        limit, held = params.get("limit", 1 << 30), frozenset(params.get("held") or ())
        space = self.space
        listed, pieces = self._guarded(lambda: saving.save(space.names, space.user_names(), limit, held))
        return {"python": "%d.%d.%d" % sys.version_info[:3], **listed}, pieces

    def restore(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Put saved variables back."""
        entries, data = params["entries"], body or bytearray()
        restored, failed = self._guarded(lambda: saving.load(self.space.names, entries, data, self.space.reserved))
        return {"restored": restored, "failed": failed}, None

    def versions(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Interpreter and imported packages."""
        return self._guarded(versions.describe_versions), None

    def _text_method(self, name: str) -> Callable[[dict[str, Any], bytearray | None], Reply]:
        """Made with its first use: most sessions never have one."""

        def serve(params: dict[str, Any], body: bytearray | None) -> Reply:
            self._methods.update(text_methods.TextMethods(self.space, self._guarded).methods())
            return self._methods[name](params, body)

        return serve

    def _guarded(self, action: Callable[[], Any]) -> Any:
        """The value of `action`, which touches user objects."""
        outcome, raised = self.runner.guarded(action)
        if state.forked:
            _os._exit(0)
        if raised is None:
            return outcome
        if isinstance(raised, KeyboardInterrupt) and state.delivered:
            raise RequestFailed(INTERRUPTED, "interrupted")
        if isinstance(raised, TooLarge):
            raise RequestFailed(TOO_LARGE, str(raised))
        if isinstance(raised, StateError):
            raise RequestFailed(BAD_STATE, str(raised))
        raise RequestFailed(INVALID_PARAMS, "%s in the object's own code" % type(raised).__name__)


def _decode_text(body: bytearray, encoding: str) -> str:
    """The text of an attachment.

    UTF-8 is read in pieces: decoding it whole begins with one byte a character and copies everything each time a
    wider one comes.
    """
    if encoding != "utf-8":
        return str(body, encoding, "strict" if encoding in ("ascii", "latin-1") else "surrogatepass")
    import codecs

    decode_piece = codecs.getincrementaldecoder("utf-8")("surrogatepass").decode
    pieces = [decode_piece(body[start : start + PIECE]) for start in range(0, len(body), PIECE)]
    pieces.append(decode_piece(b"", True))
    return "".join(pieces)


def _is_cell(request: dict[str, Any]) -> bool:
    """Whether a request is to run a cell, and well formed: then it has a result, whatever happens."""
    params = request.get("params")
    return request.get("method") == "execute" and type(params) is dict and type(params.get("code")) is str


def _exit_status(code: Any) -> tuple[int, str]:
    """What the interpreter would do with ``sys.exit(code)``: a status, and a text for stderr."""
    if code is None:
        return 0, ""
    if isinstance(code, int):
        code = int.__index__(code)  # plain, whatever a subclass makes of it
        return code & 0xFF if -(2**31) <= code < 2**32 else 255, ""
    try:
        return 1, str(code)
    except Exception:  # an object of the user's that has no text: the status says enough
        return 1, ""


def _print_error(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
