"""The rich forms of an object, as notebooks know them: one MIME bundle, in which every payload is text."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Bundle = dict[str, str]

_REPRS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
)
BINARY = ("image/png", "image/jpeg")
"""Types whose payload is base64: the host decodes them."""
MAX_FORMS = 40
"""Formats of one display."""


def bundle_of(obj: Any) -> Bundle | None:
    """The rich forms of `obj`, or None when it has none."""
    if isinstance(obj, type):
        return None
    if is_figure(obj):
        return figure_bundle(obj)
    offered = _call(obj, "_repr_mimebundle_")
    bundle = as_bundle(offered[0] if isinstance(offered, tuple) and offered else offered)
    for name, mime in _REPRS:
        if mime not in bundle:
            bundle.update(as_bundle({mime: _call(obj, name)}))
    if not bundle or bundle.keys() == {"text/plain"}:
        return None
    bundle.setdefault("text/plain", repr(obj))
    return bundle


def as_bundle(forms: Any) -> Bundle:
    """A mapping of MIME types to whatever notebooks take, as text: bytes in base64, data as JSON, the rest left out."""
    bundle: Bundle = {}
    for mime, form in forms.items() if isinstance(forms, dict) else ():
        if isinstance(form, tuple) and form:  # with metadata
            form = form[0]
        if isinstance(form, (bytes, bytearray)):
            form = base64_text(form)
        elif isinstance(form, str) and mime in BINARY:
            form = _checked_base64(form)
        elif isinstance(form, (dict, list, int, float, bool)):
            form = _json_text(form)
        if isinstance(form, str) and isinstance(mime, str) and len(mime) <= 100 and len(bundle) < MAX_FORMS:
            bundle[str(mime)] = str(form)
    return bundle


def is_figure(obj: Any) -> bool:
    """Whether `obj` is a figure of matplotlib, without importing it."""
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(obj, module.Figure)


def figure_bundle(figure: Any) -> Bundle:
    """A figure as it looks now."""
    import io

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return {"image/png": base64_text(buffer.getvalue()), "text/plain": repr(figure)}


def base64_text(data: bytes | bytearray) -> str:
    """Binary data as text without line ends."""
    import binascii

    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _call(obj: Any, name: str) -> Any:
    """A rich form is an offer: one that fails is passed over, as notebooks do."""
    try:
        method = getattr(type(obj), name, None)
        return None if method is None else method(obj)
    except Exception:
        return None


def _checked_base64(text: str) -> str | None:
    """Text that is base64 already, as some objects give their pictures; None where it is not."""
    import binascii

    try:
        return base64_text(binascii.a2b_base64(text.encode("ascii")))
    except ValueError:
        return None


def _json_text(data: Any) -> str | None:
    import json

    try:
        return json.dumps(data)
    except (TypeError, ValueError, RecursionError):
        return None
