"""The best wall that can be had, found by building it. What could not be built is remembered."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cloche.backends.jail.houses import houses
from cloche.backends.jail.tiers import Failure, Mode, forbidden, refusal
from cloche.errors import StartError
from cloche.isolation import masked_layers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloche.backends.interpreter import Interpreter
    from cloche.backends.jail.broker import Broker


class Walls:
    """What this process knows of the walls of this machine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: dict[tuple[str, frozenset[str]], dict[Mode, Failure]] = {}

    def settle(self, interpreter: Interpreter) -> Mode:
        """The best one. It is built for that, and the first session will use it."""
        for mode in self.candidates(interpreter):
            with houses.lease(interpreter, (), mode) as broker:
                if self.stands(broker):
                    return mode
        raise refusal(self.failures(interpreter))

    def candidates(self, interpreter: Interpreter) -> Iterator[Mode]:
        """Those that are not known to be out of reach, the best first."""
        for mode in Mode:
            failure = forbidden(mode)
            if failure is not None:
                self._remember(interpreter, mode, failure)
            elif mode not in self.failures(interpreter):
                yield mode

    def stands(self, broker: Broker) -> bool:
        """Whether this one is up; waits until that is known."""
        if broker.standing:
            return True
        failure = broker.wait_standing()
        if failure is not None and failure.passing:
            raise StartError("the jail did not start", cause=failure.why, remedy="try again")
        if failure is not None:
            self._remember(broker.interpreter, broker.mode, failure)
        return failure is None

    def failures(self, interpreter: Interpreter) -> dict[Mode, Failure]:
        """Those that cannot be had with this interpreter, and why."""
        with self._lock:
            return dict(self._failures.get((interpreter.executable, masked_layers()), {}))

    def _remember(self, interpreter: Interpreter, mode: Mode, failure: Failure) -> None:
        with self._lock:
            self._failures.setdefault((interpreter.executable, masked_layers()), {})[mode] = failure

    def forget(self) -> None:
        """The machine may have changed."""
        with self._lock:
            self._failures.clear()


walls = Walls()
