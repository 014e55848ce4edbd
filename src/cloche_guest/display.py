"""Rich output: what values, `display(obj)` and open matplotlib figures show, sent to the host."""

from __future__ import annotations

import sys
from _json import encode_basestring_ascii

from cloche_guest import notebook, rich_forms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.rich_forms import Bundle

MAX_ID = 100
"""Characters of a display's name."""
_PLAIN = {bool, bytes, dict, float, int, list, range, set, str, tuple}
"""Types without a rich form: most values."""


class Displays:
    """Sends displays to the host, within the cell's budget of bytes."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self.limit = 0
        self._left = 0
        self._figures: dict[int, str] = {}  # how those that this cell has shown looked

    def begin(self) -> None:
        """A cell begins: the whole limit is there again."""
        self._left = self.limit
        if self._figures:
            self._figures = {}

    def function(self) -> Callable[..., Any]:
        """What users call."""

        def display(*objs: Any, display_id: Any = None, raw: bool = False, clear: bool = False, **options: Any) -> Any:
            """Show objects as the host's front end can: figures and tables as such, the rest as text.

            With display_id (True, or a name of your own) returns a handle, whose update(obj) replaces what was shown.
            """
            return notebook.display(self, objs, display_id, raw, clear, options)

        display.__qualname__ = "display"
        display.__module__ = "cloche"
        return display

    def show(self, obj: Any, name: str | None = None, *, raw: bool = False, update: bool = False) -> None:
        """Send one object. `name` is how it can be replaced later, `raw`: it is a bundle already."""
        if not raw and notebook.shows_itself(obj):
            return
        bundle = rich_forms.as_bundle(obj) if raw else rich_forms.bundle_of(obj)
        if bundle is None:
            bundle = {"text/plain": repr(obj)}
        self._note_figure(obj, bundle)
        if bundle:
            self._emit(bundle, name, update)

    def show_value(self, obj: Any) -> None:
        """The value of a last expression is shown only where it has a rich form."""
        if type(obj) in _PLAIN or notebook.shows_itself(obj):
            return
        bundle = rich_forms.bundle_of(obj)
        if bundle is not None:
            self._note_figure(obj, bundle)
            self._emit(bundle)

    def clear(self) -> None:
        """Take back what this cell has shown so far."""
        self._send({"clear": True})

    def flush_figures(self) -> None:
        """Figures that are open at the end of a cell are closed, and shown unless they were shown just like that."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            bundle = rich_forms.figure_bundle(figure)
            pyplot.close(figure)
            if self._figures.get(id(figure)) != bundle["image/png"]:
                self._emit(bundle)

    def _note_figure(self, obj: Any, bundle: Bundle) -> None:
        if "image/png" in bundle and rich_forms.is_figure(obj):
            self._figures[id(obj)] = bundle["image/png"]

    def _emit(self, bundle: Bundle, name: str | None = None, update: bool = False) -> None:
        """Counted as it will stand in the frame, escapes included: the host bounds frames."""
        size = sum(len(encode_basestring_ascii(text)) for text in bundle.values())
        if size > self._left:
            text = "[display of %d bytes left out: the limit for one cell is %d]" % (size, self.limit)
            bundle, size = {"text/plain": text}, len(text) + 2
        self._left -= size
        if self._left >= 0:
            params: dict[str, Any] = {"data": bundle}
            if name is not None:
                params["id"] = name[:MAX_ID]
                params["update"] = update
            self._send(params)
