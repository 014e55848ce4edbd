"""The variables of the environment, for a guest that was forked and not started with some of its own."""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping


def use_environment(variables: Mapping[str, str]) -> None:
    """Replace all of them. Where `os` is not imported yet it is left so: it will take up what is here then."""
    os = sys.modules.get("os")
    if os is not None:
        os.environ.clear()
        os.environ.update(variables)
        return
    for present in list(posix.environ):
        posix.unsetenv(present)
    posix.environ.clear()
    encoding = sys.getfilesystemencoding()
    for name, value in variables.items():
        key, text = (part.encode(encoding, "surrogateescape") for part in (name, value))
        posix.putenv(key, text)
        posix.environ[key] = text
