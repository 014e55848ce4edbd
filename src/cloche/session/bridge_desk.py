"""The host's desk for bridge calls: counts them, bounds them, splits batches, and matches answers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloche.session.actions import AbandonBridge, Action, CallBridge, Send
from cloche.session.budget import PER_CALL, PER_THREAD, Budget
from cloche.session.frames import encode_frame
from cloche.session.plain_data import NotPlain, encode_plain
from cloche_guest.values import BatchFailure, TooLarge, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cloche.policy import ExecutionPolicy

BRIDGE_FAILED = -32000
UNKNOWN_BRIDGE = -32601
BAD_ARGUMENTS = -32602

_BATCHES = {"llm_query_batched": "llm_query", "rlm_query_batched": "rlm_query"}


@dataclass(slots=True)
class _Request:
    """One request of the guest: a single call, or a batch of them."""

    guest_id: int
    batch: bool
    answers: list[Any]  # as they will cross the wall
    missing: int
    room: int
    """Bytes that the answers which are still to come may have."""
    keys: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Item:
    request: _Request
    index: int
    call: CallBridge
    cost: int
    deadline: float | None = None  # set when it is under way


class BridgeDesk:
    """Bridge calls of one session. At most `max_concurrent` are under way at once, whoever made them."""

    def __init__(
        self,
        policy: ExecutionPolicy,
        known: Collection[str],
        actions: list[Action],
        answered: Callable[[CallBridge, Any, BaseException | None], object] = lambda *_: None,
        budget: Budget | None = None,
    ) -> None:
        """`answered` is told what came of each call; `budget` counts what the calls hold in memory."""
        self._policy = policy
        self._known = known
        self._actions = actions
        self._answered = answered
        self._budget = Budget(policy.value_max_bytes) if budget is None else budget
        self._items: dict[int, _Item] = {}
        self._given_up: dict[int, int] = {}  # functions that were abandoned and have not returned, and what they hold
        self._waiting: deque[int] = deque()
        self._running = 0
        self._next_key = 0
        self.calls = 0

    @property
    def busy(self) -> bool:
        """Some call is out."""
        return bool(self._items)

    @property
    def under_way(self) -> int:
        """Host functions that are running."""
        return self._running

    def begin_call(self) -> None:
        """A new cell: its own count."""
        self.calls = 0

    def request(self, guest_id: Any, params: Any, now: float, *, cost: int = 0, refusal: str | None = None) -> None:
        """The guest calls a host function, with arguments that take `cost` bytes of memory.

        Every request is answered; with a `refusal`, by that.
        """
        if type(guest_id) is not int:
            return
        if refusal is not None:
            self._refuse(guest_id, BRIDGE_FAILED, refusal, "Abandoned")
            return
        try:
            name, items, kwargs, batch = self._read(params)
        except ValueError as exc:
            self._refuse(guest_id, BAD_ARGUMENTS, str(exc), "ValueError")
            return
        if name not in self._known:
            hint = (
                f"no callback: give create_sandbox(on_{name}=...)" if name in _BATCHES.values() else "no such function"
            )
            self._refuse(guest_id, UNKNOWN_BRIDGE, hint, "LookupError")
            return
        if self.calls + len(items) > self._policy.max_bridge_calls:
            limit = self._policy.max_bridge_calls
            self._refuse(
                guest_id, BRIDGE_FAILED, f"the limit of {limit} host calls in one cell is reached", "RuntimeError"
            )
            return
        if self._budget.given_up_too_much:
            held = self._budget.given_up.bytes
            why = f"host functions that were given up and have not returned hold {held} bytes of memory"
            self._refuse(guest_id, BRIDGE_FAILED, why, "RuntimeError")
            return
        self.calls += len(items)
        request = _Request(guest_id, batch, [None] * len(items), len(items), self._policy.value_max_bytes)
        for index, args in enumerate(items):
            self._next_key += 1
            key = self._next_key
            request.keys.append(key)
            item = _Item(request, index, CallBridge(key, name, args, kwargs), PER_CALL + cost // len(items))
            self._items[key] = item
            self._budget.calls += item.cost
            self._waiting.append(key)
        if not items:
            self._answer(request)
        self.start_waiting(now)

    def done(self, key: int, value: Any, error: BaseException | None, now: float) -> None:
        """A host function returned or raised."""
        item = self._items.pop(key, None)
        if item is None:
            self.returned(key)  # abandoned meanwhile
            return
        self._budget.calls -= item.cost
        if item.deadline is not None:
            self._running -= 1
        self._settle(item, value, error)
        self.start_waiting(now)

    def returned(self, key: int) -> None:
        """A host function that had been given up has come to its end."""
        self._budget.given_up.bytes -= self._given_up.pop(key, 0)

    def _give_up(self, key: int, item: _Item) -> None:
        """Nobody waits for this call any more. While its function runs, its arguments are in memory."""
        self._actions.append(AbandonBridge(key))
        if item.deadline is not None:
            self._given_up[key] = item.cost + PER_THREAD
            self._budget.given_up.bytes += item.cost + PER_THREAD

    def expire(self, now: float) -> None:
        """Give up the calls whose time is over."""
        late = [(key, item) for key, item in self._items.items() if item.deadline is not None and now >= item.deadline]
        for key, item in late:
            if key not in self._items:
                continue  # given up with the rest of its batch
            self._give_up(key, item)
            limit = self._policy.bridge_timeout_ms
            self.done(key, None, TimeoutError(f"no answer within {limit} ms"), now)

    def wake_at(self) -> float | None:
        """When the next call's time is over."""
        return min((item.deadline for item in self._items.values() if item.deadline is not None), default=None)

    def abandon_all(self, why: str) -> None:
        """The cell is over: whoever still waits in the guest gets an error."""
        items = list(self._items.items())
        self._items.clear()
        self._waiting.clear()
        self._running = 0
        for key, item in items:
            self._budget.calls -= item.cost
            self._give_up(key, item)
        for request in {id(item.request): item.request for _, item in items}.values():
            self._refuse(request.guest_id, BRIDGE_FAILED, why, "Abandoned")

    def _read(self, params: Any) -> tuple[str, list[list[Any]], dict[str, Any], bool]:
        """(name, one list of arguments per item, keywords, is it a batch)."""
        if type(params) is not dict or type(params.get("name")) is not str:
            raise ValueError("a bridge call needs a name")
        name: str = params["name"]
        args, kwargs = decode(params.get("args", [])), decode(params.get("kwargs", {}))
        if type(args) is not list or type(kwargs) is not dict or not all(type(key) is str for key in kwargs):
            raise ValueError("arguments must be a list, keywords an object")
        if name not in _BATCHES:
            return name, [args], kwargs, False
        items = args[0] if args else None
        if type(items) is not list or not all(type(item) is list for item in items):
            raise ValueError("a batch needs a list of argument lists")
        return _BATCHES[name], items, kwargs, True

    def start_waiting(self, now: float) -> None:
        """Have as many functions run as may run at once; none while the guest does not take its answers."""
        while self._waiting and self._running < self._policy.max_concurrent and self._budget.takes_calls:
            item = self._items.get(self._waiting.popleft())
            if item is not None:
                limit = self._policy.bridge_timeout_ms
                item.deadline = float("inf") if limit is None else now + limit / 1000
                self._running += 1
                self._actions.append(item.call)

    def _settle(self, item: _Item, value: Any, error: BaseException | None) -> None:
        request = item.request
        self._answered(item.call, value, error)
        if error is not None:
            text = failure_text(error)
            if not request.batch:
                self._refuse(request.guest_id, BRIDGE_FAILED, text, type(error).__name__)
                return
            value = BatchFailure(f"[Error: {text}]")
        try:
            request.answers[item.index], request.room = encode_plain(value, request.room, 1)
        except (NotPlain, TooLarge) as exc:
            self._drop_rest(request)
            where = exc if isinstance(exc, NotPlain) else f" cannot cross the wall: {exc}"
            self._refuse(request.guest_id, BRIDGE_FAILED, f"the answer{where}", "ValueError")
            return
        request.missing -= 1
        if not request.missing:
            self._answer(request)

    def _drop_rest(self, request: _Request) -> None:
        """The other calls of a batch that cannot be answered any more."""
        for key in request.keys:
            item = self._items.pop(key, None)
            if item is not None:
                self._budget.calls -= item.cost
                if item.deadline is not None:
                    self._running -= 1
                self._give_up(key, item)

    def _answer(self, request: _Request) -> None:
        result = request.answers if request.batch else request.answers[0]
        self._actions.append(Send(encode_frame({"jsonrpc": "2.0", "id": request.guest_id, "result": result})))

    def _refuse(self, guest_id: int, code: int, message: str, kind: str) -> None:
        error = {"code": code, "message": message[:10_000], "data": {"type": kind}}
        self._actions.append(Send(encode_frame({"jsonrpc": "2.0", "id": guest_id, "error": error})))


def failure_text(error: BaseException) -> str:
    """A host exception as the guest may see it: type and message, no frames."""
    try:
        message = str(error)
    except Exception as second:  # noqa: BLE001 - the callback's own exception class may be broken
        message = f"<{type(second).__name__} in str()>"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
