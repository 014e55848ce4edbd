"""The short version of ``make soak``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_two_hundred_sessions_over_the_pool_and_the_daemon_leave_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--sessions", "200", "--json"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    assert [check for check in verdict["checks"] if not check["held"]] == [], done.stderr
    assert verdict["clean"]
