"""JSON of plain data, by the parts of `json` that are written in C."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _ScannerSettings:
    """What `_json.make_scanner` reads. `import json` would cost more than the whole start of the kernel."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}.__getitem__
    memo: dict[str, str] = {}


def _refuse(value: Any) -> Any:
    raise TypeError("not plain data: " + type(value).__name__)


_scan = make_scanner(_ScannerSettings())  # type: ignore[arg-type]  # the stub names the wrong type
_encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, True)


def loads(text: str) -> Any:
    """Parse one JSON text."""
    try:
        value, _ = _scan(text, 0)
    except StopIteration as exc:
        raise ValueError("not JSON at %s" % exc.value) from None
    except SystemError:  # it wants to raise an error of `json.decoder`, which nobody has imported
        raise ValueError("not JSON") from None
    return value


def dumps(value: Any) -> str:
    """Format plain data as one ASCII line."""
    return "".join(_encode(value, 0))
