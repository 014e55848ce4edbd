"""`JailSandbox`: a warm interpreter behind a Linux wall, behind the common contract."""

from __future__ import annotations

from typing import ClassVar

from cloche.backends.jail.backend import JailBackend
from cloche.native import NativePythonSandbox


class JailSandbox(NativePythonSandbox):
    """Runs code in a process forked from a warm Python into a jail of its own: what `auto` takes on Linux.

    Isolation: SEALED, METERED where cgroups can be had, CONFINED where namespaces cannot.
    """

    backend_type: ClassVar[type[JailBackend]] = JailBackend
