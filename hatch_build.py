"""Builds the jail's C programs when the package is installed: a wheel carries them, an editable install has them.

Without a C compiler, with one that fails, or on another system the package is the same without them: the jail then has
no namespaces (tier ``CONFINED``), and ``cloche doctor`` says so. ``python hatch_build.py`` builds them in place.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a program, where the build system is not installed
    BuildHookInterface = object  # type: ignore[assignment,misc]

SOURCES = Path(__file__).resolve().parent / "src" / "cloche_guest" / "jail" / "native"
BUILT = SOURCES / "built"
PLATFORM = "linux_x86_64"
FLAGS = [
    "-std=gnu11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden",
    # What an error in them would meet: checked copies and stacks, random places, tables that cannot be written.
    "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-fstack-protector-strong", "-fstack-clash-protection",
    "-Wl,-z,relro,-z,now,-z,noexecstack",
]  # fmt: skip
LIBRARY = (
    "libcloche-jail-7.so",
    ["step.c", "mounts.c", "confine.c", "heap.c", "library.c"],
    [["-shared", "-fPIC"]],
)
PROGRAM = (
    "cloche-jail-7",
    [
        "step.c",
        "packet.c",
        "mounts.c",
        "view.c",
        "folders.c",
        "processes.c",
        "pid_one.c",
        "branch_seat.c",
        "networks.c",
        "seat.c",
        "reaper.c",
        "zygote.c",
        "init.c",
    ],
    # static: hardly any page tables to copy for a seat; some systems lack the library
    [["-fPIE", "-static-pie", "-s"], ["-fPIE", "-pie", "-s"]],
)
TARGETS = (LIBRARY, PROGRAM)
"""(name, sources, the ways to link it: the first that works is taken). The number in the names is that of what they
share with the Python code (cloche.backends.jail.programs): one that does not fit is not found."""
COMPILE_TIMEOUT = 120


class BuildError(Exception):
    """Why there are no compiled programs."""


def build(folder: Path = BUILT) -> list[Path]:
    """Compile everything into `folder`, all or nothing."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or sys.maxsize < 1 << 32:
        raise BuildError("not a 64-bit Linux on x86")
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(compiler[0]) is None:
        raise BuildError(f"there is no C compiler ({compiler[0]})")
    discard(folder)
    folder.mkdir()
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        for name, sources, ways in TARGETS:
            _compile(compiler, Path(fresh) / name, [SOURCES / source for source in sources], ways)
        for name, _, _ in TARGETS:
            (Path(fresh) / name).replace(folder / name)
    return [folder / name for name, _, _ in TARGETS]


def _compile(compiler: list[str], target: Path, sources: list[Path], ways: list[list[str]]) -> None:
    trouble = ""
    for way in ways:
        flags = [*FLAGS, *shlex.split(os.environ.get("CFLAGS", "")), *way]
        command = [*compiler, *flags, "-o", str(target), *map(str, sources)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT, check=False)
        except (OSError, subprocess.SubprocessError) as exc:
            raise BuildError(f"{compiler[0]}: {exc}") from None
        if done.returncode == 0 and target.exists():
            return
        trouble = done.stderr.strip()[-500:] or f"status {done.returncode}"
    raise BuildError(f"{compiler[0]} failed on {target.name}: {trouble}")


def discard(folder: Path = BUILT) -> None:
    """What an earlier build left would not fit these sources."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


class JailPrograms(BuildHookInterface):  # type: ignore[type-arg]  # the base is generic only for checkers
    """Called by the build system for wheels and editable installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            build()
        except (BuildError, OSError) as exc:
            discard()
            self.app.display_warning(f"the jail's C programs were not built, so it will have no namespaces: {exc}")
            return
        build_data["artifacts"].append("/" + BUILT.relative_to(Path(self.root)).as_posix() + "/*")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{PLATFORM}"


if __name__ == "__main__":
    try:
        for path in build():
            sys.stdout.write(f"{path}\n")
    except BuildError as error:
        discard()
        sys.exit(f"not built: {error}")
