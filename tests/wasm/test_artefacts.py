"""Built and compiled guests: where they lie, who may write there, and when they are made anew."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cloche.backends.wasm import artefacts, building
from cloche.errors import BackendUnavailableError, BinaryMissingError, MachineError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("CLOCHE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_compiled_guest_is_for_its_owner_alone():
    binary = artefacts.locate(None)
    for file in (binary.path, binary.compiled, binary.facts_file):
        assert mode(file) == 0o600
    for folder in (binary.compiled.parent, binary.compiled.parent.parent):
        assert mode(folder) == 0o700


def test_a_guest_that_is_there_is_not_made_again():
    stages: list[str] = []
    building.ensure(None, building.Progress(stages.append, float))
    assert stages == []


@pytest.mark.parametrize("way", ["writable by others", "a link"])
def test_machine_code_that_somebody_else_could_have_written_is_refused(cache: Path, tmp_path: Path, way: str):
    """Whoever can write it can run anything as us."""
    (tmp_path / "python.wasm").write_bytes(b"\0asm\x0d\x00\x01\x00")
    binary = artefacts.locate(tmp_path / "python.wasm")
    artefacts.write_private(binary.facts_file, b"{}")
    artefacts.write_private(binary.compiled, b"code")
    assert binary.facts() == {}
    if way == "a link":
        elsewhere = tmp_path / "elsewhere"
        binary.compiled.rename(elsewhere)
        binary.compiled.symlink_to(elsewhere)
    else:
        binary.compiled.chmod(0o622)
    with pytest.raises(MachineError, match="not a file of ours alone") as caught:
        binary.facts()
    assert "cloche setup wasm" in str(caught.value.remedy)


def test_half_a_guest_is_no_guest(cache: Path, tmp_path: Path):
    (tmp_path / "python.wasm").write_bytes(b"\0asm\x0d\x00\x01\x00")
    binary = artefacts.locate(tmp_path / "python.wasm")
    assert binary.facts() is None
    artefacts.write_private(binary.compiled, b"code")
    assert binary.facts() is None


def test_other_content_is_compiled_to_another_file(cache: Path, tmp_path: Path):
    path = tmp_path / "python.wasm"
    path.write_bytes(b"\0asm\x0d\x00\x01\x00")
    before = artefacts.locate(path).compiled
    path.write_bytes(b"\0asm\x0d\x00\x01\x00more")
    assert artefacts.locate(path).compiled != before


def test_another_version_of_the_runtime_has_another_file(monkeypatch: pytest.MonkeyPatch):
    before = artefacts.locate(None).compiled
    monkeypatch.setattr(artefacts, "runtime_version", lambda: "99.0")
    assert artefacts.locate(None).compiled != before


def test_the_guest_is_named_after_its_source_and_the_tool_that_built_it():
    name = artefacts.component_path().parents[1].name
    assert name == f"{artefacts._sources()}-{artefacts.tool_version('componentize-py')}"
    assert artefacts.component_path().parts[-2:] == ("bin", "python.wasm")


def test_no_part_of_the_jail_is_in_the_guest():
    assert all("jail" not in path.parts for path in artefacts.source_files())


def test_a_guest_that_is_not_built_is_missing_and_says_how_to_build_it(cache: Path):
    with pytest.raises(BinaryMissingError) as caught:
        artefacts.locate(None)
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, BackendUnavailableError)
    assert caught.value.remedy == "cloche setup wasm"


def test_a_file_that_is_no_webassembly_is_refused(tmp_path: Path):
    (tmp_path / "python.wasm").write_text("#!/bin/sh\n")
    with pytest.raises(BackendUnavailableError, match="not a WebAssembly binary"):
        artefacts.locate(tmp_path / "python.wasm")


def test_without_the_tool_that_builds_it_the_command_to_install_it_is_named(
    cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(artefacts, "tool_version", lambda package: None)
    with pytest.raises(BackendUnavailableError) as caught:
        building.ensure(None, building.silent())
    assert caught.value.remedy == "pip install 'cloche[wasm]'"


def test_two_processes_do_not_build_at_once(cache: Path):
    with building._lock(building.silent()):
        script = (
            "from cloche.backends.wasm import building\n"
            "def tell(step):\n    print(step, flush=True)\n    raise SystemExit\n"
            "building.ensure(None, building.Progress(tell, float))"
        )
        environment = {**os.environ, "CLOCHE_CACHE_DIR": str(cache)}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout == building.STEPS["wait"] + "\n"


def test_what_nobody_used_for_a_month_is_removed(cache: Path, tmp_path: Path):
    (tmp_path / "python.wasm").write_bytes(b"\0asm\x0d\x00\x01\x00")
    binary = artefacts.locate(tmp_path / "python.wasm")
    old, fresh = artefacts.folder("compiled") / "old.cwasm", artefacts.folder("compiled") / "fresh.cwasm"
    old_component = artefacts.folder("components") / "old"
    old_component.mkdir()
    for path in (old, fresh, binary.compiled):
        path.write_bytes(b"")
    for path in (old, old_component, binary.compiled):
        os.utime(path, (0, 0))
    building._sweep(binary)
    assert not old.exists()
    assert not old_component.exists()
    assert fresh.exists()
    assert binary.compiled.exists()


def test_a_step_that_fails_says_what_went_wrong(cache: Path, tmp_path: Path):
    (tmp_path / "python.wasm").write_bytes(b"\0asm\x0d\x00\x01\x00nonsense")
    with pytest.raises(MachineError, match="step compile") as caught:
        building.ensure(tmp_path / "python.wasm", building.silent())
    assert caught.value.cause
    assert [path.name for path in artefacts.folder("compiled").iterdir()] == []


def test_the_guest_can_be_carried_by_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    carried = tmp_path / "bin" / "python.wasm"
    carried.parent.mkdir()
    shutil.copyfile(artefacts.component_path(), carried)
    monkeypatch.setattr(artefacts, "packaged_component", lambda: carried)
    assert artefacts.locate(None).path == carried
    assert artefacts.locate(None).facts() is not None, "the same content is compiled already"
