"""bubblewrap around a cold Python: what a sandbox costs that is made anew for each request and keeps nothing warm."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from benchmarks.row import Contender, Sampler
from benchmarks.stopwatch import timed

# The system read-only, everything else its own: no lighter than that is still a sandbox.
WALL = [
    "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--ro-bind", "/", "/", "--dev", "/dev",
    "--proc", "/proc", "--tmpfs", "/run", "--chdir", "/run",
]  # fmt: skip


def program() -> str:
    """Where it is; raises when it is not installed."""
    found = shutil.which("bwrap")
    if found is None:
        raise FileNotFoundError("bwrap is not installed (on Debian and Ubuntu: apt install bubblewrap)")
    return found


def cold_python(modules: Callable[[], Sequence[str]] = list) -> Contender:
    """A new wall and a new interpreter in it, which imports `modules` and answers."""

    @contextmanager
    def open_walls() -> Iterator[Sampler]:
        imported = modules()
        # With site only where packages are wanted: it is what finds them.
        flags = ["-I"] if imported else ["-I", "-S"]
        code = "".join(f"import {name}\n" for name in imported) + "print('hi')"
        command = [program(), *WALL, sys.executable, *flags, "-c", code]

        def answer() -> None:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if done.stdout != "hi\n":
                raise RuntimeError(f"bwrap ended with {done.returncode}: {done.stderr.strip()[-200:]}")

        yield lambda: [timed(answer)]

    named = modules is not list
    return Contender("bwrap, cold python" + (" with the imports" if named else ""), open_walls)
