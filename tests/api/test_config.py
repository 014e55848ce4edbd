"""Configuration: file, environment, arguments, in rising order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cloche import (
    ExecutionPolicy,
    Isolation,
    PolicyError,
    SandboxConfig,
    UnknownBackendError,
    create_sandbox,
    load_config,
)
from cloche.config import find_config_file
from cloche.config_files import passed_over


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in list(os.environ):
        if name.startswith("CLOCHE_") and name not in ("CLOCHE_CACHE_DIR", "CLOCHE_SESSIONS_DIR"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def timeout_of(*args: Any, **options: Any) -> int:
    return create_sandbox(*args, backend="native", **options).policy.timeout_ms


def test_each_source_outranks_the_one_below(tmp_path, monkeypatch):
    assert timeout_of() == ExecutionPolicy().timeout_ms
    (tmp_path / "cloche.toml").write_text("timeout = 100")
    assert timeout_of() == 100
    monkeypatch.setenv("CLOCHE_TIMEOUT", "200")
    assert timeout_of() == 200
    assert timeout_of({"timeout": 300}) == 300
    assert timeout_of({"timeout": 300}, timeout_ms=400) == 400
    assert timeout_of(policy=ExecutionPolicy(timeout_ms=500)) == 500
    assert timeout_of(policy=ExecutionPolicy(timeout_ms=500), timeout_ms=600) == 600


def test_a_source_sets_only_what_it_names(tmp_path, monkeypatch):
    (tmp_path / "cloche.toml").write_text("timeout_ms = 100\nmax_output_length = 10\ngrace_ms = 1")
    monkeypatch.setenv("CLOCHE_MAX_OUTPUT_LENGTH", "20")
    policy = create_sandbox({"graceMs": 2}, backend="native").policy
    assert (policy.timeout_ms, policy.max_output_length, policy.grace_ms) == (100, 20, 2)


def test_a_config_object_stands_alone(tmp_path, monkeypatch):
    (tmp_path / "cloche.toml").write_text("timeout = 100")
    monkeypatch.setenv("CLOCHE_GRACE_MS", "7")
    policy = create_sandbox(SandboxConfig(backend="native")).policy
    assert policy == ExecutionPolicy()


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"timeoutMs": 5}, "timeout_ms", 5), ({"maxOutputLength": 5}, "max_output_length", 5),
        ({"timeout": 5}, "timeout_ms", 5),
        ({"memory": 2**25}, "memory_bytes", 2**25), ({"policy": {"timeoutMs": 5}}, "timeout_ms", 5),
        ({"policy": ExecutionPolicy(timeout_ms=5)}, "timeout_ms", 5),
        ({"minimumIsolation": "process"}, "minimum_isolation", Isolation.PROCESS),
        ({"policy": {"timeout_ms": 4}, "timeout": 5}, "timeout_ms", 5),
    ],
)  # fmt: skip
def test_names_in_either_style_are_accepted(given, name, value):
    assert getattr(SandboxConfig.from_mapping(given).policy, name) == value


@pytest.mark.parametrize(
    ("given", "near"),
    [({"timout": 5}, "timeout"), ({"backened": "x"}, "backend"), ({"policy": {"grace": 5}}, "grace_ms"),
     ({"maxoutputlength": 5}, "max_output_length")],
)  # fmt: skip
def test_an_unknown_key_is_refused_with_the_nearest_name(given, near):
    with pytest.raises(TypeError, match=f"did you mean '{near}'"):
        SandboxConfig.from_mapping(given)


@pytest.mark.parametrize(
    "given",
    [{"policy": 5}, {"policy": "strict"}, {"options": 5}, {"policy": [1]}, {"backend": 5}, {"python": 5}, {5: 5}],
)
def test_a_value_of_a_wrong_kind_is_refused_as_such(given):
    with pytest.raises((PolicyError, TypeError), match=r"policy|options|backend|python|key"):
        SandboxConfig.from_mapping(given)


def test_an_unknown_option_of_a_backend_is_refused_with_the_nearest_name():
    with pytest.raises(TypeError, match="option of the native backend 'pyhton'; did you mean 'python'"):
        create_sandbox(backend="native", pyhton="x")


# -- files -------------------------------------------------------------------------------------


def test_the_nearest_file_upwards_counts(tmp_path, monkeypatch):
    inner = tmp_path / "a/b"
    inner.mkdir(parents=True)
    (tmp_path / "cloche.toml").write_text("timeout = 1")
    monkeypatch.chdir(inner)
    assert find_config_file() == tmp_path / "cloche.toml"
    (tmp_path / "a/pyproject.toml").write_text("[tool.cloche]\ntimeout = 2")
    assert load_config().timeout == 2
    (inner / "pyproject.toml").write_text("[tool.other]\nx = 1")
    assert load_config().timeout == 2, "a project without our table is passed over"
    (inner / "cloche.toml").write_text("timeout = 3\n[policy]\ngrace_ms = 4")
    assert (load_config().timeout, load_config().policy.grace_ms) == (3, 4)


def test_a_project_that_changes_is_read_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = tmp_path / "pyproject.toml"
    assert find_config_file() is None
    project.write_text("[tool.other]\nx = 1")
    assert find_config_file() is None
    project.write_text("[tool.cloche]\ntimeout = 2")
    assert load_config().timeout == 2
    project.write_text("[tool.cloche]\ntimeout = 34")
    assert load_config().timeout == 34
    project.unlink()
    assert find_config_file() is None


def test_our_own_file_outranks_the_project_beside_it(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.cloche]\ntimeout = 2")
    (tmp_path / "cloche.toml").write_text("timeout = 3")
    assert load_config().timeout == 3


def test_a_file_may_be_named(tmp_path, monkeypatch):
    named = tmp_path / "other.toml"
    named.write_text("backend = 'native'\npython = '/x'\nworkspace = 'w'\nnetwork = true")
    monkeypatch.setenv("CLOCHE_CONFIG", str(named))
    config = load_config()
    assert (config.backend, config.python, config.workspace, config.policy.network) == ("native", "/x", "w", True)
    monkeypatch.setenv("CLOCHE_CONFIG", str(tmp_path / "missing"))
    with pytest.raises(PolicyError, match="CLOCHE_CONFIG"):
        load_config()


@pytest.mark.parametrize(
    "text", ["timeout = ", "timeout = 'x'", "timeot = 5", "= 5", "\0", "policy = 5", "timeout = -1"]
)
def test_an_error_in_a_file_names_the_file(tmp_path, text):
    (tmp_path / "cloche.toml").write_text(text)
    with pytest.raises(PolicyError, match=r"cloche\.toml"):
        load_config()


def test_a_folder_that_was_removed_under_us_has_no_file(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert find_config_file() is None


# -- files that were merely found ---------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "python = './evil.sh'", "workspace = '/'", "mounts = ['/:/mnt']", "[options]\npython = 'x'", "packages = ['x']",
        "preload = ['x']", "environment = {LD_PRELOAD = 'x'}", "backend = 'native'", "backend = 'inprocess'",
        "network = true", "minimum_isolation = 'process'", "minimumIsolation = 'none'", "[policy]\nmounts = ['/:/mnt']",
    ],
)  # fmt: skip
def test_a_file_that_was_found_may_not_set_what_is_run_or_opened(tmp_path, monkeypatch, line):
    file = tmp_path / "cloche.toml"
    file.write_text(line)
    with pytest.raises(PolicyError, match="may not set") as caught:
        load_config()
    key = "options" if "[options]" in line else line.rpartition("\n")[2].partition(" ")[0]
    assert f"{file} may not set {key}" in caught.value.message
    monkeypatch.setenv("CLOCHE_CONFIG", str(file))
    load_config()


def test_a_project_that_was_found_may_not_either(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.cloche]\npython = './evil.sh'")
    with pytest.raises(PolicyError, match=r"pyproject\.toml may not set python"):
        load_config()


def test_the_users_own_file_may_set_everything_and_a_nearer_one_outranks_it(tmp_path, monkeypatch):
    own = tmp_path / "settings/cloche"
    own.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    (own / "cloche.toml").write_text("python = '/x'\ntimeout = 1\ngrace_ms = 2")
    (tmp_path / "cloche.toml").write_text("timeout = 3")
    config = load_config()
    assert (config.python, config.timeout, config.policy.grace_ms) == ("/x", 3, 2)


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "used"),
    [(0o644, 0o755, True), (0o646, 0o755, False), (0o644, 0o777, False), (0o644, 0o1777, True), (0o644, 0o757, False)],
)
def test_a_file_that_others_can_change_is_passed_over(tmp_path, monkeypatch, file_mode, folder_mode, used):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "cloche.toml").write_text("timeout = 1")
    (inner / "cloche.toml").chmod(file_mode)
    inner.chmod(folder_mode)
    monkeypatch.chdir(inner)
    assert (load_config().timeout == 1) is used
    assert bool(passed_over()) is not used


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("given", ["file", "folder"])
def test_a_file_of_another_user_is_passed_over(tmp_path, monkeypatch, given):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "cloche.toml").write_text("timeout = 1")
    os.chown(inner / "cloche.toml" if given == "file" else inner, 12345, 12345)
    (tmp_path / "cloche.toml").write_text("timeout = 2")
    monkeypatch.chdir(inner)
    assert load_config().timeout == 2


def test_a_link_or_a_pipe_in_the_place_of_a_file_is_passed_over(tmp_path, monkeypatch):
    for name, make in (("link", lambda path: path.symlink_to("/etc/passwd")), ("pipe", os.mkfifo)):
        (tmp_path / name).mkdir()
        make(tmp_path / name / "cloche.toml")
        monkeypatch.chdir(tmp_path / name)
        assert load_config() == SandboxConfig()


# -- environment -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("TIMEOUT_MS", "5", "timeout_ms", 5), ("MEMORY_BYTES", "none", "memory_bytes", None),
        ("NETWORK", "no", "network", False),
        ("NETWORK", "TRUE", "network", True), ("MEMORY", "100_000_000", "memory_bytes", 100_000_000),
        ("MINIMUM_ISOLATION", "Process", "minimum_isolation", Isolation.PROCESS),
        ("FUEL_BUDGET", "", "fuel_budget", None), ("PRELOAD", "numpy, os.path", "preload", ("numpy", "os.path")),
        ("PRELOAD", "none", "preload", ()), ("CPUS", "0.5", "cpus", 0.5),
    ],
)  # fmt: skip
def test_a_variable_sets_a_field(name, text, field, value):
    config = load_config(environ={f"CLOCHE_{name}": text})
    assert getattr(config.policy, field) == value


@pytest.mark.parametrize(
    ("name", "text"), [("TIMEOUT_MS", "fast"), ("TIMEOUT_MS", "-5"), ("NETWORK", "5"), ("MEMORY", "1GB")]
)
def test_a_bad_variable_is_refused_by_its_name(name, text):
    with pytest.raises(PolicyError) as caught:
        load_config(environ={f"CLOCHE_{name}": text})
    assert name.lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    ("name", "near"), [("TIMOUT_MS", "TIMEOUT_MS"), ("MEMORY_BYTE", "MEMORY_BYTES"), ("BACKND", "BACKEND")]
)
def test_a_misspelt_variable_is_refused_with_the_nearest_setting(name, near):
    with pytest.raises(PolicyError, match=f"did you mean CLOCHE_{near}"):
        load_config(environ={f"CLOCHE_{name}": "1"})


def test_a_backend_that_the_configuration_misnames_is_told_from_one_that_was_passed(monkeypatch):
    monkeypatch.setenv("CLOCHE_BACKEND", "jial")
    with pytest.raises(UnknownBackendError) as caught:
        create_sandbox()
    assert "cloche config" in str(caught.value.cause)
    with pytest.raises(UnknownBackendError) as caught:
        create_sandbox(backend="nativ")
    assert caught.value.cause is None


def test_variables_that_are_no_settings_are_left_alone():
    environ = {"CLOCHE_CACHE_DIR": "/x", "CLOCHE_MASK_LAYERS": "rlimits", "CLOCHE_WHATEVER": "x", "OTHER": "x"}
    assert load_config(environ=environ) == SandboxConfig()


def test_variables_set_backend_workspace_and_python():
    config = load_config(environ={"CLOCHE_BACKEND": "native", "CLOCHE_WORKSPACE": "/w", "CLOCHE_PYTHON": "/p"})
    assert (config.backend, config.workspace, config.python) == ("native", "/w", "/p")
