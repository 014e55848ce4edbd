"""The daemon itself: a socket, a pool, and a tidy end."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from cloche import __version__
from cloche.backends.daemon.places import Places
from cloche.daemon.cloakroom import Cloakroom
from cloche.daemon.connection import FAILED, Connection
from cloche.daemon.doors import Door, Stream, open_door
from cloche.daemon.mishaps import report
from cloche.daemon.sessions import Routes
from cloche.errors import AdmissionError, BackendUnavailableError, ClocheError, MachineError, SessionClosedError
from cloche.pool import Pool, PoolLimits
from cloche.session.processes import process_start

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from typing import IO

    from anyio.abc import TaskGroup

MOST_CONNECTIONS = 1024
DRAIN = 10.0
"""Seconds that cells have to end in when the daemon is asked to stop."""
IDLE_LOOK = 1.0


class Daemon:
    """Serves one user's processes until it is told to stop, or nobody has come for a while."""

    def __init__(
        self,
        places: Places,
        *,
        limits: PoolLimits | None = None,
        config: Mapping[str, Any] | None = None,
        idle_exit: float | None = None,
        passed: socket.socket | None = None,
    ) -> None:
        """`passed`: the socket that a service manager holds for us; it stays when we go."""
        self.places = places if passed is None else Places(Path(passed.getsockname()))
        self._passed = passed
        self.uid = os.getuid() if hasattr(os, "getuid") else None
        self.token = secrets.token_hex(32)
        self.pool = Pool(limits, config=config or {"backend": "jail"})
        self.routes = Routes(self.pool)
        self.cloakroom = Cloakroom(self.pool)
        self._idle_exit = idle_exit
        self._started = self._last_heard = time.monotonic()
        self._connections = 0
        self.requests = 0
        """Under way now."""
        self.held = 0
        """Bytes that are kept in memory for all clients together."""
        self.clients: set[Connection] = set()
        self._wall: dict[str, Any] = {}
        self._stopping = False
        self._lock: IO[str] | None = None

    # -- for its connections -------------------------------------------------------------------

    def touch(self) -> None:
        """Somebody is there."""
        self._last_heard = time.monotonic()

    def describe(self) -> dict[str, Any]:
        """What a client may want to know before it asks for more."""
        return {
            "pid": os.getpid(),
            "version": __version__,
            "uptime": round(time.monotonic() - self._started, 3),
            "connections": self._connections,
            "sessions": self.pool.stats()["live"],
            "places": self.pool.limits.sessions,
            "room": self.pool.has_room,
            "stopping": self._stopping,
            "detached": len(self.cloakroom),
            **self._wall,
        }

    def explain(self, exc: ClocheError) -> ClocheError:
        """An error of the pool, as one of the daemon's: what is full, by how much, and what to type."""
        if isinstance(exc, AdmissionError) and not self.pool.has_room:
            left = f", {len(self.cloakroom)} of them by detached sessions" if len(self.cloakroom) else ""
            return AdmissionError(
                "the daemon is full",
                cause=f"{self.pool.places_taken} of {self.pool.limits.sessions} places are taken{left}; {exc.message}",
                remedy="close sessions that are not needed; or more places: "
                f"cloche daemon stop && cloche daemon start --pool-size {2 * self.pool.limits.sessions}",
            )
        if isinstance(exc, SessionClosedError) and self._stopping:
            return BackendUnavailableError("the daemon is stopping", remedy="cloche daemon start, when it has ended")
        return exc

    # -- life ----------------------------------------------------------------------------------

    async def serve(self, on_ready: Callable[[], None]) -> None:
        """Until SIGTERM or SIGINT, or until nobody has come for `idle_exit` seconds."""
        self._take_lock()
        try:
            self._furnish()
            door = await open_door(self.places.address(), self._passed)
            async with self.pool, anyio.create_task_group() as group:
                await anyio.to_thread.run_sync(self._warm_up)
                group.start_soon(self._accept, door, group)
                group.start_soon(self.cloakroom.look_after)
                on_ready()
                await self._until_the_end()
                self._stopping = True
                await door.aclose()
                await self._drain()
                await self.cloakroom.close()
                group.cancel_scope.cancel()
        finally:
            self._leave_house()

    def _take_lock(self) -> None:
        """One daemon in one place. The lock goes with the process, however it ends."""
        self.places.prepare()
        if sys.platform == "win32":  # where the pipe itself is a lock
            return
        import fcntl

        self._lock = open(self.places.lock, "a")  # noqa: SIM115 - held as long as we live
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MachineError(
                "a daemon is running already", cause=str(self.places.socket), remedy="cloche daemon status"
            ) from None

    @property
    def _ours(self) -> tuple[Path, ...]:
        """Files that come and go with us."""
        beside = (self.places.token, self.places.pid)
        return beside if self._passed is not None else (self.places.socket, *beside)

    def _furnish(self) -> None:
        for left in self._ours:
            with suppress(FileNotFoundError):
                left.unlink()  # of one that was killed: nobody else can hold the lock
        _write_private(self.places.token, self.token + "\n")
        _write_private(self.places.pid, f"{os.getpid()} {process_start(os.getpid())}\n")

    def _leave_house(self) -> None:
        for ours in self._ours:
            with suppress(OSError):
                ours.unlink()
        if self._lock is not None:
            self._lock.close()

    def _warm_up(self) -> None:
        """Find out what wall there is, and start what sessions come from."""
        from cloche.factory import find_backend

        try:
            found = find_backend("jail").probe()
        except ClocheError as exc:
            self._wall = {"trouble": str(exc)}
            return
        if found.available and found.isolation is not None:
            layers = [layer.name for layer in found.layers if layer.active]
            self._wall = {"isolation": found.isolation.name, "layers": layers}
        else:
            self._wall = {"trouble": found.reason, "remedy": found.remedy}

    async def _accept(self, door: Door, group: TaskGroup) -> None:
        async def handle(stream: Stream) -> None:
            self._connections += 1
            self.touch()
            try:
                connection = Connection(self, stream)
                if self._connections > MOST_CONNECTIONS:
                    await connection.show_out(FAILED, f"the daemon has {MOST_CONNECTIONS} clients already")
                    await stream.aclose()
                else:
                    await connection.serve()
            except Exception as exc:  # noqa: BLE001 - a fault of ours ends one connection, and not the house
                report(exc)
            finally:
                self._connections -= 1
                self.touch()

        with suppress(anyio.ClosedResourceError):
            while True:
                group.start_soon(handle, await door.accept())

    async def _until_the_end(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with anyio.create_task_group() as group:

                async def watch_idleness() -> None:
                    while self._idle_exit is not None:
                        await anyio.sleep(min(IDLE_LOOK, self._idle_exit))
                        if not self._connections and time.monotonic() - self._last_heard > self._idle_exit:
                            group.cancel_scope.cancel()

                group.start_soon(watch_idleness)
                async for _ in signals:
                    group.cancel_scope.cancel()
                    return

    async def _drain(self) -> None:
        """What is under way may end; whoever comes now finds the door closed."""
        with anyio.move_on_after(DRAIN):
            while self.requests:  # noqa: ASYNC110 - for the last moments of a process
                await anyio.sleep(0.02)


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all: somebody may wait for it to appear."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with open(descriptor, "w") as handle:
            handle.write(text)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
