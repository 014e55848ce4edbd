"""What the tests of the jail share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import cloche

SOURCES = Path(cloche.__file__).resolve().parent.parent
USER_ID = 65123
"""Somebody who owns nothing."""


def jail(**options: object) -> cloche.SessionSandbox:
    """A sandbox in the jail."""
    return cloche.create_sandbox(backend="jail", **options)  # type: ignore[arg-type]  # options of any kind, on purpose


def value(sandbox: cloche.SessionSandbox, code: str) -> str | None:
    """The value of a cell that must succeed."""
    return sandbox.execute(code).check().value


class Environment:
    """A virtual environment whose packages a test chooses."""

    def __init__(self, folder: Path) -> None:
        base = Path(sys.executable).resolve()
        self.python = folder / "bin" / "python"
        self.packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        self.packages.mkdir(parents=True)
        self.python.parent.mkdir()
        self.python.symlink_to(base)
        (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n")

    def install(self, name: str, source: str) -> None:
        """A module of that name, all at once, as installers do it."""
        fresh = self.packages / f".{name}.{os.urandom(4).hex()}"
        fresh.write_text(source)
        fresh.rename(self.packages / f"{name}.py")
