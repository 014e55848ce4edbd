"""`PythonSandbox`, scenario by scenario of the specification it grew from; each test names its scenario."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.wasm.sessions import value

import cloche
import cloche.wasm
from cloche import ExecutionPolicy, PythonSandbox, run_untrusted_python
from cloche.logger import SandboxLogger


class Notes:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    warning = info

    def named(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]


@pytest.fixture(scope="module")
def shared() -> Iterator[PythonSandbox]:
    """One session for tests that leave it as it was."""
    with PythonSandbox() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a real package, installed as the documentation says."""
    folder = tmp_path_factory.mktemp("packages")
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "--only-binary", ":all:"]
    done = subprocess.run([*command, "--no-deps", "urllib3"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no package index can be reached: {done.stderr.strip().splitlines()[-1]}")
    return folder


# -- Python Sandbox Implementation -------------------------------------------------------------


def test_execute_python_code_successfully(shared: PythonSandbox):
    result = shared.execute("print('Hello')")
    assert result.success
    assert "Hello" in result.stdout
    assert result.fuel_consumed is not None
    assert result.fuel_consumed > 0


def test_execute_with_injected_setup_code(packages: Path):
    """/app/site-packages is importable, and read-only; line numbers are the cell's."""
    with PythonSandbox(site_packages=packages) as sandbox:
        result = sandbox.execute("import urllib3; print('OK', urllib3.__file__)")
        assert result.stdout == "OK /app/site-packages/urllib3/__init__.py\n"
        refused = sandbox.execute("open('/app/site-packages/planted.py', 'w')")
        assert refused.exception is not None
        assert (refused.exception.type, refused.exception.line) == ("PermissionError", 1)
        assert not (packages / "planted.py").exists()
        assert "read-only" in str(refused.guidance)


def test_execute_without_injected_setup(tmp_path: Path):
    """The set-up paths are gone for that cell, also in a live session, and there again in the next."""
    (tmp_path / "brought.py").write_text("x = 1")
    with PythonSandbox(site_packages=tmp_path) as sandbox:
        usual = value(sandbox, "import sys; list(sys.path)")
        bare = sandbox.execute("list(sys.path)", inject_setup=False).value
        assert bare is not None
        assert "/app" not in bare
        assert "/app/site-packages" in str(usual)
        assert sandbox.execute("import brought", inject_setup=False).exception is not None
        assert value(sandbox, "import brought; brought.x") == "1"
        assert value(sandbox, "list(sys.path)") == usual


def test_handle_execution_errors_gracefully(shared: PythonSandbox):
    result = shared.execute("raise ValueError('test')")
    assert not result.success
    assert "ValueError: test" in result.stderr
    assert shared.execute("1").success


def test_reuse_existing_host_layer_logic(shared: PythonSandbox, monkeypatch: pytest.MonkeyPatch):
    """execute() delegates to run_untrusted_python()."""
    calls: list[str] = []
    real = cloche.wasm.run_untrusted_python

    def spy(code: str, **options: Any) -> cloche.SandboxResult:
        calls.append(code)
        return real(code, **options)

    monkeypatch.setattr(cloche.wasm, "run_untrusted_python", spy)
    assert shared.execute("6 * 7").value == "42"
    assert calls == ["6 * 7"]


def test_the_one_shot_function_runs_in_a_fresh_session(tmp_path: Path):
    first = run_untrusted_python("x = 1; open('f', 'w').close()", workspace=tmp_path)
    assert first.files_created == ("f",)
    assert run_untrusted_python("x").exception is not None
    policy = ExecutionPolicy(fuel_budget=100_000)
    assert run_untrusted_python("while True: pass", policy).outcome == "out_of_fuel"


# -- Python Code Validation --------------------------------------------------------------------


def test_validate_syntactically_correct_code(shared: PythonSandbox):
    assert shared.validate_code("x = 1 + 2") is True


def test_reject_syntactically_invalid_code(shared: PythonSandbox):
    assert shared.validate_code("x = 1 +") is False


def test_validation_does_not_execute_code(shared: PythonSandbox):
    assert shared.validate_code("open('/app/made', 'w').close(); ran = True") is True
    assert shared.get_variable("ran") is None
    assert shared.list_files() == []


def test_use_python_compile_for_validation(shared: PythonSandbox):
    """The guest's grammar, not the host's: a template string is newer than the oldest host."""
    assert shared.validate_code("t'{1}'") is True
    assert shared.validate_code("print 'old'") is False


# -- File Delta Detection ----------------------------------------------------------------------


def test_detect_created_files(tmp_path: Path):
    with PythonSandbox(workspace=tmp_path) as sandbox:
        result = sandbox.execute("open('/app/output.txt', 'w').write('data')")
        assert result.files_created == ("output.txt",)
        assert (tmp_path / "output.txt").read_text() == "data"


def test_detect_modified_files(tmp_path: Path):
    (tmp_path / "input.txt").write_text("some")
    with PythonSandbox(workspace=tmp_path) as sandbox:
        result = sandbox.execute("with open('/app/input.txt', 'a') as f: f.write('more')")
        assert (result.files_created, result.files_modified) == ((), ("input.txt",))


def test_exclude_user_code_py_from_delta(tmp_path: Path):
    """The code never becomes a file."""
    with PythonSandbox(workspace=tmp_path) as sandbox:
        result = sandbox.execute("import os; os.listdir('/app')")
        assert (result.value, result.files_created) == ("[]", ())


def test_provide_relative_paths(shared: PythonSandbox):
    result = shared.execute("import os; os.mkdir('/app/subdir'); open('/app/subdir/file.txt', 'w').close()")
    assert result.files_created == ("subdir/file.txt",)
    gone = shared.execute("import shutil; shutil.rmtree('/app/subdir')")
    assert gone.files_deleted == ("subdir/file.txt",)


# -- Execution Metrics -------------------------------------------------------------------------


def test_measure_execution_duration(shared: PythonSandbox):
    assert shared.execute("import time; time.sleep(0.1)").duration_ms >= 100


def test_capture_fuel_consumption(shared: PythonSandbox):
    """What the user's code used, and not the kernel: a loop of a million is counted as a million."""

    def used(passes: int) -> int:
        return shared.execute(f"for _ in range({passes}): pass").fuel_consumed or 0

    used(10)
    each = (used(3000) - used(1000)) / 2000
    passes = round(1_000_000 / each)
    assert 900_000 < used(passes) < 1_100_000


def test_capture_memory_usage(shared: PythonSandbox):
    before = shared.execute("1").memory_used_bytes or 0
    result = shared.execute("block = bytearray(10_000_000)")
    assert result.memory_used_bytes is not None
    assert result.memory_used_bytes >= before + 9_900_000
    shared.execute("del block")


def test_set_workspace_path(tmp_path: Path):
    with PythonSandbox(workspace=tmp_path) as sandbox:
        assert sandbox.execute("1").workspace_path == str(tmp_path)


# -- Security Boundary Preservation ------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/app/../etc/passwd", "../../etc/passwd", "/proc/self/environ", "/", "/dev/null"]
)
def test_enforce_wasi_filesystem_isolation(shared: PythonSandbox, path: str):
    result = shared.execute(f"import os; os.listdir({path!r}) if {path!r} == '/' else open({path!r})")
    assert not result.success
    assert result.exception is not None
    assert result.exception.type in ("FileNotFoundError", "PermissionError", "OSError")


def test_a_link_that_the_host_planted_does_not_lead_out(tmp_path: Path):
    (tmp_path / "secret").write_text("host")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "work" / "up").symlink_to("..")
    with PythonSandbox(workspace=tmp_path / "work") as sandbox:
        for name in ("link", "up/secret"):
            assert sandbox.execute(f"open({name!r}).read()").exception is not None


def test_enforce_fuel_limits():
    with PythonSandbox(ExecutionPolicy(fuel_budget=100_000)) as sandbox:
        result = sandbox.execute("while True: pass")
        assert (result.outcome, result.exit_code, result.session_state) == ("out_of_fuel", 125, "reset")
        assert "OutOfFuel" in result.stderr
        assert result.fuel_consumed == 100_000
        assert sandbox.execute("1 + 1").value == "2"


def test_enforce_memory_limits():
    with PythonSandbox(ExecutionPolicy(memory_bytes=64_000_000)) as sandbox:
        sandbox.execute("kept = 1")
        result = sandbox.execute("x = 'a' * 100_000_000")
        assert (result.outcome, result.exit_code, result.session_state) == ("memory", 137, "kept")
        assert result.exception is not None
        assert result.exception.type == "MemoryError"
        assert value(sandbox, "kept") == "1"


def test_enforce_output_capping():
    with PythonSandbox(ExecutionPolicy(stdout_max_bytes=1000)) as sandbox:
        result = sandbox.execute("print('x' * 10_000)")
        assert len(result.stdout.encode()) <= 1000
        assert result.stdout_truncated
        assert "truncated" in result.stdout


# -- Logging Integration -----------------------------------------------------------------------


def test_log_execution_start():
    notes = Notes()
    with PythonSandbox(ExecutionPolicy(fuel_budget=10**9), logger=SandboxLogger(notes)) as sandbox:
        sandbox.execute("1")
    (start,) = notes.named("execution.start")
    assert start["runtime"] == "python"
    assert start["fuel_budget"] == 10**9
    assert start["memory_bytes"] == sandbox.policy.memory_bytes


def test_log_execution_completion():
    notes = Notes()
    with PythonSandbox(logger=SandboxLogger(notes)) as sandbox:
        result = sandbox.execute("1")
    (complete,) = notes.named("execution.complete")
    assert complete["success"] is True
    assert complete["duration_ms"] == pytest.approx(result.duration_ms, abs=0.01)
    assert complete["fuel_consumed"] == result.fuel_consumed


def test_log_security_violations():
    notes = Notes()
    with PythonSandbox(ExecutionPolicy(fuel_budget=100_000), logger=SandboxLogger(notes)) as sandbox:
        sandbox.execute("while True: pass")
    (event,) = notes.named("security.fuel_exhaustion")
    assert event["event_type"] == "fuel_exhaustion"


# -- WASM Binary Configuration -----------------------------------------------------------------


def test_use_default_wasm_binary():
    assert PythonSandbox().wasm_binary_path.parts[-2:] == ("bin", "python.wasm")


def test_use_custom_wasm_binary(tmp_path: Path):
    custom = tmp_path / "python-other.wasm"
    custom.write_bytes(PythonSandbox().wasm_binary_path.read_bytes())
    with PythonSandbox(wasm_binary_path=custom) as sandbox:
        assert sandbox.wasm_binary_path == custom
        assert value(sandbox, "6 * 7") == "42"


def test_validate_wasm_binary_exists(tmp_path: Path):
    """Not by the constructor, but when it is needed; and then by an error of both kinds."""
    sandbox = PythonSandbox(wasm_binary_path=tmp_path / "missing.wasm")
    with pytest.raises(FileNotFoundError) as caught:
        sandbox.execute("1")
    with pytest.raises(cloche.BackendUnavailableError) as same:
        sandbox.execute("1")
    assert {type(caught.value), type(same.value)} == {cloche.BinaryMissingError}
    assert str(tmp_path / "missing.wasm") in str(caught.value)
    assert "wasm_binary_path" in str(same.value.remedy)
