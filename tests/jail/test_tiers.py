"""Which wall the jail gets on which kernel, what it refuses, and that it never claims more than is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.jail.sessions import jail
from tests.ordinary_user import readable_interpreter
from tests.poorer_kernel import run_on

from cloche import BackendUnavailableError, Isolation
from cloche.backends.jail.backend import JailBackend
from cloche.backends.jail.houses import houses
from cloche.backends.jail.tiers import Mode, layers_of
from cloche.backends.jail.walls import walls

TRY = """
import json, sys, cloche
try:
    with cloche.create_sandbox(backend="jail", python=sys.argv[1]) as sandbox:
        result = sandbox.execute("import os\\nos.getuid()")
        found = [result.isolation.name, sorted(result.layers), result.value, sandbox.isolation.name]
except cloche.ClocheError as exc:
    found = [type(exc).__name__, exc.cause, exc.remedy]
print(json.dumps(found))
"""


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    walls.forget()
    yield
    walls.forget()


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that the guest can read in every tier."""
    found = sys.executable if os.getuid() != 0 else readable_interpreter()
    if found is None:
        pytest.skip("no interpreter here that every user can read")
    return str(found)


def on_kernel(words: str, *command: str) -> Any:
    """What a command prints as JSON on a kernel that lacks something."""
    done = run_on(words, *command)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_without_user_namespaces_the_jail_is_confined(python: str) -> None:
    tier, layers, uid, told = on_kernel("no-namespaces", "-c", TRY, python)
    assert (tier, told) == ("CONFINED", "CONFINED")
    assert "landlock" in layers
    assert "namespaces" not in layers
    assert uid != "0"


@pytest.mark.parametrize("kernel", ["no-landlock", "old-landlock"])
def test_without_user_namespaces_and_enough_of_landlock_it_is_refused(python: str, kernel: str) -> None:
    error, cause, remedy = on_kernel(f"no-namespaces,{kernel}", "-c", TRY, python)
    assert error == "BackendUnavailableError"
    assert "sealed: " in cause
    assert "confined: " in cause
    assert "user namespaces" in remedy
    assert "Landlock" in remedy


def test_namespaces_without_landlock_are_a_sealed_jail_and_the_missing_layer_is_told(python: str) -> None:
    tier, layers, *_ = on_kernel("no-landlock", "-c", TRY, python)
    assert tier in ("SEALED", "METERED")
    assert "landlock" not in layers


def test_without_seccomp_nothing_starts(python: str) -> None:
    error, cause, _ = on_kernel("no-seccomp", "-c", TRY, python)
    assert error == "BackendUnavailableError"
    assert "seccomp" in cause


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes somebody else")
def test_root_that_cannot_become_another_is_refused(python: str) -> None:
    error, cause, remedy = on_kernel("no-namespaces,no-setuid", "-c", TRY, python)
    assert error == "BackendUnavailableError"
    assert "confined: " in cause
    assert "ordinary user" in remedy


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes somebody else")
def test_root_with_an_interpreter_that_the_guest_cannot_read_is_told_so(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    folder.chmod(0o700)
    error, cause, remedy = on_kernel("no-namespaces", "-c", TRY, str(folder / "bin" / "python"))
    assert error == "BackendUnavailableError"
    assert "cannot read the interpreter" in cause
    assert "python=" in remedy


def test_the_doctor_names_the_tier_and_how_to_get_more(python: str) -> None:
    found = on_kernel("no-namespaces", "-m", "cloche.cli", "doctor", "--json", "--python", python)
    said = found["backends"]["jail"]
    assert (said["available"], said["isolation"]) == (True, "CONFINED")
    layers = {layer["name"]: layer for layer in said["layers"]}
    assert not layers["namespaces"]["active"]
    assert "user namespaces" in layers["namespaces"]["remedy"]
    assert layers["landlock"]["active"]


@pytest.mark.parametrize(
    ("mask", "tier"),
    [("namespaces", "CONFINED"), ("view", "CONFINED"), ("network", "CONFINED"), ("landlock", "SEALED"),
     ("rlimits", "SEALED"), ("cgroup", "SEALED")],
)  # fmt: skip
def test_a_masked_layer_is_not_reported_and_the_tier_is_what_the_others_give(
    mask: str, tier: str, python: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tempfile.mkdtemp(prefix="cloche-mask-", dir="/tmp" if os.getuid() == 0 else None)
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", folder)
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", mask)
    with jail(python=python) as sandbox:
        promised = sandbox.isolation
        result = sandbox.execute("1").check()
    houses.close()
    os.rmdir(folder)
    expected = Isolation.METERED if tier == "SEALED" and "cgroup" in result.layers else Isolation[tier]
    assert promised is result.isolation is expected
    assert mask not in result.layers


@pytest.mark.parametrize("mask", ["seccomp", "capabilities", "namespaces,landlock", "view,seccomp"])
def test_what_is_left_of_a_wall_without_a_bearing_layer_is_refused(mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", mask)
    with jail() as sandbox:
        with pytest.raises(BackendUnavailableError, match="masked") as caught:
            sandbox.execute("1")
        assert "unset CLOCHE_MASK_LAYERS" in str(caught.value.remedy)
    assert not JailBackend.probe().available


def test_every_layer_that_is_missing_says_how_to_get_it() -> None:
    for mode in Mode:
        assert [layer.name for layer in layers_of(mode) if not layer.active and not layer.remedy] == []
