"""Each fuzz target, for as long as a test may take. `python -m fuzz.<name>` goes on for longer."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.engine import WORDS, mutate, run_mutations, try_one

ROOT = Path(__file__).resolve().parent.parent.parent
TARGETS = sorted(path.stem for path in (ROOT / "fuzz").glob("*.py") if path.stem != "engine")


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_it(name):
    module = importlib.import_module(f"fuzz.{name}")
    run_mutations(module.target, module.CORPUS, iterations=2000)


@pytest.mark.parametrize("name", TARGETS)
def test_its_corpus_gets_past_the_front_door(name):
    """A corpus of nothing but rejected inputs would fuzz the rejection alone."""
    module = importlib.import_module(f"fuzz.{name}")
    lines: set[tuple[str, int]] = set()

    def trace(frame, event, argument):
        if event == "line":
            lines.add((frame.f_code.co_name, frame.f_lineno))
        return trace

    rejected_input = getattr(module, "REJECTED", b"\xff")
    module.target(rejected_input)  # what is imported on the way does not count
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        module.target(rejected_input)
        rejected = len(lines)
        for data in module.CORPUS:
            module.target(data)
    finally:
        sys.settrace(before)
    assert len(lines) > 2 * rejected


def test_the_same_seed_gives_the_same_inputs():
    seen: list[list[bytes]] = [[], []]
    for run in seen:
        run_mutations(run.append, [b"abc", b"{}"], iterations=50, seed=7)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 25


def test_mutations_change_their_input():
    choose = random.Random(1)
    assert sum(mutate(b"some text", choose, WORDS) != b"some text" for _ in range(200)) > 150


def test_a_failure_names_the_input_that_caused_it():
    def fail(data: bytes) -> None:
        raise AssertionError

    with pytest.raises(AssertionError) as caught:
        try_one(fail, b"\x00culprit")
    assert caught.value.__notes__ == ["input: b'\\x00culprit'"]


def test_a_target_runs_from_the_command_line_on_a_saved_input(tmp_path):
    saved = tmp_path / "crash"
    saved.write_bytes(b"{}")
    command = [sys.executable, "-m", "fuzz.values", "--iterations", "20", str(saved)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
