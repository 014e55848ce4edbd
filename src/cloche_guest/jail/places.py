"""Names that the inside of every jail has in common; the same as in ``native/places.h``."""

from __future__ import annotations

WORKSPACE = "/app"
PRIVATE = "/run/cloche"  # a seat's own home and temporary files
HOME = PRIVATE + "/home"
TEMPORARY = PRIVATE + "/tmp"
