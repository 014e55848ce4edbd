"""Executors of each kind, driven from tests that block."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal

from cloche.executor import REPLExecutor, REPLHealth, REPLResponse, REPLSettings

SERVER = Path(__file__).resolve().parents[2] / "src" / "cloche_guest" / "repl_server.py"
COMMAND = [sys.executable, str(SERVER)]
FEW = ("math", "json", "os", "sys")
KINDS = ("jail", "command")


class Executing:
    """An executor that runs in a thread of its own."""

    def __init__(self, portal: Any, executor: REPLExecutor) -> None:
        self._portal = portal
        self.executor = executor

    def __call__(self, code: str, **options: Any) -> REPLResponse:
        response: REPLResponse = self._portal.call(partial(self.executor.execute, code, **options))
        return response

    def run(self, code: str, **options: Any) -> str:
        """The output of code that succeeds."""
        response = self(code, **options)
        assert response.error is None, response
        return response.stdout

    def health(self) -> REPLHealth:
        health: REPLHealth = self._portal.call(self.executor.health)
        return health

    def until(self, condition: Callable[[REPLHealth], bool]) -> REPLHealth:
        """The health when something is so; ends by the test's own time limit."""

        async def wait() -> REPLHealth:
            while not condition(self.executor.health()):  # noqa: ASYNC110 - it happens in other processes
                await anyio.sleep(0.01)
            return self.executor.health()

        health: REPLHealth = self._portal.call(wait)
        return health

    def all_at_once(self, codes: list[str]) -> list[REPLResponse]:
        async def work() -> list[REPLResponse]:
            found: dict[int, REPLResponse] = {}

            async def one(number: int, code: str) -> None:
                found[number] = await self.executor.execute(code)

            async with anyio.create_task_group() as group:
                for number, code in enumerate(codes):
                    group.start_soon(one, number, code)
            return [found[number] for number in range(len(codes))]

        responses: list[REPLResponse] = self._portal.call(work)
        return responses


@contextmanager
def executing(settings: REPLSettings | None = None, **options: Any) -> Iterator[Executing]:
    """An executor with few modules, unless `settings` say otherwise."""
    with start_blocking_portal() as portal:
        executor = portal.call(partial(REPLExecutor, settings or REPLSettings(preload=FEW), **options))
        with portal.wrap_async_context_manager(executor):
            yield Executing(portal, executor)


def options_of(kind: str, folder: Path, **variables: str) -> dict[str, Any]:
    """What makes an executor one of this kind."""
    if kind != "command":
        return {"backend": kind}
    env = {**os.environ, "PRELOAD_MODULES": ",".join(FEW), "DEBUG": "", **variables}
    return {"command": COMMAND, "cwd": str(folder), "env": env}
