"""No jail outlives the test that started it; both forms of its programs; and somebody without rights."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.jail.sessions import SOURCES, USER_ID

from cloche.backends.jail.houses import houses
from cloche.backends.jail.programs import PURE_VARIABLE, programs


@pytest.fixture(autouse=True)
def no_jail_left() -> Iterator[None]:
    yield
    houses.close()


@pytest.fixture(params=["compiled", "pure"])
def either_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The jail's C programs, and the Python code that stands in where they could not be built."""
    path: str = request.param
    if path == "pure":
        monkeypatch.setenv(PURE_VARIABLE, "1")
    elif programs() is None:
        pytest.skip("the jail's C programs are not built here (make install, or python hatch_build.py)")
    return path


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
