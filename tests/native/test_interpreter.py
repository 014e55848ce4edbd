"""Finding a Python and knowing it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.guest.every_python import find
from tests.jail.sessions import Environment
from tests.native.watching import run_script

from cloche import BackendUnavailableError, NativePythonSandbox
from cloche.backends import interpreter
from cloche.backends.interpreter import examine, locate, version_of
from cloche.backends.native import NativeBackend


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone, and nothing known from before."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CLOCHE_CACHE_DIR", str(folder))
    monkeypatch.setattr(interpreter, "_known", {})
    return folder


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def old_pythons() -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [str(path) for version in ("2.7", "3.6", "3.7") for path in sorted(root.glob(f"{version}.*/bin/python"))]


@pytest.mark.parametrize("python", old_pythons() or [None])
def test_an_interpreter_that_is_too_old_is_named_with_its_version(python):
    if python is None:
        pytest.skip("no Python older than 3.8 on this machine: its refusal is not tested")
    version = Path(python).parent.parent.name
    for refuse in (lambda: examine(python), lambda: version_of(python)):
        with pytest.raises(
            BackendUnavailableError, match=f"is Python {version}; the guest needs 3.8 or later"
        ) as caught:
            refuse()
        assert caught.value.remedy is not None
        assert "python=" in caught.value.remedy
    availability = NativeBackend.probe(python=python)
    assert not availability.available
    assert version in availability.reason


@pytest.mark.parametrize("python", ["/nonexistent/python3", "no-such-python", "", "/", "/etc/passwd", "/dev/null"])
def test_what_is_not_there_or_cannot_be_run_is_refused(python):
    with pytest.raises(BackendUnavailableError) as caught:
        examine(python)
    assert caught.value.remedy is not None
    assert not NativeBackend.probe(python=python).available


@pytest.mark.parametrize(
    "text",
    ["#!/bin/sh\nexit 0", "#!/bin/sh\necho hello world", "#!/bin/sh\nexit 3", "not a program", "#!/nonexistent\n",
     "#!/bin/sh\necho Python x.y.z", "#!/bin/sh\nkill -9 $$"],
)  # fmt: skip
def test_what_is_not_a_python_is_refused(tmp_path, text):
    fake = script(tmp_path / "python", text)
    with pytest.raises(BackendUnavailableError, match="not a working Python"):
        examine(fake)
    assert not NativeBackend.probe(python=fake).available


def test_what_claims_to_be_a_python_and_is_none_is_refused(tmp_path):
    fake = script(tmp_path / "python", "#!/bin/sh\necho Python 3.12.1")
    with pytest.raises(BackendUnavailableError, match="could not prepare the guest"):
        examine(fake)


def test_a_python_that_is_not_cpython_is_refused(tmp_path):
    answer = '{"version": [3, 10, 13], "implementation": "pypy"}'
    fake = script(tmp_path / "pypy3", f"#!/bin/sh\necho '{answer}'")
    with pytest.raises(BackendUnavailableError, match="is pypy; the guest needs CPython"):
        examine(fake)


def test_a_program_that_never_answers_is_refused_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreter, "LOOK_TIMEOUT", 0.3)
    fake = script(tmp_path / "python", "#!/bin/sh\nexec sleep 600")
    with pytest.raises(BackendUnavailableError):
        examine(fake)


def test_a_shim_is_resolved_to_what_is_behind_it(tmp_path):
    shim = script(tmp_path / "shims/python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    found = examine(shim)
    assert Path(found.executable).name.startswith("python")
    assert not Path(found.executable).is_relative_to(tmp_path)
    with NativePythonSandbox(python=shim) as sandbox:
        value = sandbox.execute("import os\nos.readlink('/proc/self/exe')").value
    assert value is not None
    assert "sh" not in value.split("/")[-1]


def test_the_shims_of_a_version_manager_are_resolved():
    shims = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "shims/python3"
    if not shims.exists():
        pytest.skip("no pyenv shims on this machine: only an imitation is tested")
    assert "shims" not in examine(shims).command()[0]


def test_a_name_is_looked_up_on_the_path(monkeypatch, tmp_path):
    script(tmp_path / "my-python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert locate("my-python") == str(tmp_path / "my-python")
    assert examine("my-python").version == sys.version_info[:3]


def test_without_a_choice_it_is_our_own_interpreter():
    assert locate(None) == sys.executable
    assert examine().version == sys.version_info[:3]


@pytest.mark.parametrize("name", ["with space", "é", "new\nline", "quote'\""])
def test_an_interpreter_may_lie_at_an_odd_place(tmp_path, name):
    python = find("3.12") or sys.executable
    link = tmp_path / name / "python"
    link.parent.mkdir()
    link.symlink_to(python)
    with NativePythonSandbox(python=link) as sandbox:
        assert sandbox.execute("1 + 1").value == "2"


# -- environments ------------------------------------------------------------------------------


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A venv with a package by a path line and one by a code line, as editable installs make them."""
    root = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
    site = next(root.glob("lib/python*/site-packages"))
    for name in ("by_path", "by_code"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text(f"where = {name!r}")
    (site / "plain.py").write_text("where = 'plain'")
    (site / "one.pth").write_text(f"{tmp_path / 'by_path'}\n")
    (site / "two.pth").write_text(f"import sys; sys.path.append({str(tmp_path / 'by_code')!r})\n")
    (site / "three.pth").write_text("import sys; sys.meta_path.insert(0, __import__('finder').Finder())\n")
    (site / "finder.py").write_text(
        "import importlib.machinery as m\nclass Finder:\n    def find_spec(self, name, path=None, target=None):\n"
        "        return m.ModuleSpec(name, self) if name == 'by_finder' else None\n"
        "    def create_module(self, spec): return None\n"
        "    def exec_module(self, module): module.where = 'by_finder'\n"
    )
    return root


def test_packages_of_an_environment_can_be_imported_however_they_got_there(environment):
    with NativePythonSandbox(python=environment / "bin/python") as sandbox:
        for name in ("plain", "by_path", "by_code", "by_finder"):
            result = sandbox.execute(f"import {name}\n{name}.where")
            assert (result.outcome, result.value) == ("ok", repr(name)), result.error
        assert sandbox.execute("import sys\nsys.prefix").value == repr(str(environment))


def test_an_environment_does_not_see_the_packages_of_ours(environment):
    with NativePythonSandbox(python=environment / "bin/python") as sandbox:
        assert sandbox.execute("import anyio").outcome == "error"


def test_a_package_that_is_installed_later_is_found_by_the_next_session(environment):
    site = next(environment.glob("lib/python*/site-packages"))
    for name in ("first", "second"):
        (site / f"{name}.py").write_text("")
        extra = environment.parent / f"extra_{name}"
        extra.mkdir()
        (extra / f"deep_{name}.py").write_text("")
        (site / f"{name}.pth").write_text(f"{extra}\n")
        with NativePythonSandbox(python=environment / "bin/python") as sandbox:
            result = sandbox.execute(f"import {name}, deep_{name}")
            assert result.outcome == "ok", result.error


def test_the_metadata_of_packages_is_there_before_any_import(environment):
    site = next(environment.glob("lib/python*/site-packages"))
    (site / "demo-1.5.dist-info").mkdir()
    (site / "demo-1.5.dist-info/METADATA").write_text("Name: demo\nVersion: 1.5\n")
    with NativePythonSandbox(python=environment / "bin/python") as sandbox:
        assert sandbox.execute("import importlib.metadata as m\nm.version('demo')").value == "'1.5'"


# -- the cache ---------------------------------------------------------------------------------


def test_the_guest_is_compiled_once_and_kept(own_cache):
    first = examine()
    assert first.bundle is not None
    assert first.bundle.is_relative_to(own_cache)
    made = first.bundle.stat().st_mtime_ns
    interpreter._known.clear()
    second = examine()
    assert second == first
    assert first.bundle.stat().st_mtime_ns == made
    assert not [path for path in first.bundle.parent.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("place", ["/proc/cloche", "/dev/null/cache", "/dev/null"])
def test_without_a_cache_the_guest_starts_from_its_source(monkeypatch, place):
    monkeypatch.setenv("CLOCHE_CACHE_DIR", place)
    assert examine().bundle is None
    with NativePythonSandbox() as sandbox:
        result = sandbox.execute("x = 1\n1/0")
        assert result.exception is not None
        assert "cloche" not in result.exception.traceback
        assert sandbox.execute("x").value == "1"


@pytest.mark.parametrize("damage", ["json", "pyc empty", "pyc cut", "pyc gone", "json list", "other magic"])
def test_a_damaged_cache_is_made_anew(own_cache, damage):
    bundle = examine().bundle
    assert bundle is not None
    record = bundle.with_suffix(".json")
    whole = bundle.read_bytes()
    if damage.startswith("json"):
        record.write_text("[]" if damage == "json list" else "{")
    elif damage == "pyc gone":
        bundle.unlink()
    else:
        bundle.write_bytes({"pyc empty": b"", "pyc cut": whole[:500]}.get(damage, b"1234" + whole[4:] + b"x"))
    interpreter._known.clear()
    with NativePythonSandbox() as sandbox:
        assert sandbox.execute("1 + 1").value == "2"


def test_a_cache_that_was_removed_under_a_running_host_is_made_anew(own_cache):
    import shutil

    with NativePythonSandbox() as sandbox:
        sandbox.execute("1")
        shutil.rmtree(own_cache)
        sandbox.reset()
        assert sandbox.execute("1 + 1").value == "2"


def test_an_interpreter_that_was_replaced_is_looked_at_again(tmp_path):
    others = [path for path in map(find, ("3.9", "3.12")) if path is not None]
    if len(others) < 2:
        pytest.skip("needs two other interpreters")
    link = tmp_path / "python"
    for path in others:
        link.unlink(missing_ok=True)
        link.symlink_to(path)
        with NativePythonSandbox(python=link) as sandbox:
            value = sandbox.execute("import sys\nsys.version_info[:2]").value
            assert value == repr(examine(path).version[:2])


def test_many_first_starts_at_once_all_work(own_cache):
    code = "import cloche; print(cloche.run('1 + 1', backend='native').value)"
    processes = [run_script(code) for _ in range(3)]
    results: list[str | None] = []

    def start() -> None:
        with NativePythonSandbox() as sandbox:
            results.append(sandbox.execute("1 + 1").value)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["2"] * 8
    assert [process.communicate()[0] for process in processes] == ["2\n"] * 3
    records = [path for path in (own_cache / "guests").iterdir() if path.suffix == ".json"]
    assert [json.loads(path.read_text())["version"] for path in records] == [list(sys.version_info[:3])]


def test_nothing_of_site_packages_runs_as_the_host(tmp_path):
    environment = Environment(tmp_path / "venv")
    mark = tmp_path / "ran"
    attack = f"import os; open({str(mark)!r}, 'w')"
    (environment.packages / "x.pth").write_text(attack + "\n")
    (environment.packages / "sitecustomize.py").write_text(attack)
    (environment.packages / "usercustomize.py").write_text(attack)
    examine(environment.python)
    os.utime(environment.packages)  # a package was installed: it is looked at again
    examine(environment.python)
    assert not mark.exists()


def test_folders_that_pth_files_name_are_searched(tmp_path):
    environment = Environment(tmp_path / "venv")
    (tmp_path / "source").mkdir()
    (environment.packages / "own.pth").write_text(f"# a comment\nimport os\n{tmp_path / 'source'}\n/nowhere\n")
    found = examine(environment.python)
    assert found.prefix == str(tmp_path / "venv")
    at = found.path.index(str(environment.packages))
    assert found.path[at + 1] == str(tmp_path / "source")
