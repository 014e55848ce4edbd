"""The positive control: the same cell in a process that is no sandbox, as programs that call `exec` on such code are.

It keeps a secret in its memory and its environment, lets descriptors through, hands the cell a plain function as a
tool, and afterwards does with the results what a naive host does: opens files by name, prints and unpickles values.
Cells touch canaries only, so this is safe; and it is what proves that a silent canary means something.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from cloche.escapes.canaries import Canaries, Effect
from cloche.escapes.technique import Technique

DEADLINE = 30
_HOST = r"""
import io, json, os, pickle, signal, sys
given = json.loads(sys.stdin.readline())
sys.stdin = open(os.devnull)


class Held:
    def __init__(self, memory):
        self.memory = bytearray(memory)
        self.allowed = ()

    def lookup(self, name=""):
        return "%d characters, %r" % (len(self.memory), str(name)[:40])


def host(code, canary, memory):
    held = Held(memory.encode())
    def lookup(name=""):
        return held.lookup(name)
    namespace = {"__name__": "__main__", "__builtins__": __builtins__, "canary": canary, "lookup": lookup}
    try:
        exec(compile(code, "<cell>", "exec"), namespace)
    except BaseException as exc:
        print("raised", repr(exc)[:200])
    return namespace


def naive(namespace):
    for name in ("evil", "result"):
        if name in namespace:
            try:
                print(repr(namespace[name]), str(namespace[name]))
                print(pickle.loads(pickle.dumps(namespace[name])))
            except BaseException as exc:
                print("raised", repr(exc)[:200])
    for name in os.listdir("."):
        if os.path.isfile(name) and os.path.getsize(name) < 1000000:
            print(open(name, errors="replace").read())
    try:
        open("drop/report.txt", "w").write("by the host")
    except OSError:
        pass


namespace = host(given["code"], given["canary"], given["memory"])
naive(namespace)
sys.stdout.flush()
print("END", flush=True)
sys.stdin = None
os.read(given["hold"], 1)
"""


def run_outside(technique: Technique, canaries: Canaries) -> tuple[frozenset[Effect], str]:
    """What the technique does without a wall, and what it printed."""
    hold_read, hold_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="cloche-outside-") as workspace, tempfile.TemporaryFile() as said:
        given: dict[str, Any] = {
            "code": canaries.preamble() + technique.code,
            "canary": canaries.addresses(),
            "memory": canaries.memory.decode(),
            "hold": hold_read,
        }
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _HOST], cwd=workspace, stdin=subprocess.PIPE, stdout=said,
            stderr=said, pass_fds=[hold_read, canaries.descriptor], start_new_session=True,
        )  # fmt: skip
        os.close(hold_read)
        try:
            pipe = process.stdin
            assert pipe is not None
            pipe.write(json.dumps(given).encode() + b"\n")
            pipe.close()
            text = _wait_for_end(process, said)
            effects = canaries.look(text, starved=technique.aim is Effect.STARVED)
        finally:
            os.close(hold_write)
            try:
                process.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if canaries.survivors():
            effects |= {Effect.SURVIVED}
    return effects, text


def _wait_for_end(process: subprocess.Popen[bytes], said: Any) -> str:
    """What it printed, when it has done everything but end; or when it has ended early."""
    import time

    end = time.monotonic() + DEADLINE
    while True:
        ended = process.poll() is not None
        text = os.pread(said.fileno(), 1 << 20, 0).decode("utf-8", "replace")
        if ended or text.endswith("END\n") or time.monotonic() > end:
            return text
        time.sleep(0.005)
