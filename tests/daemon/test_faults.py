"""What goes wrong around a daemon: it says so, and serves the others."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.foreign_client import ForeignClient, Refused, enter

import cloche
from cloche.backends.daemon.link import links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.conformance.waiting import wait_until
from cloche.daemon import lifecycle
from cloche.pool import BlockingPool, PoolLimits

CLIENTS = 500
DESCRIPTORS = 300
"""Enough for a daemon and a few sessions, and not for as many clients."""
GOES_ON_OR_SAYS_SO = {"41", None, "session_lost"}
"""None: it died in this very cell, and the result says so."""
PREPARED = "import sys; {first}; from cloche.daemon.__main__ import main; sys.exit(main())"
LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))"
SHORT = "import cloche.daemon.connection as c; c.INTRODUCTION, c.MOST_HELD = 0.3, 1 << 20"


@contextmanager
def prepared_daemon(folder: Path, first: str) -> Iterator[Places]:
    """A daemon whose process runs `first` before anything else."""
    places = Places(folder / "daemon.sock")
    ready, told = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", PREPARED.format(first=first), "--ready", str(told)],
        env={**os.environ, SOCKET_VARIABLE: str(places.socket)}, pass_fds=[told],
    ) as process:  # fmt: skip
        os.close(told)
        try:
            assert os.read(ready, 4096) == b"ready"
            yield places
            assert process.poll() is None
        finally:
            os.close(ready)
            process.terminate()


def ancestors(pid: int, top: int) -> list[int]:
    """Processes between one and a process far above it, nearest first."""
    found: list[int] = []
    while (pid := int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])) not in (top, 0):
        found.append(pid)
    return found


def says_how_it_ended(client: ForeignClient) -> Any:
    """The code of the last error before the end."""
    said = client.read()["error"]["code"]
    with pytest.raises((EOFError, ConnectionResetError)):
        client.read()
    return said


def open_many_sessions(client: ForeignClient) -> None:
    for _ in range(20):
        client.call("session.execute", session=client.call("session.open")["session"], code="1")


# -- many -----------------------------------------------------------------------------------------


def test_five_hundred_clients_at_once_are_served_whatever_the_soft_limit(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with prepared_daemon(tmp_path, LIMIT.format(soft=256, hard=hard)) as places:
        token = places.read_token()
        clients = [ForeignClient(places.socket) for _ in range(CLIENTS)]
        asked = [client.ask("auth", token=token) for client in clients]
        for client, number in zip(clients, asked, strict=True):
            client.wait(number)
        asked = [client.ask("ping") for client in clients]
        assert {client.wait(number)["connections"] for client, number in zip(clients, asked, strict=True)} == {CLIENTS}
        for client in clients:
            client.close()
        with enter(places) as one:
            wait_until(lambda: one.call("ping")["connections"] == 1)


def test_a_daemon_without_descriptors_lives_on_and_serves_when_there_are_some_again(tmp_path: Path) -> None:
    with prepared_daemon(tmp_path, LIMIT.format(soft=DESCRIPTORS, hard=DESCRIPTORS)) as places:
        with ExitStack() as stack:
            crowd = [stack.enter_context(ForeignClient(places.socket)) for _ in range(2 * DESCRIPTORS)]
            crowd[0].call("auth", token=places.read_token())
            wait_until(lambda: crowd[0].call("ping")["connections"] >= DESCRIPTORS - 60)
            with pytest.raises(Refused) as caught:
                open_many_sessions(crowd[0])  # some descriptors may still be left
            assert caught.value.type in {"machine", "start", "backend_unavailable"}
        with enter(places) as late:
            wait_until(lambda: late.call("ping")["connections"] == 1)
            assert late.call("run", code="6 * 7")["value"] == "42"


# -- bytes ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A daemon that waits for strangers for a moment only, and holds little."""
    with prepared_daemon(tmp_path_factory.mktemp("i"), SHORT) as places:
        yield places


@pytest.mark.parametrize("begun", [b"", b'{"jsonrpc": "2.0", "method": "au'], ids=["nothing", "half a frame"])
def test_a_stranger_that_does_not_introduce_itself_is_shown_out(impatient: Places, begun: bytes) -> None:
    with ForeignClient(impatient.socket) as client:
        client.socket.sendall(begun)
        assert says_how_it_ended(client) == -32001


def test_a_client_that_goes_away_in_the_middle_of_a_frame_takes_its_sessions_along(impatient: Places) -> None:
    with enter(impatient) as other:
        with enter(impatient) as client:
            client.call("session.open")
            assert other.call("stats")["pool"]["sessions"] == 1
            client.socket.sendall(b'{"jsonrpc": "2.0", "id": 9, "method": "session.put_file", "attachment": 100}\nabc')
        wait_until(lambda: other.call("stats")["pool"]["sessions"] == 0, "the session outlived its client")


def test_what_half_frames_of_all_clients_take_together_is_bounded(impatient: Places) -> None:
    half = b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "attachment": 1000000}\n' + b"x" * 600_000
    with enter(impatient) as one, enter(impatient) as other:
        one.socket.sendall(half)
        with suppress(BrokenPipeError, ConnectionResetError):
            other.socket.sendall(half)
        # whose bytes were read last is the one that is too much
        refused = other if select.select([one.socket, other.socket], [], [])[0] == [other.socket] else one
        assert says_how_it_ended(refused) == -32600
    with enter(impatient) as third:
        assert third.call("ping", b"x" * 600_000)["pid"] > 0  # what they took was given back


def test_a_gigabyte_that_is_announced_is_refused_at_once_and_others_go_on(house: Places) -> None:
    with enter(house) as good, enter(house) as bad:
        session = good.call("session.open")["session"]
        bad.socket.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "attachment": 1073741824}\n')
        assert says_how_it_ended(bad) == -32600
        assert good.call("session.execute", session=session, code="6 * 7")["value"] == "42"


def test_a_gigabyte_without_a_line_is_refused_when_it_is_too_much(house: Places) -> None:
    def peak() -> int:
        status = Path(f"/proc/{lifecycle.recorded_pid(house)}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])

    with enter(house) as good, enter(house) as bad:
        before, sent, piece = peak(), 0, b"x" * (1 << 20)
        with suppress(BrokenPipeError, ConnectionResetError):
            while sent < 1 << 30:
                bad.socket.sendall(piece)
                sent += len(piece)
        assert sent < 64 << 20
        assert peak() - before < 128 << 10
        assert says_how_it_ended(bad) == -32600
        assert good.call("ping")["pid"] > 0


def test_a_fault_in_one_request_fails_that_request_alone(tmp_path: Path) -> None:
    broken = (
        "from cloche.pool import Pool\n"
        "async def fail(self, *args, **options): raise RuntimeError('out of order')\n"
        "Pool.run = fail"
    )
    with prepared_daemon(tmp_path, f"exec({broken!r})") as places, enter(places) as client:
        with pytest.raises(Refused, match="daemon failed") as caught:
            client.call("run", code="1")
        assert (caught.value.code, caught.value.type) == (-32603, "machine")
        assert client.call("ping")["pid"] > 0


# -- somebody else --------------------------------------------------------------------------------


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
def test_another_user_gets_no_answer_even_with_the_token_and_a_socket_that_is_open_to_all() -> None:
    with tempfile.TemporaryDirectory() as folder, prepared_daemon(Path(folder), "pass") as places:
        token = places.read_token()
        Path(folder).chmod(0o711)
        places.socket.chmod(0o666)
        os.seteuid(65534)
        try:
            stranger = ForeignClient(places.socket)
        finally:
            os.seteuid(0)
        with stranger, pytest.raises((EOFError, ConnectionResetError, BrokenPipeError)):
            stranger.call("auth", token=token)


# -- processes ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def zygote_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A daemon whose jails are killed."""
    with prepared_daemon(tmp_path_factory.mktemp("z"), "pass") as places:
        yield places


@pytest.mark.parametrize("nearest", [0, 1, -1], ids=["above the guest", "above that", "the outermost"])
def test_when_the_jails_own_processes_are_killed_sessions_go_on_or_say_so(
    zygote_house: Places, monkeypatch: pytest.MonkeyPatch, nearest: int
) -> None:
    monkeypatch.setenv(SOCKET_VARIABLE, str(zygote_house.socket))
    daemon = lifecycle.recorded_pid(zygote_house)
    assert daemon is not None
    try:
        with enter(zygote_house) as foreign, cloche.create_sandbox(backend="daemon") as sandbox:
            session = foreign.call("session.open")["session"]
            foreign.call("session.execute", session=session, code="x = 41")
            sandbox.execute("x = 41").check()
            assert sandbox.guest_pid is not None
            os.kill(ancestors(sandbox.guest_pid, daemon)[nearest], signal.SIGKILL)
            assert outcome(lambda: sandbox.execute("x").value) in GOES_ON_OR_SAYS_SO
            asked = partial(foreign.call, "session.execute", session=session, code="x")
            assert outcome(lambda: asked()["value"]) in GOES_ON_OR_SAYS_SO
            with cloche.create_sandbox(backend="daemon") as fresh:
                assert in_the_end(lambda: fresh.execute("6 * 7").value) == "42"
            assert in_the_end(lambda: foreign.call("run", code="6 * 7")["value"]) == "42"
            assert in_the_end(lambda: sandbox.execute("6 * 7").value) == "42"
    finally:
        links.close()


def in_the_end(run: Callable[[], str | None]) -> str | None:
    """Whoever asks a jail that is dying is told so; the next one asks another."""
    end = time.monotonic() + 30
    while (found := outcome(run)) in ("start", "session_lost", None):
        assert time.monotonic() < end
    return found


def outcome(run: Callable[[], str | None]) -> str | None:
    try:
        return run()
    except cloche.ClocheError as exc:
        return exc.code
    except Refused as exc:
        return exc.type


# -- the disk -------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A megabyte, where everything lies that Cloche writes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system of its own cannot be mounted here (needs root)")
    for name in (SOCKET_VARIABLE, "TMPDIR", "CLOCHE_SESSIONS_DIR", "HOME"):
        monkeypatch.setenv(name, str(disk))
    monkeypatch.setenv(SOCKET_VARIABLE, str(disk / "rlm" / "daemon.sock"))
    try:
        yield disk
    finally:
        links.close()
        lifecycle.stop(Places.default(), force=True)
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> None:
    with suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)


def test_on_a_full_disk_a_daemon_does_not_start_and_says_why(small_disk: Path) -> None:
    places = Places.default()
    places.folder.mkdir(mode=0o700)
    fill(small_disk)
    with pytest.raises(cloche.MachineError, match="No space left"):
        lifecycle.start(places, [])
    (small_disk / "filler").unlink()
    assert lifecycle.start(places, []) > 0


def test_when_the_disk_fills_up_sessions_go_on_and_new_ones_open(small_disk: Path) -> None:
    places = Places.default()
    lifecycle.start(places, [])
    with cloche.create_sandbox(backend="daemon") as sandbox:
        sandbox.execute("x = 41").check()
        fill(small_disk)
        assert sandbox.execute("x + 1").value == "42"
        with cloche.create_sandbox(backend="daemon") as other:
            assert other.execute("open('file', 'w').write('x' * 100_000)").value == "100000"
        with enter(places) as foreign:
            assert foreign.call("run", code="open('file', 'w').write('x' * 100_000)")["value"] == "100000"
    assert lifecycle.stop(places) is not None
    assert not places.token.exists()


def test_a_session_for_which_the_disk_has_no_room_is_not_set_aside(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    limits = PoolLimits(sessions=1, set_aside_ms=0, wait_ms=100)
    with BlockingPool(limits, config={"backend": "jail"}) as pool, pool.open("one") as session:
        session.execute("x = 'y' * 2_000_000").check()
        with pytest.raises(cloche.AdmissionError):
            pool.open("other")
        assert session.execute("len(x)").value == "2000000"
        assert list(small_disk.glob("cloche-pool-*/*")) == []  # half of it is of no use
