"""The jail's C programs: built where there is a compiler; without them there are no namespaces, and that is said."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from tests.jail.sessions import USER_ID
from tests.ordinary_user import readable_interpreter

import cloche
from cloche.backends.jail.backend import JailBackend
from cloche.backends.jail.programs import programs
from cloche_guest.jail import syscalls

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


def described(path: str) -> str:
    """What the linker made of it: kind, segments, dynamic section, names from elsewhere."""
    if shutil.which("readelf") is None:
        pytest.skip("no readelf here (binutils)")
    done = subprocess.run(
        ["readelf", "-W", "-h", "-l", "-d", "--dyn-syms", path], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_programs_lie_at_random_places_and_their_tables_cannot_be_written() -> None:
    found = programs()
    if found is None:
        pytest.skip("the programs were not built here")
    for path in found:
        text = described(path)
        assert "DYN (" in text, path
        assert "GNU_RELRO" in text, path
        assert "BIND_NOW" in text, path
        stack = next(line for line in text.splitlines() if "GNU_STACK" in line)
        assert " RW " in stack, path
        assert "TEXTREL" not in text, path


def test_the_library_checks_its_stack_and_its_copies() -> None:
    found = programs()
    if found is None:
        pytest.skip("the programs were not built here")
    text = described(found.library)
    assert "__stack_chk_fail" in text
    assert "_chk@" in text.replace("__stack_chk_fail", "")


def test_a_request_with_more_groups_than_fit_is_refused_and_the_jail_lives_on() -> None:
    with cloche.create_sandbox(backend="jail") as session:
        session.execute("x = 1").check()
        broker = session._session.guest.channel.seat.broker  # type: ignore[union-attr]  # the jail's own
        null = os.open(os.devnull, os.O_RDWR)
        try:
            ticket = broker.request({"groups": 33}, [null] * 40)
            with pytest.raises(cloche.StartError, match="request"):
                broker.wait(ticket)
        finally:
            os.close(null)
        assert broker.alive
        assert session.execute("x").check().value == "1"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else, and no longer")
def test_whoever_cannot_touch_files_as_another_user_is_told() -> None:
    def attempt() -> str:
        os.setgid(USER_ID)
        os.setuid(USER_ID)
        try:
            syscalls.set_file_user(1, 1)
        except PermissionError:
            return "told"
        return "not told"

    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(writer, attempt().encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 100) == b"told"
    os.close(reader)
    os.close(writer)


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
    assert {"cloche-jail-7", "libcloche-jail-7.so"} <= names
    assert not any(name.endswith((".c", ".h")) for name in names)


def test_without_a_working_compiler_the_wheel_has_none(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, "/bin/false")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not any("libcloche-jail" in name for name in zipfile.ZipFile(wheel).namelist())


WITHOUT = """
import sys, cloche
from cloche.backends.jail import programs
programs.FOLDER = "/nowhere"
"""


def without_programs(python: str, script: str) -> str:
    """What a script prints where the programs were not built."""
    with tempfile.TemporaryDirectory(prefix="cloche-programs-", dir="/tmp" if os.getuid() == 0 else None) as folder:
        os.chmod(folder, 0o711)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "CLOCHE_SESSIONS_DIR": folder + "/sessions"}
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT + script, python],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that the guest can read in every tier."""
    found = sys.executable if os.getuid() != 0 else readable_interpreter()
    if found is None:
        pytest.skip("no interpreter here that every user can read")
    return str(found)


def test_without_the_programs_the_jail_is_confined(python: str) -> None:
    script = "print(cloche.run('1', backend='jail', python=sys.argv[1]).isolation.name)"
    assert without_programs(python, script) == "CONFINED\n"


def test_without_the_programs_a_policy_that_demands_more_is_refused_with_the_remedy(python: str) -> None:
    script = """
try:
    cloche.run('1', backend='jail', python=sys.argv[1], policy=cloche.ExecutionPolicy(minimum_isolation="sealed"))
except cloche.IsolationError as exc:
    print(exc.remedy)
"""
    assert "install a C compiler" in without_programs(python, script)


def test_doctor_says_that_the_programs_are_missing_and_how_to_get_them(python: str) -> None:
    script = """
from cloche.backends.jail.backend import JailBackend
found = JailBackend.probe(python=sys.argv[1])
print(found.details["programs"])
print(*(layer.remedy for layer in found.layers if layer.name == "namespaces"))
"""
    said, remedy = without_programs(python, script).splitlines()
    assert said.startswith("missing")
    assert "install a C compiler" in said
    assert "install a C compiler" in remedy


def test_doctor_says_that_the_programs_are_there() -> None:
    assert JailBackend.probe().details["programs"] == "compiled"


def test_a_cache_that_cannot_be_written_costs_no_namespaces(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {**os.environ, "CLOCHE_CACHE_DIR": str(tmp_path / "file" / "cache"), "PYTHONPATH": str(ROOT / "src")}
    code = "import cloche\nprint(*sorted(cloche.run('1 + 1', backend='jail').layers))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "namespaces" in done.stdout.split(), done.stderr


def test_a_cache_and_a_library_that_only_root_can_read_serve_a_jail_of_root(
    tmp_path: Path,
) -> None:
    if os.getuid() != 0:
        pytest.skip("an ordinary user reads its own files in its own jail")
    environment = {**os.environ, "CLOCHE_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT / "src")}
    code = "import os; os.umask(0o077)\nimport cloche\nprint(cloche.run('1 + 1', backend='jail').value)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr


def test_a_library_that_the_interpreter_cannot_load_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from cloche.backends.jail import launch
    from cloche.backends.jail.programs import Programs

    compiled = programs()
    if compiled is None:
        pytest.skip("the jail's C programs are not built here (make install, or python hatch_build.py)")
    (tmp_path / "broken.so").write_bytes(b"no library")
    monkeypatch.setattr(launch, "programs", lambda: Programs(compiled.init, str(tmp_path / "broken.so")))
    with cloche.create_sandbox(backend="jail") as sandbox, pytest.raises(cloche.StartError) as raised:
        sandbox.execute("1 + 1")
    assert "cannot load the jail's library" in str(raised.value)
