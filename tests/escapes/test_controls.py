"""Positive controls: outside any wall every technique reaches its aim, so that a silent canary means something."""

from __future__ import annotations

import errno

import pytest

from cloche.escapes import Canaries, Technique, all_techniques, run_outside

CELLS = [technique for technique in all_techniques() if not technique.is_probe]
PROBES = [technique for technique in all_techniques() if technique.is_probe]
IN_EVERY_KERNEL = {"mount", "ptrace", "unshare", "setns", "chroot", "reboot", "mknod", "setuid", "socket__inet"}


@pytest.mark.parametrize("technique", CELLS, ids=lambda technique: f"{technique.id}-{technique.name}")
def test_without_a_wall_it_reaches_its_aim(technique: Technique, canaries: Canaries) -> None:
    effects, said = run_outside(technique, canaries)
    assert technique.aim in effects, said[-2000:]


@pytest.mark.parametrize("technique", PROBES, ids=lambda technique: technique.name)
def test_without_a_wall_the_kernel_answers_and_nothing_happens(technique: Technique, canaries: Canaries) -> None:
    effects, said = run_outside(technique, canaries)
    assert not effects
    answers = [int(line.split()[1]) for line in said.splitlines() if line.startswith("answer ")]
    assert len(answers) == 1, said
    call = technique.name.removeprefix("probe_")
    if answers == [errno.ENOSYS] and call not in IN_EVERY_KERNEL:
        pytest.skip(f"this kernel was built without {call.replace('__', ' with ')}")
    assert answers != [errno.ENOSYS]


def test_a_cell_that_does_nothing_has_no_effect(canaries: Canaries) -> None:
    idle = Technique("X", "idle", "Do nothing.", None, (), "print('hello')")
    effects, said = run_outside(idle, canaries)
    assert not effects
    assert "hello" in said
