"""Copies of sessions, to which a protected one returns when a cell has ended it."""

from __future__ import annotations

import itertools

from cloche.backends.wasm.channel import WasmChannel
from cloche.errors import BranchError
from cloche.session.copying import WaitingCopy

_numbers = itertools.count(1)


class WasmCopy(WaitingCopy):
    """A copy in the worker's memory; it goes with the worker."""

    def __init__(self, channel: WasmChannel) -> None:
        self._channel = channel
        self._number = next(_numbers)
        self.params = {"copy": self._number}

    def check(self) -> None:
        if self._channel.last.copy != self._number or not self._channel.worker.alive:
            raise BranchError("there is no copy of the session", cause="files were open, or its worker has ended")

    def files_changed(self) -> None:
        """Files are not part of it."""

    def abandon(self) -> None:
        self._channel.worker.forget(self._number)

    def take_over(self) -> WasmChannel:
        """A fresh guest that is what the other was."""
        self.check()
        lost = self._channel
        channel = WasmChannel(lost.worker, lost.workspace, lost.folders, {**lost.options, "copy": self._number})
        channel.layers, channel.greeting = lost.layers, lost.greeting
        return channel
