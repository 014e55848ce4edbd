"""Names that the inside of every jail has in common; the same as in ``native/places.h``."""

from __future__ import annotations

WORKSPACE = "/app"
PRIVATE = "/run/cloche"  # a seat's own home and temporary files
HOME = PRIVATE + "/home"
TEMPORARY = PRIVATE + "/tmp"
MOUNT_BASES = ("/mnt", "/data", "/srv", "/media")  # at or below which folders of the host are given
