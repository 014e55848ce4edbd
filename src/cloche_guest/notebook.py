"""What code that was written for notebooks expects: handles of displays, and `IPython.display`, installed or not."""

from __future__ import annotations

import sys

from cloche_guest import rich_forms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.display import Displays

PATCHED = ("IPython.core.display_functions", "IPython.core.display")
"""Where IPython has had its functions, newest first."""
STAND_INS = ("IPython", "IPython.display", "IPython.core", "IPython.core.display")


class DisplayHandle:
    """Something that was shown and can be replaced."""

    def __init__(self, displays: Displays, display_id: str) -> None:
        self._displays = displays
        self.display_id = display_id

    def __repr__(self) -> str:
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, obj: Any, **options: Any) -> None:
        """Show another object under this name."""
        self._displays.show(obj, self.display_id, raw=bool(options.get("raw")))

    def update(self, obj: Any, **options: Any) -> None:
        """Replace what is shown under this name."""
        self._displays.show(obj, self.display_id, raw=bool(options.get("raw")), update=True)


def display(
    displays: Displays, objs: tuple[Any, ...], display_id: Any, raw: bool, clear: bool, options: dict[str, Any]
) -> Any:
    """Show objects; a handle where a name was asked for."""
    if clear:
        displays.clear()
    transient = options.get("transient")
    if display_id is None and isinstance(transient, dict):
        display_id = transient.get("display_id")
    handle = None
    if display_id is not None and display_id is not False:
        if display_id is True:
            import binascii
            import os

            display_id = binascii.b2a_hex(os.urandom(8)).decode("ascii")
        handle = DisplayHandle(displays, str(display_id))
    for obj in objs:
        displays.show(obj, None if handle is None else handle.display_id, raw=raw, update=bool(options.get("update")))
    return handle


def shows_itself(obj: Any) -> bool:
    """Whether `obj` brings a method that shows it, which has been called then."""
    if isinstance(obj, type):
        return False
    method = getattr(type(obj), "_ipython_display_", None)
    if method is None:
        return False
    try:
        method(obj)
    except Exception:  # an offer, as every rich form is: the plain ones are tried
        return False
    return True


def functions(show: Callable[..., Any], displays: Displays) -> dict[str, Any]:
    """IPython's functions by their names, showing with ours."""

    def update_display(obj: Any, *, display_id: Any, **options: Any) -> None:
        """Replace what is shown under that name."""
        show(obj, display_id=display_id, update=True, **options)

    def publish_display_data(data: Any, metadata: Any = None, source: Any = None, **options: Any) -> None:
        """Show a MIME bundle."""
        show(data, raw=True, **options)

    def clear_output(wait: bool = False) -> None:
        """Take back what this cell has shown so far."""
        displays.clear()

    return {
        "display": show,
        "update_display": update_display,
        "publish_display_data": publish_display_data,
        "clear_output": clear_output,
    }


class NotebookFunctions:
    """IPython's functions, showing with ours: put into its modules, or into stand-ins for them."""

    def __init__(self, show: Callable[..., Any], displays: Displays) -> None:
        self._functions = functions(show, displays)
        self.PATCHED, self.STAND_INS = PATCHED, STAND_INS

    def patch(self, module: Any) -> None:
        """Put our functions in the place of IPython's, as far as the module has them."""
        for name, function in self._functions.items():
            if hasattr(module, name):
                setattr(module, name, function)

    def stand_in(self, name: str) -> Any:
        """A module of that name, for a guest without IPython."""
        module = type(sys)(name)
        module.__path__ = []  # a package
        if name == "IPython":
            module.__dict__.update(get_ipython=lambda: None, version_info=(8, 0, 0), __version__="8.0.0")
        if "display" in name:
            module.__dict__.update(self._functions)
            module.__dict__.update({kind.__name__: kind for kind in _classes()})
        return module


def _classes() -> list[type]:
    """The classes of `IPython.display` that models use, each a text or picture with its type."""

    class DisplayObject:
        """Data with a MIME type."""

        mime = "text/plain"

        def __init__(self, data: Any = None, url: Any = None, filename: Any = None, **options: Any) -> None:
            if data is None and filename is not None:
                with open(filename, "rb") as handle:
                    data = handle.read()
            if data is None and url is not None:
                raise ValueError("nothing can be fetched here: pass the data itself")
            self.data = data

        def __repr__(self) -> str:
            return "<IPython.core.display.%s object>" % type(self).__name__

        def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
            data = self.data
            if isinstance(data, (bytes, bytearray)) and self.mime not in rich_forms.BINARY:
                data = bytes(data).decode("utf-8", "replace")
            return {self.mime: data}

    def kind(name: str, mime: str) -> type:
        return type(name, (DisplayObject,), {"mime": mime, "__module__": "IPython.core.display"})

    class Image(DisplayObject):
        """A picture, by its bytes or a file."""

        def __init__(self, data: Any = None, url: Any = None, filename: Any = None, **options: Any) -> None:
            if isinstance(data, str):
                data, filename = None, data
            super().__init__(data, url, filename)
            head = bytes((self.data or b"")[:3])
            self.mime = "image/jpeg" if head == b"\xff\xd8\xff" else "image/png"

    class Code(DisplayObject):
        """Source text."""

        def __init__(self, data: Any = None, url: Any = None, filename: Any = None, **options: Any) -> None:
            super().__init__(data, url, filename)

    texts = {
        "HTML": "text/html",
        "Markdown": "text/markdown",
        "SVG": "image/svg+xml",
        "Latex": "text/latex",
        "Math": "text/latex",
        "JSON": "application/json",
        "Javascript": "application/javascript",
        "Pretty": "text/plain",
    }
    return [DisplayObject, DisplayHandle, Image, Code, *(kind(name, mime) for name, mime in texts.items())]
