"""Copies of sessions, to which a protected one returns when a cell has ended it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from cloche.backends.wasm.channel import WasmChannel
from cloche.errors import BranchError
from cloche.session.copying import WaitingCopy

if TYPE_CHECKING:
    from cloche.backends.wasm.guest_process import GuestProcess

_numbers = itertools.count(1)


class WasmCopy(WaitingCopy):
    """A copy in the memory of the session's process, which waits for it; it goes with the process."""

    def __init__(self, channel: WasmChannel) -> None:
        self._channel = channel
        self._process: GuestProcess | None = channel.process
        self._number = next(_numbers)
        self.params = {"copy": self._number}
        self._process.hold()

    def check(self) -> None:
        if self._channel.last.copy != self._number or self._process is None or not self._process.alive:
            raise BranchError("there is no copy of the session", cause="files were open, or its process has ended")

    def files_changed(self) -> None:
        """Files are not part of it."""

    def abandon(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.forget(self._number)
            process.let_go()

    def take_over(self) -> WasmChannel:
        """A fresh guest that is what the other was, in the process that has the copy."""
        self.check()
        lost = self._channel
        process, self._process = self._process, None
        assert process is not None
        try:
            channel = WasmChannel(process, lost.workspace, lost.folders, {**lost.options, "copy": self._number})
        finally:
            process.let_go()
        channel.layers, channel.greeting = lost.layers, lost.greeting
        return channel
