"""The positive control: the same cell in a process that is no sandbox, as programs that call `exec` on such code are.

It keeps a secret in its memory and its environment, lets descriptors through, hands the cell a plain function as a
tool, and afterwards does with the results what a naive host does: opens files by name, prints and unpickles values.
Cells touch canaries only, so this is safe; and it is what proves that a silent canary means something.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import Any

from cloche.escapes.canaries import Canaries, Effect
from cloche.escapes.needs import missing, needs_of_user
from cloche.escapes.neighbour import PLAIN, PlainNeighbour
from cloche.escapes.technique import Technique

DEADLINE = 30
STUCK_AFTER = 1.5
"""Seconds without an end in sight, of one that is meant to wait for ever."""
_HOST = r"""
import io, json, os, pickle, signal, socket, subprocess, sys
given = json.loads(sys.stdin.readline())
if given["beside"]:
    ends = dict(zip(("stdin", "stdout"), given["beside"]["ends"]))
    command = [sys.executable, "-I", "-S", "-c", given["beside"]["code"]]
    beside = subprocess.Popen(command, cwd=given["beside"]["folder"], **ends)
    for end in ends.values():
        os.close(end)
    given["canary"]["neighbour"] = beside.pid
    sys.stdin.readline()
sys.stdin = open(os.devnull)


class Held:
    def __init__(self, memory):
        self.memory = bytearray(memory)
        self.allowed = ()

    def lookup(self, name=""):
        return "%d characters, %r" % (len(self.memory), str(name)[:40])

    def reveal(self):
        return self.memory.decode()


held = Held(given["memory"].encode())


def host(code, canary, memory):
    held = Held(memory.encode())
    def lookup(name=""):
        return held.lookup(name)
    code = "canary = __import__('json').loads(%r)\n" % json.dumps(canary) + code
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
        if not os.path.isdir(name) and os.path.getsize(name) < 1000000:
            print(open(name, errors="replace").read())
    try:
        open("drop/report.txt", "w").write("by the host")
    except OSError:
        pass


def obey(said):  # as one who believes whatever comes over the wire
    for line in said.decode().splitlines():
        try:
            frame = json.loads(line)
            print(getattr(held, frame["params"]["name"])(*frame["params"].get("args", ())))
        except Exception as exc:
            print("raised", repr(exc)[:200])


class Page:  # what a browser's interpreter would find in its place
    process = type("process", (), {"env": dict(os.environ)})

    def eval(self, text):
        return dict(os.environ)


sys.modules["js"] = page = Page()
sys.modules["pyodide_js"] = page
wire, theirs = socket.socketpair()
namespace = host(given["code"], given["canary"], given["memory"])
wire.setblocking(False)
try:
    obey(wire.recv(1 << 20))
except OSError:
    pass
naive(namespace)
sys.stdout.flush()
print("END", flush=True)
sys.stdin = None
os.read(given["hold"], 1)
"""


def run_outside(technique: Technique, canaries: Canaries) -> tuple[frozenset[Effect], str]:
    """What the technique does without a wall, and what it printed."""
    hold_read, hold_write = os.pipe()
    neighbour = PlainNeighbour() if technique.aim is Effect.NEIGHBOUR else None
    ends = () if neighbour is None else (neighbour.stdin, neighbour.stdout)
    with (
        tempfile.TemporaryDirectory(prefix="cloche-outside-") as workspace,
        tempfile.TemporaryDirectory(prefix="cloche-outside-") as beside,
        tempfile.TemporaryFile() as said,
    ):
        given: dict[str, Any] = {
            "code": technique.code,
            "canary": canaries.addresses(),
            "memory": canaries.memory.decode(),
            "hold": hold_read,
            "beside": {"code": PLAIN, "folder": beside, "ends": ends} if ends else None,
        }
        process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-c", _HOST], cwd=workspace, stdin=subprocess.PIPE, stdout=said,
            stderr=said, pass_fds=[hold_read, canaries.descriptor, *ends], start_new_session=True,
        )  # fmt: skip
        os.close(hold_read)
        try:
            pipe = process.stdin
            assert pipe is not None
            pipe.write(json.dumps(given).encode() + b"\n")
            if neighbour is not None:
                pipe.flush()
                neighbour.started()
                pipe.write(b"it has settled\n")
            pipe.close()
            text = _wait_for_end(process, said, STUCK_AFTER if technique.aim is Effect.STUCK else DEADLINE)
            effects = canaries.look(text, starved=technique.aim is Effect.STARVED)
            if process.poll() is None and not text.endswith("END\n"):
                effects |= {Effect.STUCK}
            if neighbour is not None and neighbour.look():
                effects |= {Effect.NEIGHBOUR}
        finally:
            if neighbour is not None:
                neighbour.close()
            os.close(hold_write)
            try:
                process.wait(STUCK_AFTER if technique.aim is Effect.STUCK else DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if neighbour is not None:
                with suppress(ProcessLookupError):  # one that was stopped does not end by itself
                    os.killpg(process.pid, signal.SIGKILL)
        if canaries.survivors():
            effects |= {Effect.SURVIVED}
    return effects, text


_APART = """
import json, os, sys
from cloche.escapes import Canaries, find_technique, run_outside
from cloche_guest.jail import syscalls
user, group = os.getuid(), os.getgid()
syscalls.unshare(syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWNS | (syscalls.CLONE_NEWUSER if user else 0))
if user:
    for name, text in (("setgroups", "deny"), ("uid_map", "0 %d 1" % user), ("gid_map", "0 %d 1" % group)):
        with open("/proc/self/" + name, "w") as handle:
            handle.write(text)
syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
with Canaries() as canaries:
    effects, said = run_outside(find_technique(sys.argv[1]), canaries)
    syscalls.unmount(str(canaries.folder)) if os.path.ismount(canaries.folder) else None
print(json.dumps([[effect.value for effect in effects], said]))
"""


def run_apart(technique: Technique) -> tuple[frozenset[Effect], str]:
    """The same for what would change this machine: with a name and mounts of its own, canaries and all."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _APART, technique.name],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    if done.returncode:
        return frozenset(), done.stderr
    effects, said = json.loads(done.stdout)
    return frozenset(map(Effect, effects)), said


def run_as_user(technique: Technique, token: str, uid: int, python: str) -> tuple[int, list[str], str]:
    """A cell of ``resources`` without a wall, as a user whom nobody else is (only root can be one): how much it took,
    what that user could not get any more meanwhile, and what was printed."""
    before = needs_of_user(f"{token}-needed", uid, python)
    code = f"canary = {{'token': {token!r}}}\n{technique.code}\nimport sys\nsys.stdout.flush()\nsys.stdin.read()"
    with tempfile.TemporaryDirectory(prefix="cloche-outside-") as workspace, tempfile.TemporaryFile() as said:
        os.chown(workspace, uid, uid)
        process = subprocess.Popen(
            [python, "-I", "-S", "-c", code], cwd=workspace, stdin=subprocess.PIPE, stdout=said, stderr=said,
            user=uid, group=uid, extra_groups=[], start_new_session=True,
        )  # fmt: skip
        try:
            text = _wait_for_took(process, said)
            lost = missing(before, needs_of_user(f"{token}-needed", uid, python))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    took = [int(line.split()[1]) for line in text.splitlines() if line.startswith("took ")]
    return (took[-1] if took else -1), lost, text


def _wait_for_took(process: subprocess.Popen[bytes], said: Any) -> str:
    end = time.monotonic() + DEADLINE
    while True:
        ended = process.poll() is not None
        text = os.pread(said.fileno(), 1 << 20, 0).decode("utf-8", "replace")
        if ended or "took " in text or time.monotonic() > end:
            return text
        time.sleep(0.005)


def _wait_for_end(process: subprocess.Popen[bytes], said: Any, patience: float) -> str:
    """What it printed, when it has done everything but end; or when it has ended early."""
    end = time.monotonic() + patience
    while True:
        ended = process.poll() is not None
        text = os.pread(said.fileno(), 1 << 20, 0).decode("utf-8", "replace")
        if ended or text.endswith("END\n") or time.monotonic() > end:
            return text
        time.sleep(0.005)
