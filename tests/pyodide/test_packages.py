"""`policy.packages`: fetched by the host, imported by the guest; and what is said of those that cannot be had."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from cloche import ExecutionPolicy, create_sandbox
from cloche.backends.pyodide import packages, runtime
from cloche.errors import BackendUnavailableError, PolicyError, UnsupportedError


def make_wheel(folder: Path) -> Path:
    """A package in pure Python, with a part that lies in the wheel's data."""
    wheel = folder / "lunar-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("lunar/__init__.py", "craters = 7\n")
        archive.writestr("lunar-1.0.data/purelib/lunar/maria.py", "tranquillitatis = 'dry'\n")
        archive.writestr("lunar-1.0.data/scripts/moon", "#!/bin/sh\n")
        archive.writestr("lunar-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: lunar\nVersion: 1.0\n")
        archive.writestr("lunar-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("lunar-1.0.dist-info/RECORD", "")
    return wheel


def test_a_wheel_that_is_given_by_path_is_imported(pyodide: runtime.Runtime, tmp_path: Path):
    wheel = make_wheel(tmp_path)
    with create_sandbox(backend="pyodide", packages=[str(wheel)]) as sandbox:
        sandbox.execute("import lunar, lunar.maria, importlib.metadata").check()
        code = "lunar.craters, lunar.maria.tranquillitatis, importlib.metadata.version('lunar')"
        assert sandbox.execute(code).value == "(7, 'dry', '1.0')"
        sandbox.execute("import os; os._exit(0)")
        assert sandbox.execute("import lunar; lunar.craters").value == "7"


def test_pure_and_compiled_packages_come_from_the_index(pyodide: runtime.Runtime):
    try:
        with create_sandbox(backend="pyodide", packages=["humanize", "msgspec"], timeout_ms=50_000) as sandbox:
            code = "import humanize, msgspec\nhumanize.intcomma(12345), msgspec.json.encode({'a': [1]})"
            assert sandbox.execute(code).value == "('12,345', b'{\"a\":[1]}')"
    except BackendUnavailableError as exc:
        pytest.skip(f"the package index cannot be reached from here: {exc.cause}")


def test_of_numpy_it_is_said_where_it_is(pyodide: runtime.Runtime):
    error = packages._explain(pyodide, "ERROR: No matching distribution found for numpy")
    assert isinstance(error, PolicyError)
    assert error.field == "packages"
    assert "published with Pyodide" in str(error.cause)
    assert "numpy-2.4.6-cp314-cp314-pyemscripten_2026_0_wasm32.whl" in str(error.remedy)
    assert "jail" in str(error.remedy)


def test_of_a_package_that_nobody_has_built_it_is_said_too(pyodide: runtime.Runtime):
    error = packages._explain(pyodide, "ERROR: No matching distribution found for nonesuch-compiled")
    assert isinstance(error, PolicyError)
    assert "nobody has published" in str(error.cause)


def test_an_index_that_does_not_answer_is_no_matter_of_the_package(pyodide: runtime.Runtime):
    error = packages._explain(pyodide, "ERROR: Could not install packages due to an OSError: Connection refused")
    assert isinstance(error, BackendUnavailableError)
    assert "Connection refused" in str(error.cause)


@pytest.mark.parametrize("bad", [["--index-url=x"], [""], "humanize", [5], ["a\nb"]])
def test_what_is_no_requirement_is_refused(bad: object):
    with pytest.raises(PolicyError):
        ExecutionPolicy(packages=bad)  # type: ignore[arg-type]  # that is the point


def test_a_wall_that_has_the_hosts_packages_refuses(tmp_path: Path):
    with pytest.raises(UnsupportedError):
        create_sandbox(backend="native", packages=["humanize"])


def test_pip_of_the_current_folder_is_not_the_one_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    here, target = tmp_path / "here", tmp_path / "target"
    for folder in (here / "pip", target):
        folder.mkdir(parents=True)
    for name in ("__init__.py", "__main__.py"):
        (here / "pip" / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    make_wheel(here)
    monkeypatch.chdir(here)
    runtime_of_none = runtime.Runtime("deno", tmp_path, tmp_path)
    packages._fetch(runtime_of_none, (packages._placed("lunar-1.0-py3-none-any.whl"),), target)
    assert not (tmp_path / "ran").exists()
    assert [path.name for path in target.iterdir()] == ["lunar-1.0-py3-none-any.whl"]
