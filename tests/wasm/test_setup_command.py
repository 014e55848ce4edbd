"""``cloche setup wasm``, ``cloche doctor`` and ``cloche run`` on this wall, as their users start them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from cloche.backends.wasm import artefacts

COMMAND = [sys.executable, "-m", "cloche.cli"]


def cloche(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, **variables}, timeout=50
    )


def test_set_up_again_does_nothing_and_says_where_everything_is():
    found = json.loads(cloche("setup", "wasm", "--json").stdout)
    assert found["steps"] == []
    assert found["details"]["guest"] == str(artefacts.component_path())
    assert found["details"]["interrupts"] == "keep the session"


def test_a_step_that_fails_is_told_and_not_half_done(tmp_path: Path):
    """A cache that cannot be written."""
    done = cloche("setup", "wasm", CLOCHE_CACHE_DIR="/proc/nowhere")
    assert done.returncode != 0
    assert "error:" in done.stderr


def test_doctor_knows_the_wall_and_what_it_can_be_without():
    findings = json.loads(cloche("doctor", "--json", CLOCHE_MASK_LAYERS="rlimits,fuel").stdout)["backends"]["wasm"]
    active = [layer["name"] for layer in findings["layers"] if layer["active"]]
    assert "rlimits" not in active
    assert "fuel" in active, "that cannot be switched off"
    assert findings["isolation"] == "METERED"
    ran = json.loads(cloche("run", "-c", "1", "--backend", "wasm", "--json", CLOCHE_MASK_LAYERS="rlimits").stdout)
    assert "rlimits" not in ran["layers"]


def test_a_masked_wall_is_not_there():
    done = cloche("run", "-c", "1", "--backend", "wasm", CLOCHE_MASK_LAYERS="webassembly")
    assert "switched off" in done.stderr


def test_progress_is_a_bar_on_a_terminal():
    """In the middle of a first use; the rest is as anywhere."""
    script = (
        "from cloche.backends.wasm.building import on_terminal\nshow = on_terminal()\n"
        "show('build', 0.0); show('build', 0.5); show('build', 1.0)"
    )
    main, terminal = pty.openpty()
    subprocess.run([sys.executable, "-c", script], stderr=terminal, check=True)
    os.close(terminal)
    shown = os.read(main, 65536).decode()
    os.close(main)
    assert "[###############...............]" in shown
    assert "building the guest" in shown
