"""`REPLExecutor`: one warm server for each request, destroyed after it, and another one begun in its place."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from cloche.errors import ClocheError, PolicyError, RequestError, SessionClosedError, StartError
from cloche.executor.process import ServerProcess
from cloche.executor.response import REPLRequest, REPLResponse
from cloche.executor.servers import NotAccepted, Server, WallServer
from cloche.executor.settings import REPLSettings
from cloche.policy import ExecutionPolicy
from cloche.pool import Pool, PoolLimits
from cloche_guest.preloads import sources

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from anyio.abc import TaskGroup

DEFAULT_TIMEOUT = 30.0
LOOK = 2.0
"""Seconds between two looks at whether servers that wait are still there."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
"""Seconds before another server is tried after one that did not start; each time twice as long."""
OLDEST = 86_400_000
WRITERS = ("cloudpickle", "lz4.frame")
"""With which states are written, where they are installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class REPLHealth:
    """How the servers are."""

    status: str
    """`ok`; `starting`, while none is ready yet; `degraded`, when the last one that was started failed."""
    enabled: bool
    ready: int
    starting: int
    busy: int
    failed: int
    """That did not start, or ended while they waited, since the executor was opened."""
    served: int
    last_error: str | None


class REPLExecutor:
    """Runs code in REPL servers that are warm when it comes. Use it as an async context manager.

    By default a server is a sandbox of a pool, behind the wall that `backend` and the other `options` name (as for
    `create_sandbox`). With `command` it is that command, which speaks the delimited protocol on stdin and stdout.
    """

    def __init__(
        self,
        settings: REPLSettings | None = None,
        *,
        servers: int = 2,
        command: Sequence[str] | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        pool: Pool | None = None,
        owner: str = "repl",
        **options: Any,
    ) -> None:
        """`servers` are kept ready. Without `settings`, those of the environment. `cwd` and `env` go to `command`."""
        if type(servers) is not int or servers < 1:
            raise PolicyError(f"servers must be a whole number of at least 1, not {servers!r:.40}", field="servers")
        if command is not None and (isinstance(command, str) or not command):
            raise PolicyError("command must be a list of a program and its arguments", field="command")
        if command is not None and (options or pool is not None):
            raise PolicyError("command takes no pool and no options of sandboxes", field="command")
        self.settings = settings or REPLSettings.from_environment()
        self._wanted = servers if self.settings.enabled else 0
        self._command, self._cwd, self._env = command, cwd, env
        self._pool, self._owner = pool, owner
        self._options = _with_preload(options, self.settings)
        self._ready: deque[Server] = deque()
        self._starting = self._busy = self._failed = self._served = 0
        self._queueing = 0  # requests that wait for one of those that are starting
        self._last_error: str | None = None
        self._failing = False
        self._pause = FIRST_PAUSE
        self._change = anyio.Event()
        self._stack = AsyncExitStack()
        self._group: TaskGroup | None = None
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else self.health().status if self._group is not None else "not open"
        return f"<REPLExecutor: {state}, {len(self._ready)} of {self._wanted} ready>"

    # -- its life ------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        if self._pool is None and self._command is None:
            # Requests wait for their turn as long as it takes: whoever asks sets the limit, by giving up.
            limits = PoolLimits(sessions=max(64, 2 * self._wanted), wait_ms=OLDEST, idle_ms=OLDEST, set_aside_ms=None)
            self._pool = await self._stack.enter_async_context(Pool(limits))
        self._stack.push_async_callback(self._drain)
        self._group = await self._stack.enter_async_context(anyio.create_task_group())
        if self._wanted:
            self._group.start_soon(self._keep_ready)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._changed()  # whoever waits for a server finds out
        if self._group is not None:
            self._group.cancel_scope.cancel()
        await self._stack.__aexit__(None, None, None)

    async def _drain(self) -> None:
        """When no task is left that could make another one, and the pool is still there."""
        while self._ready:
            await self._put_away(self._ready.popleft())

    # -- requests ------------------------------------------------------------------------------

    async def execute(
        self,
        code: str,
        *,
        state: str | None = None,
        capture_state: bool = False,
        timeout: float = DEFAULT_TIMEOUT,  # noqa: ASYNC109 - of the code, which is killed then; not of the waiting
        files: Mapping[str, bytes] | None = None,
        collect_files: bool = False,
    ) -> REPLResponse:
        """Run `code` in a server of its own, with the variables of `state`.

        `timeout` covers restoring, running and saving; past it the server is killed and `ExecutionTimeoutError`
        raised. A request that no server has begun with is given to one other server; one that may have run never is.
        `files` are put into the working folder first, and with `collect_files` those that it made are returned.
        """
        request = _checked(code, state, capture_state, timeout, files, collect_files)
        if state is not None and len(state) > self.settings.state_max_bytes:
            raise RequestError(
                f"the state has {len(state)} bytes; {self.settings.state_max_bytes} are allowed",
                remedy="raise STATE_MAX_SIZE_MB",
            )
        self._busy += 1
        try:
            try:
                return await self._serve_once(request, timeout)
            except NotAccepted as first:
                self._failed += 1
                self._note(f"a server did not accept a request: {first}")
            try:
                return await self._serve_once(request, timeout)
            except NotAccepted as second:
                self._failed += 1
                raise StartError("two servers in turn did not accept the request", cause=str(second)) from second
        finally:
            self._busy -= 1
            self._served += 1

    async def _serve_once(self, request: REPLRequest, seconds: float) -> REPLResponse:
        server = await self._take()
        try:
            await server.check()
            return await server.serve(request, seconds)
        finally:
            if self._closed or self._group is None:
                await self._put_away(server)
            else:
                self._group.start_soon(self._put_away, server)

    async def _put_away(self, server: Server) -> None:
        with anyio.CancelScope(shield=True):
            await server.destroy()

    async def _take(self) -> Server:
        """A server that is ready; where there is none, one that is begun now, unless another is ready sooner."""
        while True:
            self._group_now()
            server = self._take_ready()
            if server is not None:
                return server
            if self._failing or self._queueing >= self._starting:
                return await self._start_or_take()
            self._queueing += 1
            try:
                await self._change.wait()
            finally:
                self._queueing -= 1

    def _take_ready(self) -> Server | None:
        while self._ready and not self._closed:
            server = self._ready.popleft()
            self._changed()
            if server.ended is None:
                return server
            self._lose(server)
        return None

    def health(self) -> REPLHealth:
        """How the servers are, now."""
        ready = sum(server.ended is None for server in self._ready)
        status = "degraded" if self._failing else "ok" if ready or not self._wanted or self._served else "starting"
        return REPLHealth(
            status=status,
            enabled=self.settings.enabled,
            ready=ready,
            starting=self._starting,
            busy=self._busy,
            failed=self._failed,
            served=self._served,
            last_error=self._last_error,
        )

    async def wait_until_ready(self) -> None:
        """Until as many servers are ready as are to be; raises the error of one that does not start."""
        while len(self._ready) < self._wanted:
            self._group_now()
            if self._failing:
                raise StartError("a server did not start", cause=self._last_error)
            await self._change.wait()

    # -- servers -------------------------------------------------------------------------------

    async def _keep_ready(self) -> None:
        """Start as many servers as are missing, again and again."""
        while not self._closed:
            for server in [each for each in self._ready if each.ended is not None]:
                self._ready.remove(server)
                self._lose(server)
            if self._failing:
                await anyio.sleep(self._pause)
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
            for _ in range(self._wanted - len(self._ready) - self._starting):
                self._starting += 1
                self._group_now().start_soon(self._start_ready)
                if self._failing:
                    break  # one, to see whether it works again
            change = self._change
            with anyio.move_on_after(LOOK):
                await change.wait()

    async def _start_ready(self) -> None:
        """The caller has counted it."""
        try:
            server = await self._make()
        except ClocheError as exc:
            self._fail(str(exc))
        else:
            self._ready.append(server)
            self._recover()
        finally:
            self._starting -= 1
            self._changed()

    async def _start_or_take(self) -> Server:
        """A server for a request that waits for it.

        Both at once: while all places of the pool are taken, those that become ready may be the only ones there are.
        """
        found: list[Server] = []
        trouble: ClocheError | None = None

        async def start() -> None:
            nonlocal trouble
            try:
                found.append(await self._make())
                self._recover()
            except ClocheError as exc:
                self._fail(str(exc))
                trouble = exc
            both.cancel_scope.cancel()

        async def look() -> None:
            while not self._closed:
                server = self._take_ready()
                if server is not None:
                    found.append(server)
                    break
                await self._change.wait()
            both.cancel_scope.cancel()

        try:
            async with anyio.create_task_group() as both:
                both.start_soon(start)
                both.start_soon(look)
            self._group_now()
        except BaseException:
            for server in found:
                await self._put_away(server)
            raise
        if trouble is not None and not found:
            raise trouble
        self._ready.extend(found[1:])
        return found[0]

    async def _make(self) -> Server:
        group = self._group_now()
        server: Server
        if self._command is not None:
            server = ServerProcess(self._command, self.settings, cwd=self._cwd, env=self._env)
        else:
            assert self._pool is not None
            server = WallServer(self._pool, self._owner, self.settings, self._options, warm=self.settings.enabled)
        try:
            if isinstance(server, ServerProcess):
                await group.start(server.run)
                group.start_soon(self._watch, server)
            await server.start()
        except BaseException as exc:
            await self._put_away(server)
            if isinstance(exc, NotAccepted):
                raise StartError("the server was gone before it was ready", cause=str(exc)) from exc
            raise
        return server

    async def _watch(self, process: ServerProcess) -> None:
        await process.over()
        self._changed()  # should it have waited, it is replaced

    # -- what happens --------------------------------------------------------------------------

    def _group_now(self) -> TaskGroup:
        if self._group is None or self._closed:
            raise SessionClosedError("the executor is not open", remedy="use it as an async context manager")
        return self._group

    def _lose(self, server: Server) -> None:
        """One that waited has ended."""
        self._note(f"a server ended while it waited: {server.ended}")
        self._failed += 1
        self._group_now().start_soon(self._put_away, server)

    def _note(self, text: str) -> None:
        self._last_error = text[:2000]

    def _fail(self, text: str) -> None:
        self._note(text)
        self._failed += 1
        self._failing = True
        self._changed()

    def _recover(self) -> None:
        """One has started."""
        self._failing, self._pause = False, FIRST_PAUSE

    def _changed(self) -> None:
        change, self._change = self._change, anyio.Event()
        change.set()


def _with_preload(options: dict[str, Any], settings: REPLSettings) -> dict[str, Any]:
    """Options of the sandboxes: walls that fork their sessions have the modules imported before."""
    given = dict(options)
    if "preload" not in given and "policy" not in given:
        modules = [*sources(list(settings.preload)), *WRITERS]
        # What another interpreter has is not known here; of what it lacks, the wall says a word.
        given["preload"] = tuple(name for name in modules if given.get("python") is not None or _is_here(name))
    if "snapshot_max_bytes" not in given and "policy" not in given:
        given["snapshot_max_bytes"] = max(ExecutionPolicy().snapshot_max_bytes, settings.state_max_bytes)
    return given


def _is_here(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module.partition(".")[0]) is not None


def _checked(
    code: str,
    state: str | None,
    capture_state: bool,
    seconds: float,
    files: Mapping[str, bytes] | None,
    collect_files: bool,
) -> REPLRequest:
    if type(code) is not str:
        raise RequestError(f"code must be a str, not {type(code).__name__}")
    if state is not None and type(state) is not str:
        raise RequestError(f"state must be a str or None, not {type(state).__name__}")
    if files is not None and not isinstance(files, Mapping):
        raise RequestError(f"files must map paths to bytes, not {type(files).__name__}")
    if type(seconds) not in (int, float) or not 0 < seconds < 1e6:
        raise PolicyError(f"timeout must be a number of seconds above 0, not {seconds!r:.40}", field="timeout")
    return REPLRequest(
        code=code,
        state=state or None,
        capture_state=bool(capture_state),
        files=dict(files or {}),
        collect_files=bool(collect_files),
    )
