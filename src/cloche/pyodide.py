"""`PyodideSandbox`: CPython as WebAssembly in Deno, behind the common contract."""

from __future__ import annotations

from typing import ClassVar

from cloche.backends.pyodide.backend import PyodideBackend
from cloche.sandbox import SessionSandbox


class PyodideSandbox(SessionSandbox):
    """Runs code in CPython 3.14 inside a Deno process that has no permission to anything. Isolation: CONFINED."""

    backend_type: ClassVar[type[PyodideBackend]] = PyodideBackend
