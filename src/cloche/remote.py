"""`DaemonClientSandbox`: a session in the daemon's warm house, behind the common contract."""

from __future__ import annotations

from typing import ClassVar

from cloche.backends.daemon.backend import DaemonBackend
from cloche.sandbox import SessionSandbox


class DaemonClientSandbox(SessionSandbox):
    """Runs code in a session of the user's daemon (``cloche daemon start``). Isolation: the daemon's."""

    backend_type: ClassVar[type[DaemonBackend]] = DaemonBackend
