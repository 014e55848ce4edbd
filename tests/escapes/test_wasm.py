"""The WebAssembly wall holds: no technique has an effect on the host."""

from __future__ import annotations

import pytest

from cloche.escapes import Canaries, all_techniques, run_technique
from cloche.factory import probe_backends

pytestmark = pytest.mark.skipif(not probe_backends()["wasm"].available, reason="pip install 'cloche[wasm]'")


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=pytest.mark.slow, id="all"), pytest.param(4, id="every fourth")]
)
def test_nothing_happens_to_the_host_behind_webassembly(canaries: Canaries, step: int) -> None:
    outcomes = [run_technique(technique, canaries, backend="wasm") for technique in all_techniques()[::step]]
    assert [(found.technique.name, found.effects, found.saw) for found in outcomes if not found.contained] == []
    assert [found.technique.name for found in outcomes if found.reached] == [], "no system call gets to the kernel"
    assert len(outcomes) > 150 // step
