"""Positive controls: outside any wall every technique reaches its aim, so that a silent canary means something."""

from __future__ import annotations

import errno
import os

import pytest
from tests.ordinary_user import readable_interpreter

from cloche.escapes import Canaries, Effect, Expectation, Technique, all_techniques, run_apart, run_as_user, run_outside
from cloche_guest.jail import syscalls

CELLS = [
    found for found in all_techniques() if not found.is_probe and found.aim not in (Effect.STATE, Effect.EXHAUSTED)
]
USED_UP = {
    "queued_signals": "a queued signal",
    "timers": "a timer",
    "descriptors_in_flight": "to pass a descriptor",
    "file_watches": "inotify",
    "keys": "a key",
    "message_queues": "a message queue",
    "abstract_names": "a name",
}
"""What a user has too little of for a cell that is to be done in a moment; of the rest cells take much, but not all."""
QUICK = ("descriptors_in_flight", "file_watches", "keys", "message_queues", "abstract_names")
ONLY_ROOT = ("control_groups", "locked_memory")
OF_RESOURCES = [
    pytest.param(found, marks=() if found.name in QUICK else pytest.mark.slow)
    for found in all_techniques()
    if found.aim is Effect.EXHAUSTED
]
OF_STATE = [found for found in all_techniques() if found.aim is Effect.STATE]
PROBES = [technique for technique in all_techniques() if technique.is_probe]
IN_EVERY_KERNEL = {"mount", "ptrace", "unshare", "setns", "chroot", "reboot", "mknod", "setuid", "socket__inet"}


@pytest.mark.parametrize("technique", CELLS, ids=lambda technique: f"{technique.id}-{technique.name}")
def test_without_a_wall_it_reaches_its_aim(technique: Technique, canaries: Canaries) -> None:
    if 'canary["shared"]' in technique.code and canaries.shared is None:
        pytest.skip("the interpreter's folder cannot be written here, so nothing of ours can be shared through it")
    effects, said = run_outside(technique, canaries)
    assert technique.aim in effects, said[-2000:]


@pytest.mark.parametrize("technique", OF_STATE, ids=lambda technique: f"{technique.id}-{technique.name}")
def test_without_a_wall_the_state_of_the_machine_is_changed(technique: Technique) -> None:
    if not can_have_namespaces():
        pytest.skip("neither root nor user namespaces: a machine of its own cannot be played here")
    effects, said = run_apart(technique)
    assert Effect.STATE in effects, said[-2000:]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be a user whom nobody else is")
@pytest.mark.parametrize("technique", OF_RESOURCES, ids=lambda technique: f"{technique.id}-{technique.name}")
def test_without_a_wall_it_takes_what_its_user_needs(technique: Technique, canaries: Canaries) -> None:
    python = readable_interpreter()
    if python is None:
        pytest.skip("no interpreter here that every user can read")
    took, lost, said = run_as_user(technique, canaries.token, 1_800_000_000 + os.getpid(), str(python))
    assert took > 0 or technique.name in ONLY_ROOT, said[-2000:]
    assert technique.name not in USED_UP or USED_UP[technique.name] in lost, (took, lost)


def can_have_namespaces() -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            syscalls.unshare(
                syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWNS | (syscalls.CLONE_NEWUSER if os.getuid() else 0)
            )
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


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
    idle = Technique("X", "idle", "Do nothing.", None, Expectation(), "print('hello')")
    effects, said = run_outside(idle, canaries)
    assert not effects
    assert "hello" in said
