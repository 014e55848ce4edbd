"""Clients of a daemon, well-behaved and not."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.daemon.foreign_client import enter
from tests.soak.pool_load import DIES

import cloche
from cloche.backends.daemon.places import Places

AT_ONCE = 4
CLIENT_THAT_IS_KILLED = (
    "import os, signal, cloche\n"
    "s = cloche.create_sandbox(backend='daemon'); s.execute('1'); b = s.fork()\n"
    "os.kill(os.getpid(), signal.SIGKILL)"
)
RARELY = 100

Use = Callable[[Places], int]


def lent(places: Places) -> int:
    with cloche.create_sandbox(backend="daemon", on_llm_query=str.upper) as sandbox:
        assert sandbox.execute("llm_query('a')").value == "'A'"
    return 1


def lent_and_branched(places: Places) -> int:
    with cloche.create_sandbox(backend="daemon") as sandbox:
        sandbox.execute("x = 1")
        with sandbox.fork() as branch:
            assert branch.execute("x").value == "1"
        sandbox.savepoint()
        sandbox.undo()
    return 2


def lent_and_killed(places: Places) -> int:
    with cloche.create_sandbox(backend="daemon") as sandbox:
        assert sandbox.execute(DIES).session_state == "reset"
        assert sandbox.execute("6 * 7").value == "42"
    return 2


def left_and_taken_up(places: Places) -> int:
    sandbox = cloche.create_sandbox(backend="daemon")
    assert isinstance(sandbox, cloche.DaemonClientSandbox)
    sandbox.execute("x = 42")
    left = sandbox.detach()
    with cloche.DaemonClientSandbox.attach(left.id, left.key) as taken:
        assert taken.execute("x").value == "42"
    return 1


def over_the_wire(places: Places) -> int:
    with enter(places) as client:
        session = client.call("session.open")["session"]
        assert client.call("session.execute", session=session, code="6 * 7")["value"] == "42"
        client.call("session.close", session=session)
        assert client.call("run", code="6 * 7")["value"] == "42"
    return 2


def gone_without_a_word(places: Places) -> int:
    """The client leaves its sessions as they are: one idle, one branched, one in a cell, one being opened."""
    with enter(places) as client:
        session = client.call("session.open")["session"]
        client.call("session.fork", session=session, n=1)
        client.ask("session.execute", session=session, code="import time; time.sleep(100)")
        client.ask("session.open")
        client.ask("lend.open")
    return 4


def garbage(places: Places) -> int:
    with enter(places) as client:
        client.call("session.open")
        with suppress(OSError):
            client.socket.sendall(b"\x00 garbage\n" * 100)
    return 1


def killed_client(places: Places) -> int:
    subprocess.run([sys.executable, "-c", CLIENT_THAT_IS_KILLED], check=False)
    return 2


USES: tuple[Use, ...] = (
    lent, over_the_wire, lent_and_branched, lent, gone_without_a_word, lent_and_killed, left_and_taken_up, garbage,
)  # fmt: skip


def drive(places: Places, sessions: int, on_use: Callable[[int], None]) -> None:
    """About so many sessions, of several clients at once. Raises what any of them raised."""
    lock, uses, used, turns = threading.Lock(), itertools.cycle(USES), 0, itertools.count(1)
    troubles: list[BaseException] = []

    def work() -> None:
        nonlocal used
        while not troubles:
            with lock:
                if used >= sessions:
                    return
                use = killed_client if next(turns) % RARELY == 0 else next(uses)
            try:
                made = use(places)
            except BaseException as exc:  # noqa: BLE001 - raised again below, by whoever started us
                troubles.append(exc)
                return
            with lock:
                used += made
                on_use(made)

    threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if troubles:
        raise troubles[0]
