"""``python -m cloche.cli``."""

from __future__ import annotations

from cloche.cli import main

main()
