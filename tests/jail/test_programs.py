"""The jail's C programs: built where there is a compiler, done without where there is none."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cloche
from cloche.backends.jail.backend import JailBackend
from cloche.backends.jail.programs import PURE_VARIABLE, programs

ROOT = Path(__file__).resolve().parents[2]
COMPILER = os.environ.get("CC", "cc")

needs_compiler = pytest.mark.skipif(shutil.which(COMPILER.split()[0]) is None, reason="no C compiler here")


@needs_compiler
def test_the_c_programs_compile_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    monkeypatch.setenv("CFLAGS", "-Werror -Wshadow -Wconversion -Wstrict-prototypes")
    assert all(path.stat().st_size for path in hook.build(tmp_path / "built"))


def build_wheel(folder: Path, compiler: str) -> Path:
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "built"))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "out"],
        cwd=folder,
        env={**os.environ, "CC": compiler},
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "out").iterdir()
    return wheel


@needs_compiler
def test_a_wheel_carries_the_programs(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, COMPILER)
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")
    assert {"cloche-jail-5", "libcloche-jail-5.so"} <= names
    assert not any(name.endswith((".c", ".h")) for name in names)


def test_without_a_working_compiler_the_wheel_is_pure(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, "/bin/false")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not any("libcloche-jail" in name for name in zipfile.ZipFile(wheel).namelist())


def test_doctor_says_which_path_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = JailBackend.probe().details["programs"]
    assert compiled.startswith("compiled" if programs() else "pure Python")
    monkeypatch.setenv(PURE_VARIABLE, "1")
    assert JailBackend.probe().details["programs"].startswith("pure Python")


def test_a_cache_and_a_library_that_only_root_can_read_serve_a_jail_of_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, either_path: str
) -> None:
    if os.getuid() != 0:
        pytest.skip("an ordinary user reads its own files in its own jail")
    environment = {**os.environ, "CLOCHE_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    code = "import os; os.umask(0o077)\nimport cloche\nprint(cloche.run('1 + 1', backend='jail').value)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr


def test_a_library_that_cannot_be_loaded_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from cloche.backends.jail import launch
    from cloche.backends.jail.programs import Programs

    compiled = programs()
    if compiled is None:
        pytest.skip("the jail's C programs are not built here (make install, or python hatch_build.py)")
    (tmp_path / "broken.so").write_bytes(b"no library")
    monkeypatch.setattr(launch, "programs", lambda: Programs(compiled.init, str(tmp_path / "broken.so")))
    with cloche.create_sandbox(backend="jail") as sandbox:
        assert sandbox.execute("1 + 1").value == "2"
