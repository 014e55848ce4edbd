"""The daemon's wire, as a client in any language sees it."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.daemon.foreign_client import ForeignClient, Refused, enter

from cloche.backends.daemon.places import Places
from cloche.conformance.waiting import wait_until
from cloche.daemon.connection import Connection
from cloche.daemon.doors import SocketDoor
from cloche.daemon.server import Daemon


def ended(client: ForeignClient) -> bool:
    try:
        client.read()
    except (EOFError, OSError):
        return True
    return False


# -- who may be there -----------------------------------------------------------------------------


def test_nothing_is_answered_before_the_token_is_shown(house: Places) -> None:
    with ForeignClient(house.socket) as client:
        with pytest.raises(Refused, match="auth") as caught:
            client.call("ping")
        assert caught.value.code == -32001
        assert ended(client)


@pytest.mark.parametrize("token", ["", "0" * 64, "wrong"])
def test_a_wrong_token_ends_the_connection(house: Places, token: str) -> None:
    with ForeignClient(house.socket) as client:
        with pytest.raises(Refused, match="token is wrong"):
            client.call("auth", token=token)
        assert ended(client)


def test_only_the_owner_can_reach_the_files(house: Places) -> None:
    assert house.folder.stat().st_mode & 0o077 == 0
    assert {path.stat().st_mode & 0o077 for path in (house.socket, house.token, house.pid, house.log)} == {0}


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="http"),
        pytest.param(b"\xff\xfe\x00 garbage \n", id="bytes"),
        pytest.param(b"[" * 3000 + b"\n", id="nesting"),
        pytest.param(b"x" * 100_000, id="no line at all"),
        pytest.param(b'{"jsonrpc": "2.0", "id": 1, "method": "auth", "params": [1]}\n', id="params of another kind"),
        pytest.param(b'{"jsonrpc": "2.0", "attachment": 1099511627776}\n', id="a terabyte announced"),
    ],
)
def test_a_stranger_that_sends_noise_is_shown_out(house: Places, noise: bytes) -> None:
    with ForeignClient(house.socket) as client:
        client.socket.sendall(noise)
        try:
            while client.read():
                pass
        except (EOFError, OSError, ValueError):
            pass
    with enter(house) as other:
        assert other.call("ping")["pid"] > 0


def test_a_client_that_breaks_the_protocol_loses_its_connection_alone(house: Places) -> None:
    with enter(house) as good, enter(house) as bad:
        session = good.call("session.open")["session"]
        bad.socket.sendall(b'{"jsonrpc": "2.0", "method": "x", "attachment": 99999999999999}\n')
        assert bad.read()["error"]["code"] == -32600
        assert ended(bad)
        assert good.call("session.execute", session=session, code="6 * 7")["value"] == "42"


def test_half_a_frame_waits_for_the_other_half(house: Places) -> None:
    with enter(house) as client:
        client.socket.sendall(b'{"jsonrpc": "2.0", "id": 7, "meth')
        client.socket.sendall(b'od": "ping"}\n')
        assert client.wait(7)["pid"] > 0


def test_an_unknown_method_and_wrong_parameters_are_named(house: Places) -> None:
    with enter(house) as client:
        with pytest.raises(Refused) as caught:
            client.call("session.explode")
        assert caught.value.code == -32601
        with pytest.raises(Refused, match="code must be text"):
            client.call("session.execute", session=client.call("session.open")["session"], code=5)
        with pytest.raises(Refused, match="timeout_ms") as caught:
            client.call("session.open", policy={"timeout_ms": -1})
        assert caught.value.type == "bad_policy"


# -- sessions -------------------------------------------------------------------------------------


def test_a_session_keeps_its_variables_and_takes_a_context(house: Places) -> None:
    with enter(house) as client:
        session = client.call("session.open", "ein Wörterbuch\r\n".encode())["session"]
        client.call("session.execute", session=session, code="x = len(context)")
        assert client.call("session.get_variable", session=session, name="x") == {"found": True, "value": 16}
        assert client.call("session.get_variable", session=session, name="y") == {"found": False}
        client.call("session.set_variable", session=session, name="y", value={"a": [1, 2]})
        assert client.call("session.execute", session=session, code="y['a'][1]")["value"] == "2"
        assert client.call("session.list_variables", session=session)["variables"] == {"x": "int", "y": "dict"}


def test_files_and_snapshots_travel_as_raw_bytes(house: Places) -> None:
    with enter(house) as client:
        session = client.call("session.open")["session"]
        client.call("session.put_file", b"\x00\xff", session=session, path="data.bin")
        client.call("session.execute", session=session, code="x = open('data.bin', 'rb').read()")
        client.call("session.get_file", session=session, path="data.bin")
        assert client.attachment == b"\x00\xff"
        assert client.call("session.list_files", session=session)["files"] == [{"path": "data.bin", "size": 2}]
        assert client.call("session.snapshot", session=session)["variables"] == ["x"]
        saved = client.attachment
        other = client.call("session.open")["session"]
        assert client.call("session.restore", saved, session=other)["failed"] == []
        assert client.call("session.execute", session=other, code="x")["value"] == "b'\\x00\\xff'"


def test_bridges_go_through_the_daemon_to_the_client_and_back(house: Places) -> None:
    with enter(house) as client:
        client.answer = lambda call: {"asked": call["args"]}
        opened = client.call(
            "session.open", bridges=["llm_query"], tools=[{"name": "lookup", "doc": "looks things up"}]
        )
        session = opened["session"]
        assert (
            client.call("session.execute", session=session, code="lookup('bed', 3)")["value"] == "{'asked': ['bed', 3]}"
        )
        assert client.call("session.execute", session=session, code="llm_query('hi')")["success"]
        assert [call["params"]["name"] for call in client.bridges] == ["lookup", "llm_query"]
        assert {call["params"]["session"] for call in client.bridges} == {session}


def test_bridge_calls_of_one_cell_are_under_way_at_once(house: Places) -> None:
    with enter(house) as client:
        session = client.call("session.open", bridges=["llm_query"])["session"]
        number = client.ask("session.execute", session=session, code="llm_query_batched(['a', 'b', 'c'])")
        calls = [client.read() for _ in range(3)]  # all are asked before any is answered
        for call in reversed(calls):
            client.send({"id": call["id"], "result": call["params"]["args"][0].upper()})
        assert client.wait(number)["value"] == "['A', 'B', 'C']"


def test_a_cell_that_is_cancelled_takes_its_bridge_call_back(house: Places) -> None:
    with enter(house) as client:
        session = client.call("session.open", bridges=["llm_query"])["session"]
        number = client.ask("session.execute", session=session, code="llm_query('never answered')")
        asked = client.read()
        client.call("session.cancel", session=session)
        assert client.wait(number)["outcome"] == "cancelled"
        assert client.cancelled == [asked["id"]]


def test_output_comes_while_the_cell_runs(house: Places) -> None:
    with enter(house) as client:
        client.answer = lambda call: "".join(text for _, text in client.output)
        session = client.call("session.open", bridges=["llm_query"])["session"]
        code = "print('early', flush=True)\nimport time\nwhile 'early' not in llm_query('seen?'): time.sleep(0.01)"
        assert client.call("session.execute", session=session, code=code, live=True)["success"]
        assert client.output[0] == ("stdout", "early\n")


def test_one_request_can_have_a_sandbox_of_its_own(house: Places) -> None:
    with enter(house) as client:
        assert client.call("run", code="x = 1; x + 1")["value"] == "2"
        assert client.call("run", code="'x' in globals()")["value"] == "False"


def test_sessions_are_branched_and_each_is_a_session(house: Places) -> None:
    with enter(house) as client:
        client.answer = lambda call: call["session"]
        session = client.call("session.open", bridges=["llm_query"])["session"]
        client.call("session.execute", session=session, code="x = [1]")
        branches = [branch["session"] for branch in client.call("session.fork", session=session, n=2)["sessions"]]
        client.call("session.execute", session=branches[0], code="x.append(2)")
        shown = [client.call("session.execute", session=one, code="(x, llm_query('who'))")["value"] for one in branches]
        assert shown == [f"([1, 2], '{branches[0]}')", f"([1], '{branches[1]}')"]


def test_errors_carry_their_type(house: Places) -> None:
    with enter(house) as client:
        session = client.call("session.open")["session"]
        with pytest.raises(Refused) as caught:
            client.call("session.get_file", session=session, path="../escape")
        assert caught.value.type == "workspace_file"
        with pytest.raises(Refused) as caught:
            client.call("session.undo", session=session)
        assert caught.value.type == "branch"


# -- clients against each other -------------------------------------------------------------------


def test_a_client_does_not_find_another_ones_session(house: Places) -> None:
    with enter(house) as one, enter(house) as other:
        opened = one.call("session.open")
        for method in ("session.execute", "session.attach", "session.close", "session.get_variable", "session.cancel"):
            with pytest.raises(Refused) as caught:
                other.call(method, session=opened["session"], key="guess", code="1", name="x")
            assert caught.value.type == "unknown_session"
        assert other.call("session.list")["sessions"] == []


def test_clients_do_not_meet_in_their_sessions(house: Places) -> None:
    with enter(house) as one, enter(house) as other:
        first, second = one.call("session.open")["session"], other.call("session.open")["session"]
        one.call("session.execute", session=first, code="secret = 'mine'; open('/app/f', 'w').write('mine')")
        look = "('secret' in globals(), __import__('os').listdir('/app'))"
        assert other.call("session.execute", session=second, code=look)["value"] == "(False, [])"


def test_a_session_can_be_detached_and_taken_up_by_whoever_has_the_key(house: Places) -> None:
    with enter(house) as one:
        opened = one.call("session.open", bridges=["llm_query"])
        one.call("session.execute", session=opened["session"], code="x = 41")
        with enter(house) as thief, pytest.raises(Refused, match="another client has"):
            thief.call("session.attach", session=opened["session"], key=opened["key"])
        one.call("session.detach", session=opened["session"])
    with enter(house) as other:
        other.answer = lambda call: "from the second client"
        other.call("session.attach", session=opened["session"], key=opened["key"])
        shown = other.call("session.execute", session=opened["session"], code="(x + 1, llm_query('?'))")
        assert shown["value"] == "(42, 'from the second client')"


def test_a_client_that_goes_away_frees_its_sessions(house: Places) -> None:
    with enter(house) as watcher:
        with enter(house) as client:
            session = client.call("session.open")["session"]
            assert client.call("session.execute", session=session, code="1")["success"]
            before = watcher.call("stats")["pool"]["sessions"]
        wait_until(lambda: watcher.call("stats")["pool"]["sessions"] < before)


def test_a_client_that_does_not_read_stalls_nobody_else(house: Places) -> None:
    with enter(house) as slow, enter(house) as quick:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        session = slow.call("session.open")["session"]
        flood = "for i in range(20_000): print('x' * 200)"
        slow.ask("session.execute", session=session, code=flood, live=True)
        other = quick.call("session.open")["session"]
        for _ in range(5):
            assert quick.call("session.execute", session=other, code="6 * 7")["value"] == "42"


def test_a_client_that_fills_the_daemon_is_shown_out_and_not_its_neighbour(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("cloche.daemon.connection.MOST_HELD", 1 << 20)

    async def meet(folder: Path) -> tuple[bytes, bytes]:
        daemon = Daemon(Places(folder / "daemon.sock"))
        door = await SocketDoor.make(folder / "daemon.sock")
        ends = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        async with anyio.create_task_group() as group:
            for end in ends:
                end.connect(str(folder / "daemon.sock"))
                end.setblocking(False)
                group.start_soon(Connection(daemon, await door.accept()).serve)
                end.send(b'{"jsonrpc":"2.0","id":1,"method":"auth","params":{"token":"%s"}}\n' % daemon.token.encode())
                await anyio.wait_readable(end)
                end.recv(1 << 16)
            hog, neighbour = ends
            hog.send(b'{"jsonrpc":"2.0","id":2,"method":"ping","attachment":2000000}\n')
            while daemon.held < 900_000:
                await anyio.wait_writable(hog)
                hog.send(b"x" * 50_000)
                await anyio.lowlevel.checkpoint()
            neighbour.send(b'{"jsonrpc":"2.0","id":2,"method":"ping","attachment":200000}\n')
            said = []
            for left in range(200_000, 0, -50_000):
                await anyio.wait_writable(neighbour)
                neighbour.send(b"x" * min(left, 50_000))
            for end in ends:
                await anyio.wait_readable(end)
                said.append(end.recv(1 << 16))
                end.close()
        await door.aclose()
        return said[0], said[1]

    told, answered = anyio.run(meet, tmp_path)
    assert b"the daemon holds as much as it can" in told
    assert b'"result"' in answered


def test_several_threads_of_one_process_share_a_connection(house: Places) -> None:
    import cloche

    shown: list[str | None] = []

    def work(number: int) -> None:
        with cloche.create_sandbox(backend="daemon") as sandbox:
            shown.append(sandbox.execute(f"{number} * 2").value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(value or -1) for value in shown) == [0, 2, 4, 6, 8, 10, 12, 14]
    assert os.path.exists(house.socket)
