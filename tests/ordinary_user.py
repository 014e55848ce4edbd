"""An ordinary user, made for the tests, with an interpreter, libraries and a copy of this project that it can read.

The tests run as root more often than not, and what root can do proves little. Files are linked where that is possible
and copied where not, so this takes a second or two.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import cloche

FIRST_UID = 64_100
"""For a system without `useradd`; above what accounts usually have."""
_PROJECT = Path(cloche.__file__).resolve().parents[2]
_UNNEEDED = ("ruff", "mypy", "mypyc", "pip", "setuptools", "wheel", "torch", "jupyter", "notebook", "cloche", "_cloche")
"""Packages that no test of a guest uses, by the beginnings of their names."""


@dataclass(frozen=True, slots=True)
class OrdinaryUser:
    """Who, and with what."""

    uid: int
    folder: Path
    python: Path

    def run(
        self, *arguments: str, timeout: float = 55, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the interpreter as this user, in its copy of the project."""
        home = self.folder / "home"
        own = {
            "HOME": str(home), "TMPDIR": str(home), "HYPOTHESIS_STORAGE_DIRECTORY": str(home / "hypothesis"),
            "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
            "CLOCHE_DAEMON_SOCKET": str(home / "daemon.sock"),
        }  # fmt: skip
        return subprocess.run(
            [str(self.python), *arguments], env={**own, **(environment or {})}, cwd=self.folder / "project",
            user=self.uid, group=self.uid, extra_groups=[], capture_output=True, text=True, timeout=timeout,
        )  # fmt: skip

    def pytest(
        self, *arguments: str, timeout: float = 55, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run tests as this user."""
        return self.run("-m", "pytest", *self.pytest_options, *arguments, timeout=timeout, environment=environment)

    @property
    def pytest_options(self) -> tuple[str, ...]:
        """A place of its own for each run, and skips with their reasons."""
        folder = self.folder / "home" / f"pytest-{os.urandom(4).hex()}"
        return ("-q", "-p", "no:cacheprovider", "-rfs", f"--basetemp={folder}", "--timeout=120")


@contextlib.contextmanager
def ordinary_user() -> Iterator[OrdinaryUser]:
    """Make one; everything is removed afterwards. Skips where that is impossible or needless."""
    if os.getuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    folder = Path(tempfile.mkdtemp(prefix="cloche-everybody-", dir=_passable_folder()))
    try:
        folder.chmod(0o755)
        python = _environment(folder)
        _copy_project(folder / "project")
        with _account() as uid:
            (folder / "home").mkdir()
            for own in (folder / "home", folder / "venv"):  # the folder alone: files in it have other names elsewhere
                os.chown(own, uid, uid)
            yield OrdinaryUser(uid, folder, python)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _account() -> Iterator[int]:
    """The number of a fresh user."""
    name = f"cloche-{os.getpid()}"
    made = (
        shutil.which("useradd") is not None
        and not subprocess.run(
            ["useradd", "--no-create-home", "--no-log-init", "--shell", "/bin/false", "--user-group", name],
            capture_output=True,
        ).returncode
    )
    if not made:
        yield FIRST_UID + os.getpid() % 1000
        return
    import pwd

    try:
        yield pwd.getpwnam(name).pw_uid
    finally:
        subprocess.run(["userdel", "--force", name], capture_output=True)


def _environment(folder: Path) -> Path:
    """A virtual environment with what this one has."""
    base = readable_interpreter() or _copy_interpreter(folder / "base")
    venv = folder / "venv"
    subprocess.run([base, "-I", "-m", "venv", "--without-pip", venv], check=True, capture_output=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    for entry in sys.path:
        if entry.endswith(("site-packages", "dist-packages")):
            for source in Path(entry).iterdir():
                if not source.name.startswith((*_UNNEEDED, ".")) and not (packages / source.name).exists():
                    _link(source, packages / source.name)
    (packages / "project.pth").write_text(f"{folder / 'project' / 'src'}\n")
    for mark in packages.glob("*.pth"):
        if mark.name != "project.pth":
            mark.unlink()  # names places that only root can see
    _register_plugin(packages)
    return venv / "bin" / "python"


def _register_plugin(packages: Path) -> None:
    """What an installed Cloche has beside its files."""
    info = packages / "cloche-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cloche\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[pytest11]\ncloche = cloche.pytest_plugin\n")


_VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def readable_interpreter() -> Path | None:
    """This one, or the system's of the same version, which has the same libraries."""
    for place in (sysconfig.get_config_var("BINDIR"), "/usr/bin", "/usr/local/bin"):
        found = Path(place) / _VERSION
        if not found.exists() or not _everybody_can_read(found):
            continue
        ask = "import os, ssl, venv, ctypes, sqlite3; print(os.__file__)"
        done = subprocess.run([found, "-I", "-c", ask], capture_output=True, text=True)
        if done.returncode == 0 and _everybody_can_read(Path(done.stdout.strip())):
            return found
    return None


def _copy_interpreter(target: Path) -> Path:
    """The interpreter itself, for whom its own place is closed. One that is tied to that place cannot be copied."""
    version = _VERSION
    source = Path(sys.base_prefix)
    (target / "bin").mkdir(parents=True)
    (target / "lib").mkdir()
    shutil.copy2((Path(sysconfig.get_config_var("BINDIR")) / version).resolve(), target / "bin" / version)
    _link(source / "lib" / version, target / "lib" / version, leave_out=("site-packages", "test", "idlelib"))
    for library in (source / "lib").glob("libpython*.so*"):
        _link(library, target / "lib" / library.name)
    copy = target / "bin" / version
    if subprocess.run(
        [copy, "-I", "-c", "import ssl, ctypes, sqlite3"], user=FIRST_UID, capture_output=True
    ).returncode:
        pytest.skip(f"no {version} here that another user can read, and this one cannot be copied")
    return copy


def _copy_project(target: Path) -> None:
    left_out = shutil.ignore_patterns("__pycache__", ".*", "build", "dist", "site", "benchmarks")
    shutil.copytree(_PROJECT, target, ignore=left_out)
    subprocess.run(["chmod", "-R", "a+rX", target], check=True)


def _link(source: Path, target: Path, leave_out: tuple[str, ...] = ()) -> None:
    """Second names for the same files; copies where the file system is another or a file is not for everybody."""

    def take(one: str, other: str) -> None:
        try:
            if not os.stat(one).st_mode & stat.S_IROTH:
                raise OSError
            os.link(one, other)
        except OSError:
            shutil.copy(one, other)
            Path(other).chmod(Path(other).stat().st_mode | 0o444)

    if not source.is_dir():
        take(str(source), str(target))
        return
    for folder, folders, files in os.walk(source):
        folders[:] = [name for name in folders if name not in leave_out]
        place = target / Path(folder).relative_to(source)
        place.mkdir(mode=0o755)
        place.chmod(0o755)
        for name in files:
            take(os.path.join(folder, name), str(place / name))


def _everybody_can_read(path: Path) -> bool:
    path = path.resolve()
    return bool(path.stat().st_mode & stat.S_IROTH) and all(
        parent.stat().st_mode & stat.S_IXOTH for parent in path.parents
    )


def _passable_folder() -> str:
    """Where temporary files go, or the system's own place where that is closed to others."""
    place = tempfile.gettempdir()
    return place if _everybody_can_read(Path(place)) else "/tmp"
