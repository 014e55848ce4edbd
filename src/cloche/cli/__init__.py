"""The command `cloche`: one file per subcommand, imported when it is used."""

from __future__ import annotations

import sys
from typing import NoReturn


def main(argv: list[str] | None = None) -> NoReturn:
    """Entry point of the console script."""
    from cloche.cli.group import invoke

    sys.exit(invoke(sys.argv[1:] if argv is None else argv))
