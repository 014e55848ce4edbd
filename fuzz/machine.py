"""Fuzz target: the session machine as a whole, fed with a guest's bytes, time and answers of the host."""

from __future__ import annotations

from fuzz.engine import main

from cloche.policy import ExecutionPolicy
from cloche.session.actions import CallBridge, Kill, Send
from cloche.session.machine import Call, Machine, Phase

CORPUS = (
    b'{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","id":2,"result":{"outcome":"ok"}}\n',
    b'{"jsonrpc":"2.0","id":5,"method":"bridge","params":{"name":"f","args":[1],"kwargs":{"a":2}}}\n',
    b'{"jsonrpc":"2.0","id":6,"method":"bridge","params":{"name":"llm_query_batched","args":[[["a"],["b"]]]}}\n',
    b'{"jsonrpc":"2.0","method":"display","params":{"data":{"image/png":"AAEC","text/plain":"x"}}}\n',
    b'{"jsonrpc":"2.0","method":"output","params":{"stream":"stderr","text":"x"}}\n',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}\n',
    b'{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","id":2,"result":{},"attachment":3}\nabc',
)
POLICY = ExecutionPolicy(
    value_max_bytes=2000, display_max_bytes=1000, snapshot_max_bytes=1000, max_bridge_calls=5, max_concurrent=2,
    bridge_timeout_ms=1000, grace_ms=100,
)  # fmt: skip


def target(data: bytes) -> None:
    """Whatever a guest says, the machine stands, ends the call, and leaves nothing under way."""
    machine = Machine(POLICY, frozenset({"f", "llm_query"}))
    now = 0.0
    for call in ("snapshot", "execute"):
        machine.begin([Call("initialize"), Call(call)], now=now, started=now, timeout=1.0, live=True)
        step = max(1, len(data) // 5)
        for start in range(0, len(data), step):
            machine.receive(data[start : start + step], now)
            _answer(machine, now)
            now += 0.05
            machine.tick(now)
            if machine.finished is not None:
                break
        while machine.finished is None:
            now = max(now, machine.wake_at(now) or now) + 0.001
            machine.tick(now)
            _answer(machine, now)
            if machine.phase is Phase.KILLED:
                machine.guest_gone("killed by SIGKILL")
        _answer(machine, now)
        assert not machine.desk.busy
        assert len(machine.displays) <= 200
        if machine.finished.death is not None:
            return


def _answer(machine: Machine, now: float) -> None:
    """Be a driver: every action is carried out, host functions return or raise."""
    while machine.actions:
        action = machine.actions.pop(0)
        if isinstance(action, CallBridge):
            error = None if action.key % 3 else ValueError("no")
            if action.key % 4:
                machine.bridge_done(action.key, action.args, error, now)
        elif isinstance(action, Send):
            assert action.data.endswith(b"\n")
            assert action.data.count(b"\n") == 1
        elif isinstance(action, Kill):
            assert machine.phase in (Phase.KILLED, Phase.IDLE)


if __name__ == "__main__":
    main(target, CORPUS)
