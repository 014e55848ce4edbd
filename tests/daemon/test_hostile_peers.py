"""The daemon's wire with a hostile peer at either end: clients that lie to it, and a daemon that lies to a client."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.daemon.foreign_client import ForeignClient, enter
from tests.hostile_frames import SHAPES, frame, speech, values

from cloche.backends.daemon.link import Link
from cloche.backends.daemon.places import Places
from cloche.daemon.connection import FIRST_FRAME
from cloche.errors import ClocheError

MIB = 1 << 20
METHODS = (
    "auth", "ping", "stats", "session.attach", "session.detach", "session.close", "session.list", "session.execute",
    "session.cancel", "session.extend", "session.initialize", "session.validate", "session.get_variable",
    "session.set_variable", "session.list_variables", "session.put_file", "session.get_file", "session.list_files",
    "session.snapshot", "session.restore", "session.reset", "session.fork", "session.savepoint", "session.undo",
    "lend.open", "lend.kill", "lend.end_children", "lend.close", "lend.release", "lend.detach", "lend.attach",
    "lend.branch", "lend.savepoint", "lend.requested", "lend.conclude", "lend.check", "shutdown", "",
)  # fmt: skip
MOST_GROWN = 400 * MIB
"""What a client that sends frames of 16 MiB can make the daemon hold for a moment; it may hold 512 MiB of all."""


def request(choose: random.Random, session: str) -> bytes:
    """A request that the daemon knows, with parameters that it may not like."""
    names = ("session", "key", "lease", "code", "name", "path", "policy", "timeout_ms", "text", "pid", "value")
    params: Any = {name: values(choose) for name in names if choose.random() < 0.3}
    if choose.random() < 0.3:
        params["session"] = session
    if choose.random() < 0.1:
        params = values(choose)
    message = {"jsonrpc": "2.0", "id": choose.randrange(10**6), "method": choose.choice(METHODS), "params": params}
    body = b""
    if choose.random() < 0.1:
        body = b"x" * choose.choice((0, 1, 5000))
        message["attachment"] = len(body)
    return json.dumps(message).encode("ascii", "replace") + b"\n" + body


def memory_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


class HostileClients(RuleBasedStateMachine):
    """Clients that come, lie and go, and one that is honest."""

    places: ClassVar[Places]
    neighbour: ClassVar[ForeignClient]
    session: ClassVar[str]
    pid: ClassVar[int]
    base: ClassVar[int]
    spoken: ClassVar[int] = 0
    count: ClassVar[int] = 100

    def __init__(self) -> None:
        super().__init__()
        self.client: socket.socket | None = None

    def teardown(self) -> None:
        self.vanish()

    def is_there(self) -> bool:
        return self.client is not None

    @precondition(lambda self: not self.is_there())
    @rule(known=st.booleans())
    def come(self, known: bool) -> None:
        self.client = client = socket.socket(socket.AF_UNIX)
        client.settimeout(10.0)
        client.connect(str(self.places.socket))
        if known:
            client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"auth","params":{"token":"%s"}}\n' % self.token())

    def token(self) -> bytes:
        return (self.places.read_token() or "").encode()

    @precondition(is_there)
    @rule(seed=st.integers(0, 2**32), read=st.booleans())
    def ask(self, seed: int, read: bool) -> None:
        choose = random.Random(seed)
        self.say([request(choose, self.session) for _ in range(self.count)], read=read)

    @precondition(is_there)
    @rule(seed=st.integers(0, 2**32))
    def speak(self, seed: int) -> None:
        self.say(list(speech(seed, self.count // 5, FIRST_FRAME, SHAPES)), read=True)

    @precondition(is_there)
    @rule(seed=st.integers(0, 2**32))
    def speak_at_length(self, seed: int) -> None:
        self.say([frame(random.Random(seed), 16 * MIB, ("sized", "nested"))], read=True)

    def say(self, frames: list[bytes], *, read: bool) -> None:
        """In a thread, since a client that is not read waits; what it is answered is read, or is not."""
        client = self.client
        assert client is not None
        type(self).spoken += len(frames)

        def send() -> None:
            with suppress(OSError):
                client.sendall(b"".join(frames))

        sender = threading.Thread(target=send)
        sender.start()
        with suppress(OSError):
            client.settimeout(0.05)
            while read and client.recv(MIB):
                pass
        sender.join(0.2)
        if sender.is_alive():
            self.vanish()  # which ends its waiting too
            sender.join()

    @precondition(is_there)
    @rule()
    def vanish(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            client.close()

    @invariant()
    def the_neighbour_keeps_its_variable(self) -> None:
        answer = self.neighbour.call("session.execute", session=self.session, code="x")
        assert answer["value"] == "41"

    @invariant()
    def the_daemon_holds_no_more_than_it_may(self) -> None:
        assert memory_of(self.pid) - self.base < MOST_GROWN


def attack(places: Places, steps: int, examples: int, count: int) -> int:
    with enter(places) as neighbour:
        session = neighbour.call("session.open")["session"]
        neighbour.call("session.execute", session=session, code="x = 41")
        pid = neighbour.call("ping")["pid"]
        given = {
            "places": places, "neighbour": neighbour, "session": session, "pid": pid, "base": memory_of(pid),
            "count": count, "spoken": 0,
        }  # fmt: skip
        machine = type("HostileClientsOfOne", (HostileClients,), given)
        # A real daemon is not the same twice: examples are neither repeated nor made smaller.
        how = settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        run_state_machine_as_test(machine, settings=how)
        assert neighbour.call("ping")["pid"] == pid
        return int(machine.spoken)  # type: ignore[attr-defined]  # of the class above


def test_no_client_harms_the_daemon_or_its_neighbour(places: Places) -> None:
    from cloche.daemon import lifecycle

    lifecycle.start(places, [])
    assert attack(places, steps=8, examples=3, count=100) > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_thousands_of_frames_of_clients(places: Places) -> None:
    from cloche.daemon import lifecycle

    lifecycle.start(places, [])
    spoken = 0
    while spoken < 20_000:
        spoken += attack(places, steps=25, examples=5, count=300)


LIES = ("reply", "error", "attached", "raw", "both", "wrong", "reply", "error")


# -- a daemon that lies ----------------------------------------------------------------------------


@contextmanager
def lying_daemon(places: Places, seed: int, *, greets: bool) -> Iterator[list[int]]:
    """Answers what it is asked with anything. Gives the sizes of its answers."""
    said: list[int] = []
    places.socket.parent.mkdir(parents=True, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(places.socket))
    listener.listen(8)

    def serve() -> None:
        with suppress(OSError):
            choose = random.Random(seed)
            while True:
                client, _ = listener.accept()
                with client, suppress(OSError):
                    client.settimeout(5)
                    if greets:
                        client.recv(1 << 16)
                        client.sendall(b'{"jsonrpc":"2.0","id":1,"result":{"authenticated":true}}\n')
                    client.recv(1 << 16)
                    said.append(client.send(frame(choose, 1 << 16, LIES)))

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    try:
        yield said
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        server.join(10)
        places.socket.unlink()


@pytest.mark.parametrize("greets", [True, False])
def test_a_daemon_that_lies_gives_its_client_an_error_in_time(tmp_path: Path, greets: bool) -> None:
    places = Places(tmp_path / "daemon.sock")
    places.token.write_text("0" * 64)
    places.token.chmod(0o600)
    with lying_daemon(places, 7, greets=greets) as said:
        for _ in range(150):
            began = time.monotonic()
            try:
                with closing(Link(places, 0.1)) as link:
                    answer, descriptors, _ = link.call("ping", timeout=0.05)
                    assert isinstance(answer, dict)
                    assert descriptors == []
            except ClocheError:
                pass
            assert time.monotonic() - began < 20
        assert len(said) >= 150
