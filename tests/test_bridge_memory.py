"""Whatever a guest sends to a host whose functions are slow, the host holds no more of it than the budget."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.measured_host import SPEAK, run_measured

from cloche import create_async_sandbox

MIB = 1 << 20
FORGED = (
    SPEAK
    + """
head = b'{"jsonrpc":"2.0","id":%d,"method":"bridge","params":{"name":"slow","args":["'
for number in range(NUMBER):
    say(head % (1000 + number) + b"x" * SIZE + b'"]}}\\n')
"""
)
THREADS = """
import threading
text = "x" * (SIZE - 1000)
answers = []
threads = [threading.Thread(target=lambda: answers.append(slow(text))) for _ in range(NUMBER)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
len(answers)
"""
NESTED = (
    SPEAK
    + """
head = b'{"jsonrpc":"2.0","id":1,"method":"bridge","params":{"name":"slow","args":['
say(head + PART * (SIZE // len(PART)) + b"0]}}\\n")
"""
)
SMALL: dict[str, Any] = {"value_max_bytes": 2 * MIB, "display_max_bytes": 2 * MIB, "processes": 200}
"""With these, 12 MiB may be under way."""


def cell(code: str, **values: object) -> str:
    return "".join(f"{name} = {value!r}\n" for name, value in values.items()) + code


def test_forged_calls_that_wait_do_not_fill_the_host():
    told = run_measured(cell(FORGED, NUMBER=60, SIZE=2 * MIB), **SMALL)
    assert told["outcome"] == "ok"
    assert told["grown"] < 40 * MIB


def test_calls_of_threads_wait_in_the_guest_and_all_are_answered():
    told = run_measured(cell(THREADS, NUMBER=60, SIZE=2 * MIB), **SMALL)
    assert (told["outcome"], told["value"], told["calls"]) == ("ok", "60", 60)
    assert told["grown"] < 40 * MIB


@pytest.mark.parametrize("part", [b"[],", b'{"a":[]},', b'"",', b"["])
def test_a_nested_frame_is_refused_before_it_is_decoded(part):
    told = run_measured(cell(NESTED, PART=part, SIZE=5 * MIB), **SMALL)
    assert told["outcome"] == "killed"
    assert "too large when it is decoded" in told["error"]
    assert told["grown"] < 60 * MIB


def test_async_functions_that_are_cancelled_give_back_what_they_held():
    async def wait_for_ever(*_: object) -> None:
        await anyio.sleep_forever()

    async def ask() -> tuple[int, int]:
        async with create_async_sandbox(backend="native", tools={"slow": wait_for_ever}) as sandbox:
            result = await sandbox.execute(cell(FORGED, NUMBER=5, SIZE=1000))
            return result.usage.bridge_calls, sandbox._driver._session._given_up.bytes

    assert anyio.run(ask) == (5, 0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["native", "jail"])
@pytest.mark.parametrize("code", [FORGED, THREADS], ids=["forged", "threads"])
def test_120_calls_of_16_mib_cost_the_host_less_than_100(code, backend):
    told = run_measured(
        cell(code, NUMBER=120, SIZE=16 * MIB), backend=backend, slow=10.0, timeout_ms=120_000,
        processes=200, memory_bytes=8192 * MIB,
    )  # fmt: skip
    assert told["outcome"] == "ok"
    assert told["grown"] < 100 * MIB


@pytest.mark.slow
def test_a_nested_frame_of_20_mb_costs_the_host_less_than_100_mib():
    told = run_measured(cell(NESTED, PART=b'{"a":[]},', SIZE=20_000_000), timeout_ms=60_000)
    assert told["outcome"] == "killed"
    assert told["grown"] < 100 * MIB
