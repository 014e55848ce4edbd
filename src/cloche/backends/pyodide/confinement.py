"""The second wall around Deno: Landlock and seccomp, put up by a small program that then becomes Deno."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import TYPE_CHECKING

from cloche.backends.interpreter import guest_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE = 20.0


def confined(readable: Sequence[str]) -> list[str]:
    """What goes before a command that is to run behind it."""
    given = [word for path in readable for word in ("--read", path)]
    return [sys.executable, "-I", "-S", str(guest_folder() / "jail" / "launch.py"), *given, "--"]


@functools.cache
def can_confine() -> bool:
    """Whether this machine lets us; found out by doing it."""
    try:
        done = subprocess.run(
            confined(()), stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False, env={}, cwd="/"
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
