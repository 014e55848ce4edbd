"""Tells on standard error which configuration file was found, and which was passed over and why."""

from __future__ import annotations

import functools
import os

from cloche.cli.terminal import Terminal, one_line
from cloche.config_files import CONFIG_VARIABLE, nearest_file, passed_over


@functools.cache
def tell_config_file() -> None:
    """Once for each run of the command. A file that the user named needs no telling."""
    terminal = Terminal()
    for path, why in passed_over():
        terminal.note(f"configuration file {one_line(path)} is not used: {why} ({CONFIG_VARIABLE}=PATH names one)")
    file = nearest_file(None, os.environ)
    if file is not None and file.origin == "found":
        terminal.note(f"configuration file: {one_line(file.path)}")
