"""What SECURITY.md and ``cloche doctor`` promise is one table, and nothing in it goes without what proves it."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from docs.generate_guarantees import PAGE, page
from tests.docs.markdown import ROOT

from cloche import Isolation
from cloche.backends.jail.tiers import Mode, layers_of
from cloche.escapes import all_techniques, find_technique
from cloche.factory import probe_backends
from cloche.guarantees import ATTEMPTS, GUARANTEES, HOST, LAYERS, Guarantee, guarantees_of, sentences_of

TIERS = {
    "jail": (Isolation.METERED, Isolation.SEALED, Isolation.CONFINED),
    "wasm": (Isolation.METERED,),
    "pyodide": (Isolation.CONFINED,),
    "native": (Isolation.PROCESS,),
}
NO_LAYERS = {HOST, "process"}
"""Not layers that a result lists, of every wall."""


def name_of(found: Guarantee) -> str:
    return f"{found.wall}-{'-'.join(tier.name for tier in found.tiers)}-{found.attempt}"


def test_the_tables_of_the_page_are_current():
    assert PAGE.read_text("utf-8") == page(), "run: python docs/generate_guarantees.py"


def test_every_wall_says_of_every_attempt_what_holds_at_each_of_its_tiers():
    for wall, tiers in TIERS.items():
        for tier in tiers:
            said = [found.attempt for found in guarantees_of(wall, tier)]
            assert len(said) == len(set(said)), (wall, tier)
            assert {*ATTEMPTS} - {*said} <= {"branches"}, "only the sealed jail has those"


def test_no_guarantee_is_of_a_tier_that_its_wall_does_not_have():
    assert all(set(found.tiers) <= set(TIERS[found.wall]) for found in GUARANTEES)


@pytest.mark.parametrize("found", GUARANTEES, ids=name_of)
def test_a_guarantee_names_its_layers_and_what_proves_it_or_is_none(found: Guarantee):
    assert bool(found.layers) == bool(found.proofs)
    assert found.layers or found.holds.startswith("nothing")
    assert {*found.layers} <= {*LAYERS[found.wall], *NO_LAYERS}


@pytest.mark.parametrize("found", GUARANTEES, ids=name_of)
def test_everything_that_proves_a_guarantee_exists(found: Guarantee):
    for proof in found.proofs:
        if "::" not in proof:
            assert find_technique(proof).name == proof
            continue
        file, _, name = proof.partition("::")
        places = [ROOT / "tests" / file, ROOT / "src" / "cloche" / file]
        text = next((place.read_text("utf-8") for place in places if place.is_file()), "")
        assert re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE), proof


@pytest.mark.parametrize("found", [found for found in GUARANTEES if found.wall == "jail"], ids=name_of)
def test_techniques_that_are_named_are_held_at_that_tier_by_the_layers_that_are_named(found: Guarantee):
    for proof in (proof for proof in found.proofs if "::" not in proof):
        for tier in found.tiers:
            expected = find_technique(proof).expectation.at(tier)
            assert expected, f"{proof} is expected to get through at {tier}"
            assert {*expected} <= {*found.layers, *NO_LAYERS}, proof


def test_a_mere_process_claims_no_technique_that_it_is_expected_to_let_through():
    for found in guarantees_of("native", Isolation.PROCESS):
        for proof in (proof for proof in found.proofs if "::" not in proof):
            assert find_technique(proof).expectation.process, proof


@pytest.mark.parametrize("wall", TIERS)
def test_every_layer_that_is_described_has_a_guarantee_that_is_built_on_it(wall: str):
    used = {layer for found in GUARANTEES if found.wall == wall for layer in found.layers}
    assert {*LAYERS[wall]} <= used


def test_every_effect_that_techniques_aim_at_is_named_by_a_proof_of_the_jail():
    named = {find_technique(proof).aim for found in GUARANTEES if found.wall == "jail"
             for proof in found.proofs if "::" not in proof}  # fmt: skip
    assert {technique.aim for technique in all_techniques()} <= named


def test_layers_say_of_themselves_what_the_table_says():
    for mode, wall in ((Mode.SEALED, "jail"), (Mode.CONFINED, "jail, confined")):
        for layer in layers_of(mode):
            assert layer.purpose.startswith(LAYERS[wall][layer.name])
    for name, found in probe_backends().items():
        if name in TIERS and name != "jail":
            assert [layer.purpose for layer in found.layers] == [LAYERS[name][layer.name] for layer in found.layers]


def test_the_doctor_says_what_the_table_says():
    done = subprocess.run([sys.executable, "-m", "cloche", "doctor", "--json"], capture_output=True, text=True)
    told = json.loads(done.stdout)["backends"]
    for name, found in probe_backends().items():
        if found.available and found.isolation is not None and name in TIERS:
            assert told[name]["guarantees"] == sentences_of(name, found.isolation)
    shown = subprocess.run([sys.executable, "-m", "cloche", "doctor"], capture_output=True, text=True).stdout
    chosen = json.loads(done.stdout)["auto"]["backend"]
    assert all(sentence in shown for sentence in told[chosen]["guarantees"]["kept"])
