"""Rich output: MIME bundles of values, of `display(obj)` and of open matplotlib figures."""

from __future__ import annotations

import sys
from _json import encode_basestring_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_TEXT_REPRS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_latex_", "text/latex"),
)
_BINARY_REPRS = (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"))


class Displays:
    """Sends displays to the host, within the cell's budget of bytes."""

    def __init__(self, send: Callable[[dict[str, str]], None]) -> None:
        self._send = send
        self.limit = 0
        self._left = 0

    def begin(self) -> None:
        """A cell begins: the whole limit is there again."""
        self._left = self.limit

    def function(self) -> Callable[..., None]:
        """What users call."""

        def display(obj: Any, *more: Any) -> None:
            """Show objects as the host's front end can: figures and tables as such, the rest as text."""
            self._show((obj, *more))

        display.__qualname__ = "display"
        display.__module__ = "cloche"
        return display

    def _show(self, items: tuple[Any, ...]) -> None:
        for item in items:
            bundle = bundle_of(item)
            if bundle is None:
                bundle = {"text/plain": repr(item)}
            self._emit(bundle)

    def show_value(self, obj: Any) -> None:
        """The value of a last expression is shown only where it has a rich form."""
        bundle = bundle_of(obj)
        if bundle is not None:
            self._emit(bundle)

    def flush_figures(self) -> None:
        """Figures that are open at the end of a cell are shown and closed."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            bundle = _figure_bundle(figure)
            pyplot.close(figure)
            self._emit(bundle)

    def _emit(self, bundle: dict[str, str]) -> None:
        """Counted as it will stand in the frame, escapes included: the host bounds frames."""
        size = sum(len(encode_basestring_ascii(text)) for text in bundle.values())
        if size > self._left:
            text = "[display of %d bytes left out: the limit for one cell is %d]" % (size, self.limit)
            bundle, size = {"text/plain": text}, len(text) + 2
        self._left -= size
        if self._left >= 0:
            self._send(bundle)


def bundle_of(obj: Any) -> dict[str, str] | None:
    """The rich forms of `obj` (binary ones in base64), or None when it has none."""
    if isinstance(obj, type):
        return None
    if _is_figure(obj):
        return _figure_bundle(obj)
    bundle = {}
    for name, mime in _TEXT_REPRS:
        text = _call(obj, name)
        if isinstance(text, str):
            bundle[mime] = text
    for name, mime in _BINARY_REPRS:
        data = _call(obj, name)
        if isinstance(data, (bytes, bytearray)):
            bundle[mime] = _base64(data)
    if not bundle:
        return None
    bundle["text/plain"] = repr(obj)
    return bundle


def _call(obj: Any, name: str) -> Any:
    """A rich form is an offer: one that fails is passed over, as notebooks do."""
    try:
        method = getattr(type(obj), name, None)
        return None if method is None else method(obj)
    except Exception:
        return None


def _is_figure(obj: Any) -> bool:
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(obj, module.Figure)


def _figure_bundle(figure: Any) -> dict[str, str]:
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return {"image/png": _base64(buffer.getvalue()), "text/plain": repr(figure)}


def _base64(data: bytes | bytearray) -> str:
    import binascii

    return binascii.b2a_base64(data, newline=False).decode("ascii")
