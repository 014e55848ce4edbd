"""``cloche doctor`` tells the truth: it agrees with what a real run reports, whatever is masked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Cloche

from cloche.backends.native import native_layers
from cloche.cli.doctor import EXTRAS, examine

LAYERS = [layer.name for layer in native_layers()]


def active(findings: Any, backend: str) -> list[str]:
    return [layer["name"] for layer in findings["backends"][backend]["layers"] if layer["active"]]


@pytest.mark.parametrize("mask", ["", *LAYERS, ",".join(LAYERS)], ids=lambda mask: mask or "nothing masked")
def test_doctor_agrees_with_a_real_run(cloche: Cloche, mask: str) -> None:
    findings = cloche("doctor", "--json", CLOCHE_MASK_LAYERS=mask).json
    result = cloche("run", "-c", "1", "--backend", "native", "--json", CLOCHE_MASK_LAYERS=mask).json
    assert result["success"]
    assert active(findings, "native") == result["layers"]
    assert not set(result["layers"]) & set(mask.split(","))
    assert findings["backends"]["native"]["isolation"] == result["isolation"]


@pytest.mark.parametrize("backend", ["native", "jail"])
def test_a_masked_layer_really_is_missing(cloche: Cloche, backend: str) -> None:
    command = ("run", "-b", backend, "-c", "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 256")
    assert cloche(*command).stdout == "True\n"
    assert cloche(*command, CLOCHE_MASK_LAYERS="rlimits").stdout == "False\n"


def test_a_missing_layer_has_its_purpose_and_remedy(cloche: Cloche) -> None:
    done = cloche("doctor", CLOCHE_MASK_LAYERS="rlimits")
    assert done.code == 0
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = lines.index("✗ rlimits: memory, file size and descriptors are bounded")
    assert lines[at + 1] == "remedy: unset CLOCHE_MASK_LAYERS"
    assert "✓ process: its own process and process group, killed whole" in lines


def test_doctor_names_interpreter_folders_and_choice(cloche: Cloche) -> None:
    done = cloche("doctor")
    assert (done.code, done.stderr) == (0, "")
    version = ".".join(map(str, sys.version_info[:3]))
    for text in (sys.executable, version, str(cloche.cache), str(cloche.sessions), "auto chooses jail"):
        assert text in done.stdout


def test_auto_in_doctor_is_what_a_run_takes(cloche: Cloche) -> None:
    assert cloche("doctor", "--json").json["auto"] == {
        "backend": "jail",
        "skipped": {"daemon": "no daemon runs"},
        "reason": None,
        "remedy": None,
    }


def test_a_backend_that_is_not_available_says_why_and_what_to_do(cloche: Cloche) -> None:
    done = cloche("doctor", "--json", "--python", "/no/such/python", CLOCHE_DENO="/no/such/deno")
    native = done.json["backends"]["native"]
    assert (done.code, done.json["ok"]) == (2, False)
    assert not native["available"]
    assert "/no/such/python" in native["reason"]
    assert native["remedy"]
    assert "/no/such/python" in done.json["auto"]["reason"]


def test_the_interpreter_of_the_configuration_counts(cloche: Cloche) -> None:
    assert cloche("doctor", CLOCHE_PYTHON="/no/such/python", CLOCHE_DENO="/no/such/deno").code == 2


def test_a_demand_that_nothing_meets_is_explained(cloche: Cloche) -> None:
    findings = cloche(
        "doctor",
        "--json",
        CLOCHE_MINIMUM_ISOLATION="metered",
        CLOCHE_MASK_LAYERS="cgroup",
        CLOCHE_PYTHON=sys.executable,
    ).json
    assert findings["auto"]["backend"] is None
    assert "METERED is demanded" in findings["auto"]["reason"]


def test_a_backend_in_the_configuration_that_does_not_exist_is_pointed_out(cloche: Cloche) -> None:
    assert "the configuration names nope, which does not exist" in cloche("doctor", CLOCHE_BACKEND="nope").stdout


def test_a_backend_that_cannot_be_imported_does_not_hide_the_others(cloche: Cloche, tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "broken-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[cloche.backends]\nbroken = no_such_module:Backend\n")
    done = cloche("doctor", "--json", PYTHONPATH=str(folder.parent))
    assert done.code == 0
    assert "no_such_module" in done.json["backends"]["broken"]["reason"]
    assert done.json["backends"]["native"]["available"]


def test_a_folder_that_cannot_be_made_is_told(cloche: Cloche) -> None:
    done = cloche("doctor", CLOCHE_CACHE_DIR="/proc/nowhere")
    assert done.code == 0
    assert "cache: /proc/nowhere cannot be used" in done.stdout


def test_every_optional_extra_has_its_purpose() -> None:
    assert examine()["extras"].keys() == EXTRAS.keys()
