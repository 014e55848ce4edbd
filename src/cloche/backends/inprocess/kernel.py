"""The kernel of a session that runs in the host's own process and thread. Nothing of the host's is changed by it."""

from __future__ import annotations

import builtins
import linecache
import threading
from collections import deque
from functools import partial
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from cloche.backends.inprocess.bridging import Counter, InlineBridges
from cloche.backends.inprocess.deadlines import CellStopped, StopReason, is_ours, watchdog
from cloche.backends.inprocess.guards import violations_in
from cloche.backends.inprocess.streams import CellOutput, streams
from cloche.isolation import Isolation
from cloche.session.channel import NOTHING_COUNTED, Counted
from cloche.session.displays import CellDisplays
from cloche.session.output import OutputSink
from cloche.session.workspace import NOTHING
from cloche_guest.bridges import BridgeError
from cloche_guest.cells import compile_cell
from cloche_guest.context_tools import bind as bind_context_tools
from cloche_guest.display import Displays
from cloche_guest.guarded.refusals import read_violations, refuse
from cloche_guest.guarded.restricted import Restriction
from cloche_guest.namespace import Exit, Help, Namespace, no_terminal
from cloche_guest.tracebacks import describe_exception
from cloche_guest.values import decode
from cloche_guest.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.backends.inprocess.bridging import Serve
    from cloche.result import Display
    from cloche.session.actions import Stream
    from cloche.session.live import LiveSession
    from cloche.session.workspace import Delta, Workspace
    from cloche_guest.cells import Cell

    Listener = Callable[[Stream, str], object]

MOST_SOURCES = 1000
MAX_VALUE_TEXT = 100_000
COROUTINE = 0x80
_UNBOUND = object()


class InlineNamespace(Namespace):
    """The guest's namespace, without what it does to a process of its own."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.names = {"__name__": "__main__", "__builtins__": found}
        self.reserved = {}


class _Untouched:
    """A workspace that cells do not reach, since the guards refuse what opens files: looking would be in vain."""

    def __init__(self, workspace: Workspace) -> None:
        self.root = workspace.root
        self.private = workspace.private

    def after_cell(self) -> Delta:
        return NOTHING


class InlineKernel:
    """One session: its names, its output, and how its cells are compiled and run. Also what a result is built of."""

    isolation = Isolation.NONE
    layers: tuple[str, ...] = ()

    def __init__(self, session: LiveSession, restriction: Restriction | None) -> None:
        self._session = session
        self._restriction = restriction
        policy = session.policy
        self.counter = Counter(session)
        self.counter.on_end = self._mute
        self.outputs = CellOutput("stdout"), CellOutput("stderr")
        self.sinks: dict[Stream, OutputSink] = {}
        self._taken = CellDisplays(0)
        self.trouble: BaseException | None = None
        """What the listener of the last run raised."""
        self.stopped: StopReason | None = None
        """Why the last run was told to stop."""
        self._shown = Displays(self._take_display)
        self._shown.limit = policy.display_max_bytes
        self.workspace = _Untouched(session.folder.workspace)
        self._mark = f" of session {session.number}>"
        self._named: deque[str] = deque()
        self._context: Any = _UNBOUND
        self.space = InlineNamespace(self._builtins())
        self.bridges = InlineBridges(self.counter, self._flush, self.space.current_context, policy.value_max_bytes)
        self._bench: Workbench | None = None
        self._reserve()

    def _builtins(self) -> dict[str, Any]:
        """A table of its own: what a cell does to it, or we do, the host does not see."""
        found = dict(vars(builtins)) if self._restriction is None else dict(self._restriction.builtins)
        found.update({"exit": Exit("exit"), "quit": Exit("quit"), "help": Help(), "input": no_terminal})
        plain, stdout = print, self.outputs[0]

        def print_(*values: Any, file: Any = None, **options: Any) -> None:
            """Print to the cell's output, whatever `sys.stdout` is."""
            plain(*values, file=stdout if file is None else file, **options)

        print_.__name__ = print_.__qualname__ = "print"
        found["print"] = print_
        return found

    def _reserve(self) -> None:
        space, bridges = self.space, self.bridges
        for name, function in {
            **bridges.standard(),
            **bind_context_tools(lambda: self.space.current_context()[1]),
            "display": self._shown.function(),
            "BridgeError": BridgeError,
        }.items():
            space.reserve(name, function)
        for tool in self._session.callbacks.descriptions:
            name, doc = tool["name"], tool.get("doc") or ""
            if tool.get("stub") is None:
                space.reserve(name, bridges.tool(name, doc, ends=bool(tool.get("ends"))))
                continue
            if self._bench is None:
                self._bench = Workbench(bridges, space)
            space.reserve(name, self._bench.stub(tool["stub"], name, doc))

    # -- context -------------------------------------------------------------------------------

    def bind_context(self) -> None:
        """What the host has given as context by now. Anything but text as a copy, which is the cell's own."""
        context = self._session.context
        if context is self._context:
            return
        if context is None:
            self.space.release("context")
        elif type(context) is str:
            self.space.reserve("context", context)
        else:
            from cloche.session.operations import outgoing

            self.space.reserve("context", decode(outgoing(context, self._session.policy.value_max_bytes, "context")))
        self._context = context

    # -- cells ---------------------------------------------------------------------------------

    def compile(self, source: str, name: str) -> Cell:
        """The cell, as far as the guard lets it be one."""
        if self._restriction is not None:
            return self._restriction.compile(source, name)
        cell = compile_cell(source, name)
        found = violations_in(source)
        if found:
            raise refuse(read_violations(found), source, name)
        return cell

    def run_cell(
        self, source: str, number: int, started: float, limit_ms: int, listener: Listener | None, serve: Serve | None
    ) -> dict[str, Any]:
        """Run a cell; what a guest would have replied."""
        name = f"<cell {number}{self._mark}"
        policy = self._session.policy
        self.sinks = {
            "stdout": OutputSink(policy.max_output_length, policy.stdout_max_bytes),
            "stderr": OutputSink(policy.max_output_length, policy.stderr_max_bytes),
        }
        self._taken = CellDisplays(policy.display_max_bytes)
        self._shown.begin()
        began, cpu = perf_counter(), thread_time()
        result: dict[str, Any] = {"outcome": "ok"}
        struck = 0
        try:
            cell = self.compile(source, name)
        except SyntaxError as exc:
            self.counter.desk.begin_call()
            self.stopped = self.trouble = self.counter.concluded_by = None
            self._report(result, name, exc.with_traceback(None))
        else:
            self._remember(name, source)
            act = partial(self._perform_and_report, cell, name, result)
            _, raised, struck = self.supervised(act, started, limit_ms, listener, serve)
            if raised_by_host(raised):
                raise KeyboardInterrupt
            if raised is not None and self.counter.concluded_by is None:
                self._report(result, name, raised)
        result["interrupts"] = struck
        result["elapsed_ms"] = (perf_counter() - began) * 1000
        result["cpu_ms"] = (thread_time() - cpu) * 1000
        return result

    def supervised(
        self,
        action: Callable[[], Any],
        started: float,
        limit_ms: int,
        listener: Listener | None = None,
        serve: Serve | None = None,
    ) -> tuple[Any, BaseException | None, int]:
        """(what it returned, what it raised, how often it was told to stop). Runs code that may do anything."""
        value: Any = None
        raised: BaseException | None = None
        self.trouble = None
        counter = self.counter
        for output, sink in zip(self.outputs, self.sinks.values(), strict=False):
            output.begin(sink, self._guarded_listener(listener))
        alarm = counter.begin(started, limit_ms, serve)
        before = streams.lend(self.outputs)
        try:
            try:
                watchdog.watch(alarm)
                value = action()
                self._flush()
            except BaseException as exc:  # noqa: BLE001 - whatever a cell raises is its result
                raised = exc
            watchdog.leave(alarm)
        except CellStopped as exc:  # it came between the cell's last instruction and the line above
            watchdog.leave(alarm)
            raised = raised or exc
        told = alarm.struck or counter.abandoned or alarm.reason == "cancelled"
        self.stopped = alarm.reason if told else None
        counter.alarm = None
        streams.give_back(before)
        self._mute()
        self.space.restore_reserved()
        return value, raised, alarm.struck

    def _guarded_listener(self, listener: Listener | None) -> Listener | None:
        """Called with the host's streams and without the cell's deadline. What it raises ends the cell."""
        if listener is None:
            return None

        def tell(stream: Stream, text: str) -> None:
            try:
                with self.counter.host_at_work():
                    listener(stream, text)
            except BaseException as exc:  # noqa: BLE001 - raised again in the caller's code, when the cell has ended
                self.trouble = exc
            if self.trouble is not None:
                self.counter.cancel()
                raise CellStopped

        return tell

    def _flush(self) -> None:
        for output in self.outputs:
            output.flush()

    def _mute(self) -> None:
        for output in self.outputs:
            output.end()

    def _perform_and_report(self, cell: Cell, name: str, result: dict[str, Any]) -> None:
        """Run a cell, and put what became of it into words: that too is the cell's code, and under its deadline."""
        try:
            value = self._perform(cell)
        except BaseException as exc:
            if isinstance(exc, CellStopped) or raised_by_host(exc):
                raise
            if self.counter.concluded_by is None:
                self._report(result, name, exc)
        else:
            if value is not None:
                result["value"] = value

    def _perform(self, cell: Cell) -> str | None:
        names = self.space.names
        value: str | None = None
        for code in cell.body:
            if code.co_flags & COROUTINE:
                raise _no_await()
            exec(code, names)
        if cell.last is not None:
            if cell.last.co_flags & COROUTINE:
                raise _no_await()
            result = eval(cell.last, names)
            if result is not None:
                names["_"] = result
                value = self._show(result)
        if self._bench is not None:
            self._bench.after_cell()
        return value

    def _show(self, result: Any) -> str:
        self._shown.show_value(result)
        text = repr(result) if self._bench is None else self._bench.show(result)
        if len(text) > MAX_VALUE_TEXT:
            text = f"{text[:MAX_VALUE_TEXT]}... [{len(text) - MAX_VALUE_TEXT} characters left out]"
        return text

    def _take_display(self, params: dict[str, Any]) -> None:
        self._taken.take(params)

    @property
    def displays(self) -> list[Display]:
        """What the cell has shown."""
        return self._taken.shown

    # -- what became of it ---------------------------------------------------------------------

    def _report(self, result: dict[str, Any], name: str, raised: BaseException) -> None:
        if isinstance(raised, CellStopped):
            result["outcome"] = "interrupted"
        elif isinstance(raised, SystemExit):
            result["outcome"] = "exited"
            code = raised.code
            result["code"] = 0 if code is None else code & 0xFF if isinstance(code, int) else 1
            if code is not None and not isinstance(code, int):
                self.sinks["stderr"].feed(f"{code}\n".encode("utf-8", "backslashreplace"))
        else:
            result["outcome"] = "memory" if isinstance(raised, MemoryError) else "error"
            self._strip_own_frames(raised)
            told = describe_exception(raised, name)
            for part in ("message", "traceback"):
                told[part] = told[part].replace(self._mark, ">")
            result["exception"] = told
        raised.__traceback__ = None  # frames hold the cell's variables; nobody needs them any more

    def _strip_own_frames(self, raised: BaseException) -> None:
        kept = []
        trace = raised.__traceback__
        while trace is not None:
            if not is_ours(trace.tb_frame.f_code.co_filename):
                kept.append(trace)
            trace = trace.tb_next
        for index, entry in enumerate(kept):
            entry.tb_next = kept[index + 1] if index + 1 < len(kept) else None
        raised.__traceback__ = kept[0] if kept else None

    def _remember(self, name: str, source: str) -> None:
        """Lines for tracebacks. The name in there is this session's alone: others have a cell of that number too."""
        lines = [line + "\n" for line in source.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
        linecache.cache[name] = (len(source), None, lines, name)
        self._named.append(name)
        if len(self._named) > MOST_SOURCES:
            linecache.cache.pop(self._named.popleft(), None)

    def forget(self) -> None:
        """The session is over, or begins anew."""
        event = "destroy" if self._session.closed else "reset"
        self._session.logger.log_session_event(
            event, session=self._session.folder.id, backend=self._session.backend.name
        )
        while self._named:
            linecache.cache.pop(self._named.popleft(), None)

    # -- what a result is built of --------------------------------------------------------------

    def counted(self) -> Counted:
        return NOTHING_COUNTED

    @property
    def desk(self) -> Any:
        return self.counter.desk

    @property
    def bridge_seconds(self) -> float:
        return self.counter.clock.bridge_seconds


def _no_await() -> RuntimeError:
    return RuntimeError("await at top level needs an event loop of its own: use worker='process'")


def raised_by_host(raised: BaseException | None) -> bool:
    """Whether this is the user's Ctrl-C, and not a KeyboardInterrupt that the cell itself raised."""
    if not isinstance(raised, KeyboardInterrupt) or isinstance(raised, CellStopped):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    trace = raised.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return True
    import dis

    code = trace.tb_frame.f_code.co_code
    return dis.opname[code[trace.tb_lasti]] != "RAISE_VARARGS"
