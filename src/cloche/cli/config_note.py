"""Tells on standard error which configuration file was found, and which was passed over and why."""

from __future__ import annotations

import functools
import os

from cloche.cli.terminal import Terminal, one_line
from cloche.config import load_config
from cloche.config_files import CONFIG_VARIABLE, nearest_file, passed_over
from cloche.errors import ClocheError


@functools.cache
def tell_config_file() -> None:
    """Once for each run of the command. A file that the user named needs no telling."""
    try:
        load_config()
    except ClocheError:
        return  # whoever needs it will say so, with the file
    terminal = Terminal()
    for path, why in passed_over():
        terminal.note(f"configuration file {one_line(path)} is not used: {why} ({CONFIG_VARIABLE}=PATH names one)")
    file = nearest_file(None, os.environ)
    if file is not None and file.origin == "found":
        terminal.note(f"configuration file: {one_line(file.path)}")
