"""`NativePythonSandbox`: a spawned interpreter behind the common contract."""

from __future__ import annotations

from typing import ClassVar

from cloche.backends.native import NativeBackend
from cloche.sandbox import SessionSandbox


class NativePythonSandbox(SessionSandbox):
    """Runs code in a child process of any Python from 3.8 (`python=`). Isolation: PROCESS, not more."""

    backend_type: ClassVar[type[NativeBackend]] = NativeBackend
