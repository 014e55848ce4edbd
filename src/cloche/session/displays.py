"""The displays of one cell as the host keeps them: bounded, and replaced where the guest updates one by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloche.session import replies

if TYPE_CHECKING:
    from cloche.result import Display


class CellDisplays:
    """Collects the display notifications of one cell within `room` bytes."""

    def __init__(self, room: int) -> None:
        self.shown: list[Display] = []
        self._room = room

    def take(self, params: Any) -> None:
        """Take one notification. What does not fit is left out; the guest has said so in its place."""
        if replies.field(params, "clear", bool, False):
            self.shown.clear()
            return
        found = replies.display(params, self._room)
        if found is None:
            return
        display, size = found
        self._room -= size
        if replies.field(params, "update", bool, False):
            same = [place for place, shown in enumerate(self.shown) if shown.id == display.id is not None]
            for place in same:
                self.shown[place] = display
            if same:
                return
        if len(self.shown) < replies.MAX_DISPLAYS:
            self.shown.append(display)
