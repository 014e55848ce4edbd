"""The command as its users start it: a real process, with folders of its own for sessions and cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEADLINE = 40
"""Seconds; for a hang only."""


@dataclass(frozen=True)
class Finished:
    """How a run of the command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON document and nothing else."""
        return json.loads(self.stdout)


@dataclass
class Cloche:
    """Starts the command in `cwd`."""

    cwd: Path
    sessions: Path
    cache: Path
    temporary: Path

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("CLOCHE_")}
        own = {
            "CLOCHE_SESSIONS_DIR": str(self.sessions), "CLOCHE_CACHE_DIR": str(self.cache), "COLUMNS": "100",
            "CLOCHE_STATE_DIR": str(self.sessions.parent / "state"),
            "CLOCHE_DAEMON_SOCKET": os.environ["CLOCHE_DAEMON_SOCKET"],
        }  # fmt: skip
        return {**inherited, **own, "TMPDIR": str(self.temporary)}

    def command(self, *arguments: str | Path) -> list[str]:
        return [sys.executable, "-m", "cloche.cli", *map(str, arguments)]

    def __call__(self, *arguments: str | Path, stdin: bytes = b"", redirect: str = "", **variables: str) -> Finished:
        """Run to the end; `redirect` is for a shell, such as ``<&-``."""
        command = self.command(*arguments)
        done = subprocess.run(
            ["sh", "-c", f'"$@" {redirect}', "sh", *command] if redirect else command,
            input=stdin,
            capture_output=True,
            cwd=self.cwd,
            env={**self.environment, **variables},
            timeout=DEADLINE,
        )
        return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        """A running command with pipes on all streams, in a process group of its own."""
        return subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.cwd,
            env=self.environment,
            start_new_session=True,
            **options,
        )

    def left_behind(self) -> list[str]:
        """Session folders that are there."""
        return sorted(path.name for path in self.sessions.iterdir()) if self.sessions.exists() else []
