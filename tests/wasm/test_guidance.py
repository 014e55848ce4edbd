"""What to do next: one plain sentence for each thing that is different behind this wall."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.wasm.sessions import wasm

import cloche


@pytest.fixture(scope="module")
def shared() -> Iterator[cloche.PythonSandbox]:
    with wasm(fuel_budget=100_000_000, memory_bytes=100_000_000) as sandbox:
        yield sandbox


SENTENCES = {
    "fuel": ("while True: pass", "policy.fuel_budget"),
    "memory": ("bytearray(200_000_000)", "policy.memory_bytes"),
    "a path outside": ("open('/etc/hosts')", "Only /app exists"),
    "a path that climbs": ("open('/app/../x')", "Only /app exists"),
    "a package": ("import numpy", "site_packages=FOLDER"),
    "a standard module": ("import ssl", "The standard module ssl needs an operating system"),
    "a part of one": ("import bz2", "The standard module bz2 needs an operating system"),
    "threads": ("import threading; threading.Thread(target=int).start()", "no threads"),
    "processes": ("import subprocess; subprocess.run(['ls'])", "no other processes"),
    "fork": ("import os; os.fork()", "no other processes"),
    "sockets": ("import socket; socket.socket()", "The network is off"),
    "names": ("import socket; socket.create_connection(('localhost', 80))", "The network is off"),
    "links": ("import os; os.symlink('/etc', 'x')", "inside /app"),
    "bytes in names": ("open(b'\\xff', 'w')", "must be UTF-8"),
    "a pool of processes": ("import multiprocessing; multiprocessing.Pool(2)", "no other processes"),
    "time zones": ("import zoneinfo; zoneinfo.ZoneInfo('Europe/Berlin')", "tzdata"),
    "the parser": ("eval('(' * 1000 + ')' * 1000)", "nested too deeply"),
    "addresses": ("'x' * 3_000_000_000", "32-bit"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_failure_comes_with_what_to_do(shared: cloche.PythonSandbox, name: str):
    code, words = SENTENCES[name]
    result = shared.execute(code)
    assert not result.success
    assert words in str(result.guidance)


def test_a_file_that_is_missing_in_app_needs_no_lesson(shared: cloche.PythonSandbox):
    assert shared.execute("open('/app/missing')").guidance is None
    assert shared.execute("open('missing')").guidance is None


def test_a_refusal_of_the_codes_own_is_not_blamed_on_the_network(shared: cloche.PythonSandbox):
    assert shared.execute("raise PermissionError('not for you')").guidance is None
