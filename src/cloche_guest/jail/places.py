"""Names that the inside of every jail has in common; the same as in ``native/places.h``."""

from __future__ import annotations

WORKSPACE = "/app"
PRIVATE = "/run/cloche"  # a seat's own home and temporary files
HOME = PRIVATE + "/home"
TEMPORARY = PRIVATE + "/tmp"
MOUNT_BASES = ("/mnt", "/data", "/srv", "/media")  # at or below which folders of the host are given

# What a guest finds of the system, at every tier.
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc/alternatives", "/etc/fonts")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
