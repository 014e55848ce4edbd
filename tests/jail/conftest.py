"""No jail outlives the test that started it; and somebody without rights."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.jail.sessions import SOURCES, USER_ID

from cloche.backends.jail.houses import houses


@pytest.fixture(autouse=True)
def no_jail_left() -> Iterator[None]:
    yield
    houses.close()


@pytest.fixture
def as_user() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs a script as somebody who has no rights at all, with an interpreter and a package that everybody can read."""
    if os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("no interpreter here that every user can read")
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    folder.chmod(0o755)
    shutil.copytree(SOURCES, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "home").mkdir(mode=0o777)
    (folder / "home").chmod(0o777)

    def run(script: str, *before: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*before, python, "-c", script], user=None if before else USER_ID, group=None if before else USER_ID,
            extra_groups=None if before else [], capture_output=True, text=True, timeout=60, cwd=folder / "home",
            env={
                "PYTHONPATH": str(folder / "src"), "HOME": str(folder / "home"), "TMPDIR": str(folder / "home"),
                "PATH": "/usr/bin:/bin", **variables,
            },
        )  # fmt: skip

    yield run
    shutil.rmtree(folder, ignore_errors=True)
