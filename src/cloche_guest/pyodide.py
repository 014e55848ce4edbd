"""The guest in Pyodide. It is started twice: for the memory snapshot, and from it.

`main` runs while the snapshot is made: what it imports is in the memory of every session from the start. A session
begins with `begin`, when the host's program has put its devices in place.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from _thread import allocate_lock

from cloche_guest import signals
from cloche_guest.capture import OwnCapture
from cloche_guest.codes import INTERNAL_ERROR
from cloche_guest.idle_loop import use_idle_loop
from cloche_guest.imports import SiteOnDemand
from cloche_guest.kernel import Kernel
from cloche_guest.plain_json import dumps
from cloche_guest.rehearsal import CELL
from cloche_guest.wire import Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche_guest.kernel import Reply

ROOT = "/app"
LOST_FRAMES = 30
PREIMPORTED = (
    "abc", "ast", "asyncio", "base64", "bisect", "calendar", "codecs", "collections", "contextlib", "copy", "csv",
    "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "glob", "hashlib", "heapq",
    "html", "inspect", "io", "itertools", "json", "linecache", "logging", "math", "operator", "pathlib", "pickle",
    "pprint", "queue", "random", "re", "rlcompleter", "secrets", "select", "shutil", "statistics", "string", "struct",
    "tempfile", "textwrap", "threading", "time", "traceback", "types", "typing", "unicodedata", "urllib.parse", "uuid",
    "warnings", "zlib",
)  # fmt: skip


class DeviceWire(Wire):
    """The wire, as a device of the program around us. Knows which request is being served."""

    serving: dict[str, Any] | None = None

    def receive(self) -> tuple[dict[str, Any], bytearray | None]:
        self.serving = None
        request, body = Wire.receive(self)
        self.serving = request
        return request, body

    def start_over(self) -> None:
        """All frames are gone, whatever they were doing with us."""
        self._mutex, self._send_lock = allocate_lock(), allocate_lock()
        self._leading, self._main = False, None
        self._slots.clear()


class PyodideKernel(Kernel):
    """The kernel, with files that are copied in and out, and a memory that can be asked for its size."""

    def __init__(self, link: DeviceWire, capture: OwnCapture, host: Any) -> None:
        Kernel.__init__(self, link, capture)
        self._send_files = host.send
        self._note = host.note
        self._bound = host.bound
        self._memory = host.memory
        self._fix = host.fix
        self.add_methods({"put_file": self.put_file, "remove_file": self.remove_file, "install": self.install})

    def initialize(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        self._bound(params["file_bytes"])
        if params.get("deterministic"):
            import random

            self._fix()
            random.seed()
            tempfile._name_sequence = None  # type: ignore[attr-defined]  # names that were begun before
        os.makedirs(ROOT, exist_ok=True)
        os.makedirs(params["environment"]["TMPDIR"], exist_ok=True)
        os.chdir(ROOT)
        reply = Kernel.initialize(self, params, body)
        tempfile.tempdir = None  # our own files came before the session's environment
        # `site` has run, and what it would do a second time does not work here.
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, SiteOnDemand)]
        return reply

    def execute(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        try:
            reply, attachment = Kernel.execute(self, params, body)
        finally:
            self._send_files()
        if reply is not None:
            reply["peak_bytes"] = int(self._memory())
        return reply, attachment

    def install(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Packages, as one archive of what belongs into site-packages."""
        import importlib
        import io
        import zipfile

        with zipfile.ZipFile(io.BytesIO(body or b"")) as archive:
            archive.extractall(next(path for path in sys.path if path.endswith("/site-packages")))
        importlib.invalidate_caches()
        return {}, None

    # -- files of the host ---------------------------------------------------------------------

    def put_file(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """A file, a link or a folder, as it is in the host's copy of the workspace."""
        path = params["path"]
        try:
            _put(ROOT + "/" + path, params, body)
        except OSError:
            _unlock(path)
            try:
                _put(ROOT + "/" + path, params, body)
            except OSError:  # a cell has put something else in its place, and what it did stands
                return {}, None
        self._note(path)
        return {}, None

    def remove_file(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """The host's copy does not have it any more."""
        place = ROOT + "/" + params["path"]
        try:
            if os.path.isdir(place) and not os.path.islink(place):
                os.rmdir(place)
            else:
                os.remove(place)
        except OSError:  # a cell was quicker, or has put something into the folder
            return {}, None
        self._note(params["path"])
        return {}, None

    # -- after a recursion too deep for the machine around us ----------------------------------

    def recover(self, trouble: str) -> None:
        """Answer the request whose frames were taken off the stack."""
        link = self.link
        request, link.serving = link.serving, None
        signals.state.user = False
        signals.end_call()
        link.start_over()
        self.capture.end()
        sys.stdout, sys.stderr = self.capture.streams()
        self.space.restore_reserved()
        # A collection would walk through the frames that are gone. Cycles stay from now on; the session lives.
        gc.disable()
        # The frames that are gone are still counted.
        sys.setrecursionlimit(sys.getrecursionlimit() + LOST_FRAMES)
        if request is None or "id" not in request:
            return
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if request.get("method") == "execute":
            self._send_files()
            text = "too deep a recursion in the interpreter (%s)" % trouble
            told = {"type": "RecursionError", "message": text, "traceback": "RecursionError: %s\n" % text}
            reply["result"] = {"outcome": "error", "exception": told, "interrupts": signals.state.delivered}
        else:
            reply["error"] = {"code": INTERNAL_ERROR, "message": "RecursionError"}
        link.send(reply)


def _put(place: str, params: dict[str, Any], body: bytearray | None) -> None:
    if params.get("folder"):
        os.makedirs(place, exist_ok=True)
        return
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if os.path.lexists(place):
        os.remove(place)
    if "link" in params:
        os.symlink(params["link"], place)
    else:
        with open(place, "wb") as file:
            file.write(body or b"")


def _unlock(path: str) -> None:
    """Take back what a cell did to the rights of the folders on the way."""
    place = ROOT
    for part in ["", *path.split("/")[:-1]]:
        place = place + "/" + part if part else place
        try:
            os.chmod(place, 0o755)
        except OSError:
            return


def main(argv: list[str]) -> None:
    """While the snapshot is made: leave the entries where the program around us finds them."""
    for name in PREIMPORTED:
        __import__(name)
    session = Session()
    sys.modules["__main__"].cloche_entries = (session.begin, session.serve, session.recover)  # type: ignore[attr-defined]  # taken away at once


class Session:
    """What the program around us calls."""

    kernel: PyodideKernel

    def begin(self, host: Any) -> None:
        """Take over what differs between sessions of one snapshot."""
        import random

        random.seed()  # or every session would have the same numbers
        time.sleep = _make_sleep(host.alarm)
        use_idle_loop()
        wire = os.open("/dev/wire", os.O_RDWR)
        link = DeviceWire(wire, wire)
        capture = OwnCapture(link.notify)
        capture.install()
        sys.argv = [""]
        sys.executable = ""  # else the path of the program around us
        sys.path[:] = [entry for entry in sys.path if entry]  # a file of the workspace must not stand for a module
        signals.install()
        self.kernel = PyodideKernel(link, capture, host)
        if host.mayRehearse:  # nobody waits for us yet
            self.rehearse()

    def rehearse(self) -> None:
        """Serve what a host asks first: code is compiled when it is first used. Leaves nothing behind."""
        kernel = self.kernel
        names = set(kernel.space.names)
        greeting = {"file_bytes": 0, "environment": {"TMPDIR": "/tmp"}, "context": {"none": True}, "tools": []}
        for method, params in (("initialize", greeting), ("execute", {"code": CELL, "cell": 0, "live": False})):
            reply, _ = kernel.answer({"jsonrpc": "2.0", "id": 0, "method": method, "params": params}, None)
            dumps(reply)
        for name in set(kernel.space.names) - names:
            del kernel.space.names[name]

    def serve(self) -> None:
        """Until the host goes away or says `shutdown`."""
        self.kernel.serve()

    def recover(self, trouble: str) -> None:
        """The last `serve` was torn off the stack."""
        self.kernel.recover(trouble)


def _make_sleep(alarm: Any) -> Any:
    """`time.sleep` that hears signals: the one that is there spins, deaf."""
    import select

    poller = select.poll()
    poller.register(os.open("/dev/clock", os.O_RDONLY), select.POLLIN)
    now = time.monotonic

    def sleep(seconds: float, /) -> None:
        """Delay execution for a given number of seconds."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        end = now() + seconds
        left = seconds
        while left > 0:
            alarm(left * 1000)
            poller.poll()
            left = end - now()

    sleep.__module__ = "time"
    sleep.__qualname__ = "sleep"
    signals.add_wait(sleep)
    return sleep
