"""Entry of the component: run once, when it is built. What is in memory at the end is where every session begins."""

from __future__ import annotations

import sys

from cloche_guest import signals
from cloche_guest.wasm.console import ConsoleCapture
from cloche_guest.wasm.library import HOME, Library
from cloche_guest.wasm.link import HostLink
from cloche_guest.wasm.session import ComponentKernel
from cloche_guest.wasm.waiting import make_sleep, use_patient_locks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WARM = """
abc argparse array ast asyncio base64 binascii bisect calendar cmath codecs collections colorsys configparser contextlib
contextvars copy copyreg csv ctypes dataclasses datetime decimal difflib dis email.message enum errno fnmatch fractions
functools gc genericpath getpass glob gzip hashlib heapq hmac html html.parser importlib.metadata importlib.resources
importlib.util inspect io ipaddress itertools json keyword linecache locale logging math mimetypes numbers opcode
operator os pathlib pickle pkgutil platform posixpath pprint pydoc queue quopri random re reprlib rlcompleter secrets
selectors shlex shutil signal sqlite3 stat statistics string stringprep struct subprocess symtable sys tempfile textwrap
threading time timeit token tokenize traceback types typing unicodedata unittest urllib.parse urllib.request uuid
warnings weakref xml.etree.ElementTree zipfile zlib zoneinfo
"""
"""Imported when the component is built, where they can be: to a session they cost nothing."""

CELLS = (
    "print(end='')\n1 + 1",
    "import json, re\ndef f(n):\n    return [str(i) for i in range(n)]\n{'a': f(3)}",
    "raise ValueError('x')",
    "import asyncio\nawait asyncio.sleep(0)",
    "for i in range(3000): pass",
    "x = (",
)


class _Nobody:
    """In place of the host while the component is built."""

    def ask(self, frame: str) -> str:
        return '{"jsonrpc": "2.0", "id": 0, "result": null}'

    def tell(self, frame: str) -> None: ...
    def attach(self, piece: str) -> None: ...
    def mark(self) -> None: ...
    def leave(self, status: int) -> None: ...
    def pause(self, seconds: float) -> float:
        return 0.0


class Session:
    """The two exports."""

    def __init__(self, kernel: ComponentKernel, link: HostLink) -> None:
        self._kernel = kernel
        self.feed = link.feed
        self._link = link

    def serve(self, frame: str) -> str:
        """One request, and its reply."""
        reply, attachment = self._kernel.answer(*self._link.take(frame))
        return "" if reply is None else self._link.reply(reply, attachment)


def main(argv: list[str]) -> None:
    """Make everything that sessions have in common."""
    import wit_world  # made by componentize-py

    library = Library()
    library.collect(next(folder for folder in sys.path if _holds_library(folder)))
    sys.meta_path.insert(0, library)
    link = HostLink(_Nobody())
    _replace_calls(link)
    use_patient_locks()
    for name in WARM.split():
        _import_if_there(name)
    from cloche_guest.idle_loop import use_idle_loop

    use_idle_loop()
    capture = ConsoleCapture(link.notify)
    capture.install()
    sys.argv, sys.path = [""], [HOME]
    sys.path_importer_cache.clear()
    signals.install()
    kernel = ComponentKernel(link, capture)
    _rehearse(kernel)
    link.host = wit_world
    wit_world.session = Session(kernel, link)
    import gc

    gc.collect()
    gc.freeze()


def _holds_library(folder: str) -> bool:
    import os

    return os.path.isfile(folder + "/argparse.py")


def _import_if_there(name: str) -> None:
    try:
        __import__(name)
    except ImportError:
        pass


def _replace_calls(link: HostLink) -> None:
    """What would block for good, or lose a status on its way out."""
    import os
    import posix
    import time

    def leave(status: int) -> None:
        """Exit to the system with specified status, without normal exit processing."""
        link.host.leave(int(status) & 0xFF)

    leave.__name__ = leave.__qualname__ = "_exit"
    modules: list[Any] = [os, posix]
    for module in modules:
        module._exit = leave

    def pause(seconds: float) -> float:
        left: float = link.host.pause(seconds)  # looked up each time: the host is not there yet
        return left

    time.sleep = make_sleep(pause)


def _rehearse(kernel: ComponentKernel) -> None:
    """Run the paths that every session takes, and forget it: their caches are filled then."""
    names = dict(kernel.space.names)
    for number, code in enumerate(CELLS):
        params = {"code": code, "cell": 0, "live": False}
        kernel.answer({"id": number, "method": "execute", "params": params}, None)
    kernel.answer({"id": 0, "method": "ping"}, None)
    kernel.space.names.clear()
    kernel.space.names.update(names)
