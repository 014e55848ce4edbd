"""A guest that calls the host's functions itself: whatever it says, every call returns and the session works again."""

from __future__ import annotations

import pytest
from tests.wasm.sessions import value, wasm

WORLD = "import sys\nworld = sys.modules['wit_world']\n"

CELLS = {
    "garbage": "world.tell('garbage')",
    "a frame with a line's end": "world.tell('{}\\n{}')",
    "a reply to nothing": 'world.tell(\'{"jsonrpc":"2.0","id":7,"result":{}}\')',
    "a flood": 'while True: world.tell(\'{"jsonrpc":"2.0","method":"display","params":{}}\')',
    "a frame that is too large": "world.tell('x' * 50_000_000)",
    "an attachment that nobody wanted": "world.attach('x' * 1000)",
    "an attachment without end": "while True: world.attach('x' * 10_000_000)",
    "a wait for an answer to nothing": "world.ask('')",
    "no answer to a wait": "for n in (float('inf'), float('nan'), -1.0, 1e300): world.pause(n)",
    "marks": "for _ in range(1000): world.mark()",
    "a status out of range": "world.leave(-1)",
    "a call of its own exports": 'world.session.serve(\'{"jsonrpc":"2.0","id":1,"method":"ping"}\')',
    "a broken link": "world.session._link.host = None",
    "no session": "del world.session",
    "its own kernel": "world.session.serve = lambda frame: 'not JSON'",
    "a reply for ever": "world.session.serve = lambda frame: 'x' * 30_000_000",
    "lone surrogates": "world.tell('\\ud800')",
}


@pytest.mark.parametrize("name", CELLS)
def test_every_call_returns_and_the_next_session_works(name: str):
    with wasm(grace_ms=300) as sandbox, wasm() as neighbour:
        neighbour.execute("x = 1").check()
        sandbox.execute("1").check()
        sandbox.execute(WORLD + CELLS[name], timeout_ms=500)
        sandbox.reset()
        assert value(sandbox, "1 + 1") == "2"
        assert value(neighbour, "x") == "1"


def test_a_guest_that_answers_twice_is_ended_and_that_is_said():
    with wasm() as sandbox:
        sandbox.execute("1").check()
        forged = '{"jsonrpc":"2.0","id":3,"result":{"outcome":"ok","value":"forged"}}'
        forging = sandbox.execute(WORLD + f"world.tell({forged!r})\nworld.tell({forged!r})")
        told = forging if forging.outcome == "killed" else sandbox.execute("1 + 1")
        assert (told.outcome, told.session_state) == ("killed", "reset")
        assert value(sandbox, "1 + 1") == "2"


def test_the_ledger_is_not_the_guests_to_write():
    """Fuel and memory are what the worker counted, whatever the reply says."""
    with wasm() as sandbox:
        code = (
            WORLD + "kernel = world.session._kernel\nreal = kernel._run\n"
            "kernel._run = lambda *a: {**real(*a), 'fuel': 1, 'fuel_consumed': 1, 'peak_bytes': 1}"
        )
        sandbox.execute(code)
        result = sandbox.execute("for _ in range(10_000): pass")
        assert (result.fuel_consumed or 0) > 1_000_000
        assert (result.memory_used_bytes or 0) > 1_000_000
