"""The REPL server: requests between marker lines on stdin, responses on stdout. See docs/repl-server.md."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # no stub; `signal` itself costs an import of enum
import posix as _os

from cloche_guest.c_library import give_up_looking, let_others_look
from cloche_guest.capture import keep_private, take_wire
from cloche_guest.codes import PROTOCOL
from cloche_guest.plain_json import dumps, loads
from cloche_guest.preloads import PRELOAD_MODULES
from cloche_guest.repl_files import Folder
from cloche_guest.repl_frames import CUT, READY, REQUEST, RESPONSE, DelimitedReader, cut_out_state, enclose, is_base64
from cloche_guest.repl_front import HostGone, Interpreter, InterpreterEnded, TimeIsOver, enlarge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

CHUNK = 1 << 20
MIB = 1 << 20
DISPLAY_BYTES = 1 << 24
LONGEST_LOGGED = 2000
TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
FILE = "<string>"
FIELDS = {"code": str, "state": str, "capture_state": bool, "partial_state": bool}


class Settings:
    """From the environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.debug = _truth("DEBUG", environment.get("DEBUG", "false"))
        self.state_limit = _size("STATE_MAX_SIZE_MB", environment.get("STATE_MAX_SIZE_MB", "256")) * MIB
        self.modules = _modules(environment.get("PRELOAD_MODULES"))


def _truth(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in TRUE + FALSE:
        raise ValueError("%s must be true or false, not %.40r" % (name, text))
    return word in TRUE


def _size(name: str, text: str) -> int:
    if not text.strip().isdigit() or not int(text):
        raise ValueError("%s must be a whole number of megabytes, not %.40r" % (name, text))
    return int(text)


def _modules(text: str | None) -> list[str]:
    """Names separated by commas; after a plus sign, in addition to the usual ones."""
    if text is None:
        return list(PRELOAD_MODULES)
    more = text.strip().startswith("+")
    names = [name.strip() for name in text.strip().lstrip("+").split(",") if name.strip()]
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ValueError("PRELOAD_MODULES must be names of modules with commas between, and %.40r is none" % name)
    return PRELOAD_MODULES + names if more else names


class Server:
    """Serves one request after the other; variables stay from one to the next."""

    def __init__(self, settings: Settings, reader: int, writer: int, log: int) -> None:
        self._settings = settings
        self._reader, self._writer, self._log = reader, writer, log
        self._frames = DelimitedReader(REQUEST)
        self._folder = Folder(_os.getcwd())
        self._deadly: set[str] = set()  # modules that end the interpreter when they are imported
        self._interpreter = self._start()
        self._ended = False  # it has; a fresh one is started when the response is out

    # -- the interpreter -----------------------------------------------------------------------

    def _start(self) -> Interpreter:
        """A fresh one, with everything imported."""
        while True:
            interpreter = Interpreter((self._reader, self._writer, self._log), self._writer)
            module = ""
            try:
                limits = {"display_bytes": DISPLAY_BYTES}
                interpreter.call("initialize", {"protocol": PROTOCOL, "workspace": _os.getcwd(), "limits": limits})
                interpreter.call("preload", {"only": True, "modules": []})
                for module in self._settings.modules:
                    if module not in self._deadly:
                        reply, _ = interpreter.call("preload", {"modules": [module]})
                        for name, why in (reply.get("result") or {}).get("left_out", ()):
                            if why != "not installed" or self._settings.debug:
                                _say(self._log, "%s was not imported: %s" % (name, why))
                interpreter.call("save_state", {}, most=CHUNK)  # so that what writes states is imported as well
                interpreter.out.take()
                interpreter.err.take()
                return interpreter
            except InterpreterEnded as exc:
                if not module:
                    raise
                _say(self._log, "%s was not imported: %s" % (module, exc))
                self._deadly.add(module)

    # -- the wire ------------------------------------------------------------------------------

    def serve(self) -> None:
        """Until the host goes away."""
        self._write([READY + b"\n"])
        while True:
            self._interpreter = self._wait_for_host(self._interpreter)
            data = _os.read(self._reader, CHUNK)
            if not data:
                return
            for is_frame, parts in self._frames.feed(data):
                if is_frame:
                    response = self._serve(parts)
                    self._write(enclose(RESPONSE, *_texts(response)))
                    del response
                    if self._ended:
                        self._interpreter, self._ended = self._start(), False
                elif self._settings.debug:
                    _say(self._log, "not in a frame: %.200r" % parts[0])

    def interrupt(self) -> None:
        """Stop the code that runs, as Ctrl-C would."""
        try:
            _os.kill(self._interpreter.pid, _signal.SIGINT)
        except OSError:  # it has ended by itself
            pass

    def _wait_for_host(self, interpreter: Interpreter) -> Interpreter:
        try:
            interpreter.idle_until(self._reader)
        except InterpreterEnded as exc:  # a thread of the code's ended it
            _say(self._log, "between two requests, %s" % exc)
            return self._start()
        return interpreter

    def _write(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            view = memoryview(piece)
            done = 0
            while done < len(view):
                done += _os.write(self._writer, view[done : done + CHUNK])

    # -- requests ------------------------------------------------------------------------------

    def _serve(self, frame: list[bytes]) -> dict[str, Any]:
        request: Any = None
        try:
            text, state = cut_out_state(frame)
            request = loads(text.decode("utf-8").strip())
            problem = _problem(request)
            if state is not None and not problem:
                if request["state"] == CUT:
                    request["state"] = state
                else:
                    request = loads(b"".join(frame).decode("utf-8").strip())
            frame.clear()  # whoever still has it keeps nothing large alive
        except (ValueError, RecursionError) as exc:
            problem = "it is not JSON: %s" % exc
        if self._settings.debug:
            _say(self._log, "request %s" % _shortened(request if type(request) is dict else {}))
        if problem:
            response = _response(error="Invalid request: " + problem)
        else:
            response = self._run(request)
        if type(request) is dict and type(request.get("id")) in (str, int):
            response["id"] = request["id"]
        if self._settings.debug:
            _say(self._log, "response %s" % _shortened(response))
        return response

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        interpreter = self._interpreter
        interpreter.begin_request(request.get("timeout"))
        self._folder.look()
        try:
            response = self._carry_out(interpreter, request)
        except TimeIsOver:
            self._ended = True
            interpreter.kill()
            response = _response(error="Execution timed out after %g s" % request["timeout"], exit_code=124)
            response["stdout"], response["stderr"] = interpreter.out.take(), interpreter.err.take()
        except InterpreterEnded as exc:
            self._ended = True
            response = _response(error="%s; its variables are lost" % exc, exit_code=exc.status or 1)
            response["stdout"], response["stderr"] = interpreter.out.take(), interpreter.err.take()
        interpreter.deadline = None
        response["files"] = self._folder.changes()
        if interpreter.displays:
            response["displays"] = interpreter.displays
        return response

    def _carry_out(self, interpreter: Interpreter, request: dict[str, Any]) -> dict[str, Any]:
        if request.get("state"):
            failed = _restore(interpreter, request["state"])
            if failed is not None:
                return _response(error="State restoration failed: " + failed)
        reply, _ = interpreter.call("execute", {"code": request["code"], "file": FILE})
        response = describe(reply, interpreter.out.take(), interpreter.err.take())
        if request.get("capture_state"):
            self._capture(interpreter, bool(request.get("partial_state")), response)
        return response

    def _capture(self, interpreter: Interpreter, partial: bool, response: dict[str, Any]) -> None:
        limit = self._settings.state_limit
        reply, state = interpreter.call("save_state", {"limit": limit, "partial": partial}, most=limit + CHUNK)
        result = reply.get("result") or {}
        errors = _pairs(result.get("errors"))
        if result.get("saved") is True and is_base64(*state):
            response["state"] = state
        else:
            why = "; ".join(errors.values()) or str((reply.get("error") or {}).get("message") or "no reason was given")
            if response["error"] is None:
                response["error"] = "State serialization failed: " + why
            errors = errors if partial else {"": why}
        if partial or response["exit_code"]:
            response["state_errors"] = errors


def _problem(request: Any) -> str:
    if type(request) is not dict:
        return "it must be an object"
    if "code" not in request:
        return "it has no code"
    for name, kind in FIELDS.items():
        value = request.get(name)
        if type(value) is not kind and not (value is None and name != "code"):
            return "%s must be %s" % (name, {"str": "a string", "bool": "true or false"}[kind.__name__])
    limit = request.get("timeout")
    if limit is not None and (type(limit) not in (int, float) or not 0 < limit < 1e6):
        return "timeout must be a number of seconds above 0"
    return ""


def _response(stdout: str = "", stderr: str = "", exit_code: int = 1, error: str | None = None) -> dict[str, Any]:
    return {
        "stdout": stdout, "stderr": stderr, "exit_code": exit_code, "state": None, "files": [], "error": error
    }  # fmt: skip


def _restore(interpreter: Interpreter, state: list[bytes] | str) -> str | None:
    """Why it could not be, if so."""
    pieces = state if isinstance(state, list) else [state.encode("utf-8", "replace")]
    reply, _ = interpreter.call("load_state", {}, pieces)
    error = reply.get("error")
    if error is not None:
        return str(error.get("message"))
    failed = (reply.get("result") or {}).get("failed")
    return None if failed is None else str(failed)


def describe(reply: dict[str, Any], stdout: str, stderr: str) -> dict[str, Any]:
    """The response to a cell that the kernel has answered."""
    error = reply.get("error")
    if error is not None:
        return _response(stdout, stderr, error=str(error.get("message")))
    result = reply.get("result") or {}
    outcome = result.get("outcome")
    if type(result.get("value")) is str:
        stdout += result["value"] + "\n"
    if outcome == "ok":
        return _response(stdout, stderr, 0)
    if outcome == "exited":
        code = result.get("code")
        code = code if type(code) is int else 1
        return _response(stdout, stderr, code, None if code == 0 else "SystemExit: %d" % code)
    if outcome == "interrupted":
        return _response(stdout, stderr, 130, "KeyboardInterrupt")
    raised = result.get("exception") or {}
    kind, message, trace = (str(raised.get(part) or "") for part in ("type", "message", "traceback"))
    if not trace.startswith("Traceback"):  # it was never run
        trace = "%s: %s (line %s)" % (kind, message, raised.get("line"))
    return _response(stdout, stderr + trace.rstrip("\n"), 1, ("%s: %s" % (kind, message)).rstrip(": "))


def _texts(response: dict[str, Any]) -> list[bytes | str]:
    """A response as JSON. A state is put in as it is: it is most of it, and there is nothing to escape in it."""
    state = response["state"]
    if state is None:
        return [dumps(response)]
    names = list(response)
    at = names.index("state")
    before, after = ({name: response[name] for name in part} for part in (names[:at], names[at + 1 :]))
    return [dumps(before)[:-1] + ',"state":"', *state, '",' + dumps(after)[1:]]


def _pairs(found: Any) -> dict[str, str]:
    if type(found) is not list:
        return {}
    return {str(pair[0]): str(pair[1]) for pair in found if type(pair) is list and len(pair) == 2}


def _shortened(message: dict[str, Any]) -> str:
    """For the log: large texts by their beginning."""
    brief = {name: _shortened_value(name, value) for name, value in message.items() if name != "displays"}
    return dumps(brief)


def _shortened_value(name: str, value: Any) -> Any:
    text = b"".join(value).decode("ascii") if name == "state" and type(value) is list else value
    if type(text) is str and len(text) > LONGEST_LOGGED:
        return text[:LONGEST_LOGGED] + "... (%d characters)" % len(text)
    return text


def _say(log: int, text: str) -> None:
    """To whoever reads our stderr."""
    try:
        _os.write(log, ("repl server: %s\n" % text).encode("utf-8", "backslashreplace"))
    except OSError:  # nobody does
        pass


def _hide_wire(log: int) -> None:
    """From code that would look for it in this process; before there is any."""
    try:
        let_others_look(False)
        give_up_looking()
    except OSError as exc:
        _say(log, "the wire cannot be hidden here, and code that looks for it can forge responses: %s" % exc)


def main(argv: list[str]) -> None:
    """Serve until stdin ends."""
    import os

    log = keep_private(2)
    try:
        settings = Settings(os.environ)
    except ValueError as exc:
        _say(log, str(exc))
        _os._exit(2)
    # Also as the first process of a container, where signals without a handler are lost.
    _signal.signal(_signal.SIGTERM, lambda number, frame: _os._exit(143))
    reader, writer = take_wire()
    enlarge(reader)
    enlarge(writer)
    null = _os.open("/dev/null", _os.O_RDWR)
    for target in (1, 2):
        _os.dup2(null, target)
    status = 0
    try:
        _hide_wire(log)
        server = Server(settings, reader, writer, log)
        _signal.signal(_signal.SIGINT, lambda number, frame: server.interrupt())
        server.serve()
    except (HostGone, BrokenPipeError):
        pass
    except BaseException as exc:  # nobody is left to tell it to but whoever reads the log
        import traceback

        status = 1
        _say(
            log, "it does not start: %s" % exc if isinstance(exc, InterpreterEnded) else traceback.format_exc().rstrip()
        )
    _os._exit(status)
