"""Seed 004, Sandbox Lifecycle and Disabling REPL; health, and what happens to servers that are lost."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.executor.kinds import FEW, KINDS, executing, options_of

from cloche import REPLExecutor, REPLSettings, RequestError, SessionClosedError, StartError, UnsupportedError
from cloche.executor.servers import WallServer
from cloche.pool import Pool, PoolLimits

COLD = REPLSettings(preload=FEW, enabled=False)


@pytest.mark.parametrize("kind", [*KINDS, "native"])
def test_with_repl_off_requests_are_served_one_by_one_and_state_still_works(kind: str, tmp_path: Path) -> None:
    with executing(COLD, **options_of(kind, tmp_path)) as execute:
        health = execute.health()
        assert (health.enabled, health.ready, health.starting, health.status) == (False, 0, 0, "ok")
        state = execute("x = 1\ndef f(): return x", capture_state=True).state
        assert execute.run("x = 2\nmath.floor(f())", state=state) == "2\n"
        assert execute.health().ready == 0


def test_with_repl_off_health_tells_of_servers_that_do_not_start_and_of_one_that_does(tmp_path: Path) -> None:
    script = tmp_path / "server"
    with executing(COLD, command=[str(script)]) as execute:
        with pytest.raises(StartError):
            execute("1")
        health = execute.health()
        assert (health.status, health.failed) == ("degraded", 1)
        assert "cannot be started" in (health.last_error or "")
        script.write_text(f"#!/bin/sh\nexec {sys.executable} -m cloche_guest.repl_server\n")
        script.chmod(0o700)
        assert execute("1").exit_code == 0
        assert execute.health().status == "ok"


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_ended_while_it_waited_is_replaced_and_no_request_fails(kind: str, tmp_path: Path) -> None:
    with executing(servers=1, **options_of(kind, tmp_path)) as execute:
        execute.until(lambda health: health.ready == 1)
        server = execute.executor._ready[0]
        if isinstance(server, WallServer):
            assert server._session is not None
            assert server._session.sandbox is not None
            pid = server._session.sandbox.guest_pid
        else:
            pid = server._process.pid  # type: ignore[attr-defined]  # of a command
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert execute.run("1") == "1\n"
        health = execute.until(lambda health: health.ready == 1)
        assert (health.status, health.failed) == ("ok", 1)
        assert health.last_error is not None


def test_servers_are_gone_when_the_executor_is_closed(tmp_path: Path) -> None:
    with executing(**options_of("command", tmp_path)) as execute:
        execute.until(lambda health: health.ready == 2)
        pids = [server._process.pid for server in execute.executor._ready]  # type: ignore[attr-defined]  # of commands
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_closed_executor_says_so() -> None:
    executor = REPLExecutor(COLD, backend="native")

    async def work() -> None:
        with pytest.raises(SessionClosedError, match="the executor is not open"):
            await executor.execute("1")
        async with executor:
            assert (await executor.execute("1")).stdout == "1\n"
        with pytest.raises(SessionClosedError):
            await executor.execute("1")

    anyio.run(work)


def test_requests_that_are_under_way_when_the_executor_is_closed_are_ended(tmp_path: Path) -> None:
    told: list[str] = []

    async def ask(executor: REPLExecutor, code: str) -> None:
        try:
            told.append(str((await executor.execute(code)).exit_code))
        except SessionClosedError as exc:
            told.append(type(exc).__name__)

    async def work() -> None:
        busy = options_of("command", tmp_path)
        async with anyio.create_task_group() as group:
            async with REPLExecutor(REPLSettings(preload=FEW), servers=1, command=["sleep", "100"]) as waiting:
                group.start_soon(ask, waiting, "1")
                await anyio.wait_all_tasks_blocked()
            async with REPLExecutor(REPLSettings(preload=FEW), servers=1, **busy) as running:
                await running.wait_until_ready()
                group.start_soon(ask, running, "open('started', 'w').close()\nimport time\ntime.sleep(100)")
                while not (tmp_path / "started").exists():  # noqa: ASYNC110 - made by another process
                    await anyio.sleep(0.01)

    anyio.run(work)
    assert told == ["SessionClosedError", "137"]


def test_a_pool_that_was_given_is_left_as_it_was_found(tmp_path: Path) -> None:
    async def work() -> None:
        async with Pool() as pool:
            async with REPLExecutor(
                REPLSettings(preload=FEW), servers=2, pool=pool, owner="me", backend="jail"
            ) as executor:
                await executor.wait_until_ready()
                assert [session.owner for session in pool.sessions()] == ["me", "me"]
                assert (await executor.execute("1")).stdout == "1\n"
            assert pool.sessions() == []
            assert pool.stats()["cells"] == 1

    anyio.run(work)


def test_whoever_waits_for_a_place_of_the_pool_takes_the_server_that_got_it(tmp_path: Path) -> None:
    """The one that is kept ready may have the only place, and nobody else be there to use it."""
    fence = tmp_path / "fence"

    async def main() -> None:
        limits = PoolLimits(sessions=1, wait_ms=600_000, set_aside_ms=None)
        settings = REPLSettings(preload=("json",), warmup_timeout_seconds=600)
        said: list[str] = []

        async def ask(code: str, scope: anyio.CancelScope) -> None:
            with scope:
                said.append((await executor.execute(code)).stdout)

        async def until(busy: int) -> None:
            while executor.health().busy < busy or executor.health().starting < 1:
                await anyio.lowlevel.checkpoint()

        async with Pool(limits) as pool, REPLExecutor(settings, servers=1, pool=pool, backend="native") as executor:
            await executor.wait_until_ready()
            with anyio.fail_after(50):
                async with anyio.create_task_group() as group:
                    group.start_soon(
                        ask, f"import os\nwhile not os.path.exists({str(fence)!r}): pass", anyio.CancelScope()
                    )
                    await until(busy=1)
                    given_up = anyio.CancelScope()
                    group.start_soon(ask, "print('given up')", given_up)  # waits for the one that is starting
                    await until(busy=2)
                    group.start_soon(ask, "print('patient')", anyio.CancelScope())  # asks the pool itself
                    await until(busy=3)
                    given_up.cancel()
                    fence.touch()
        assert sorted(said) == ["", "patient\n"]

    anyio.run(main)


def test_it_runs_on_trio(tmp_path: Path) -> None:
    async def work() -> None:
        settings = REPLSettings(preload=FEW)
        for kind in ("jail", "command"):
            async with REPLExecutor(settings, servers=1, **options_of(kind, tmp_path)) as executor:
                await executor.wait_until_ready()
                state = (await executor.execute("x = 1", capture_state=True)).state
                assert (await executor.execute("x", state=state)).stdout == "1\n"

    anyio.run(work, backend="trio")


def test_cancelling_whoever_waits_destroys_the_server_and_leaves_the_rest(tmp_path: Path) -> None:
    async def work() -> None:
        for kind in KINDS:
            async with REPLExecutor(REPLSettings(preload=FEW), servers=1, **options_of(kind, tmp_path)) as executor:
                await executor.wait_until_ready()
                with anyio.move_on_after(0.2) as scope:
                    await executor.execute("while True: pass")
                assert scope.cancelled_caught
                assert executor.health().busy == 0
                assert (await executor.execute("1")).stdout == "1\n"

    anyio.run(work)


def test_files_go_in_and_come_out_where_the_server_is_a_sandbox(tmp_path: Path) -> None:
    with executing(servers=1, backend="jail") as execute:
        code = "data = open('in.bin', 'rb').read()\nopen('out.bin', 'wb').write(data * 2);"
        response = execute(code, files={"in.bin": b"\0\1"}, collect_files=True)
        assert response.files == ("out.bin",)
        assert dict(response.contents) == {"out.bin": b"\0\1\0\1"}
    with executing(servers=1, **options_of("command", tmp_path)) as execute, pytest.raises(UnsupportedError):
        execute("1", files={"in.bin": b""})


def test_a_state_above_the_limit_is_refused_on_its_way_in_and_named_on_its_way_out(tmp_path: Path) -> None:
    settings = REPLSettings(preload=FEW, state_max_size_mb=1)
    for kind in KINDS:
        with executing(settings, servers=1, **options_of(kind, tmp_path, STATE_MAX_SIZE_MB="1")) as execute:
            response = execute("import os\nx = 1\nbig = os.urandom(2_000_000)", capture_state=True)
            assert response.error is None
            assert list(response.state_errors) == ["big"]
            assert f"the state may hold {1 << 20}" in response.state_errors["big"]
            assert execute.run("x", state=response.state) == "1\n"
            with pytest.raises(RequestError, match="raise STATE_MAX_SIZE_MB"):
                execute("1", state="A" * (1 << 21))
