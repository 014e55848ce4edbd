"""One call of a blocking driver, from its request to its reply, and the host functions it needs on the way.

A host function may never return, so the caller's thread does not run it. Handing each one to another thread and back
would cost two wake-ups a call; so with the first of them the *lead* goes over: the thread that runs host functions
also reads the wire from then on, and the caller stands by. It takes the lead back when a function takes long, and
the thread that is stuck in it is on its own: should it ever return, its answer still counts if it is in time.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cloche.session.actions import CallBridge, Emit
from cloche.session.callback_threads import threads
from cloche.session.clock import clock
from cloche.session.descriptors import none_left
from cloche.session.guest import Guest
from cloche.session.live import LiveSession
from cloche.session.pump import PollWatch

if TYPE_CHECKING:
    from collections.abc import Callable

STAND_BY = 0.02
"""How long a host function may take before the caller leads again."""


class Bell:
    """Wakes the thread that leads, from any other."""

    def __init__(self) -> None:
        try:
            self.reader, self._writer = os.pipe()
        except OSError as exc:
            raise none_left(exc) or exc from None
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self.owner = os.getpid()
        # A late ring must not hit a descriptor that is another's by now. Re-entrant: a signal handler may ring, too.
        self._open = threading.RLock()

    def ring(self) -> None:
        """From any thread."""
        with self._open, suppress(BlockingIOError):  # full: rung often enough
            if self._writer >= 0:
                os.write(self._writer, b"!")

    def silence(self) -> None:
        """Take all rings so far as heard."""
        with suppress(BlockingIOError):
            os.read(self.reader, 4096)

    def leave(self) -> None:
        """In a forked child: close our copies, whoever held the lock."""
        self._open = threading.RLock()
        self.close()

    def close(self) -> None:
        with self._open:
            writer, self._writer = self._writer, -1
            os.close(self.reader)
            os.close(writer)


class CallLoop:
    """Drives the machine until it has finished. `lock` guards the machine whenever nobody merely waits."""

    def __init__(
        self,
        session: LiveSession,
        guest: Guest,
        lock: threading.Lock,
        bell: Bell,
        on_output: Callable[[str, str], object] | None,
    ) -> None:
        self._session = session
        self._guest = guest
        self._lock = lock
        self._bell = bell
        self._on_output = on_output
        self._inline = session.policy.bridge_timeout_ms is None
        self._context = contextvars.copy_context() if session.callbacks.names else None
        self._leader: object = self  # the caller, or the token of the worker that leads
        self._calling_since: float | None = None
        self._handed_back = threading.Lock()
        self._trouble: BaseException | None = None
        self._cancelled = False

    # -- the caller ----------------------------------------------------------------------------

    def run(self) -> None:
        """Until the reply, in the caller's thread."""
        try:
            self._lead_or_stand_by()
        except BaseException:
            # Ctrl-C, or the listener raised: the cell must not go on, and its reply must not meet the next call.
            self.cancel()
            self._on_output = None
            self._lead_or_stand_by()
            raise

    def cancel(self) -> None:
        """From any thread."""
        self._cancelled = True
        self._bell.ring()

    def _lead_or_stand_by(self) -> None:
        with self._lock:
            while not self._lead(self):
                self._lock.release()
                try:
                    done = self._stand_by()
                finally:
                    self._lock.acquire()
                if self._trouble is not None:
                    raise self._trouble
                if done:
                    return

    def _stand_by(self) -> bool:
        """A worker leads. True when it has finished the call, False when it is stuck and the lead is ours again."""
        while not self._handed_back.acquire(timeout=STAND_BY):
            with self._lock:
                if self._guest.machine.finished is not None:
                    return True  # handed back while an interrupt took us out of the wait for it
                since = self._calling_since
                if since is not None and clock() - since > STAND_BY:
                    self._leader = self
                    return False
        return True

    # -- whoever leads -------------------------------------------------------------------------

    def _lead(self, me: object) -> bool:
        """Read, act and wait, with the lock held except while waiting. False when the lead has gone elsewhere."""
        if self._leader is not me:
            return False
        pump, machine, watch = self._guest.pump, self._guest.machine, self._guest.pump.watch
        assert isinstance(watch, PollWatch)
        wait = watch.ready if self._on_output is not None else watch.ready_urgent
        while True:
            now = clock()
            calls = self._carry_out(pump.perform(now))
            if machine.finished is not None:
                break
            if calls:
                if not self._serve(calls, me):
                    return False
                wait = watch.ready if self._on_output is not None else watch.ready_urgent
                continue
            timeout = pump.next_wake(now)
            self._lock.release()
            try:
                ready = wait(timeout)
            finally:
                self._lock.acquire()
            wait = watch.ready
            now = clock()
            pump.handle(ready, now)
            if self._bell.reader in ready:
                self._bell.silence()
            if self._cancelled:
                self._cancelled = False
                machine.cancel(now)
            if machine.finished is None:
                machine.tick(now)
        pump.drain()
        self._carry_out(pump.perform(clock()))
        return True

    def _carry_out(self, actions: list[Any]) -> list[CallBridge]:
        """Hand out text; the calls are left to the caller of this."""
        calls = []
        for action in actions:
            if isinstance(action, CallBridge):
                calls.append(action)
            elif isinstance(action, Emit) and self._on_output is not None:
                self._on_output(action.stream, action.text)
        return calls

    # -- host functions ------------------------------------------------------------------------

    def _serve(self, calls: list[CallBridge], me: object) -> bool:
        """Have these run. False when the lead went to the thread that runs them."""
        alone = len(calls) == 1 and self._guest.machine.desk.under_way == 1 and self._on_output is None
        if self._inline or (alone and me is not self):
            for call in calls:
                self._run_here(call, me)
            return self._leader is me
        if alone:
            token = self._leader = object()
            self._calling_since = clock()
            self._handed_back = threading.Lock()
            self._handed_back.acquire()
            threads.run(functools.partial(self._work, calls[0], token))
            return False
        for call in calls:
            threads.run(functools.partial(self._answer_alone, call))
        return True

    def _run_here(self, call: CallBridge, me: object) -> None:
        """Run one in this thread, which leads. The lead may be taken away meanwhile; the answer counts all the same."""
        self._calling_since = clock()
        self._lock.release()
        try:
            value, error = self._call(call)
        finally:
            self._lock.acquire()
        self._settle(call.key, value, error, leading=self._leader is me)

    def _work(self, call: CallBridge, token: object) -> None:
        """A worker: run the function, then lead for the rest of the call unless the caller has lost patience."""
        value, error = self._call(call)
        with self._lock:
            handed_back = self._handed_back
            leading = self._leader is token
            self._settle(call.key, value, error, leading=leading)
            try:
                if not leading or not self._lead(token):
                    return
            except BaseException as exc:  # noqa: BLE001 - raised again in the caller's thread
                self._trouble = exc
            handed_back.release()

    def _answer_alone(self, call: CallBridge) -> None:
        """A worker: run one of several functions while somebody else leads."""
        value, error = self._call(call)
        with self._lock:
            self._settle(call.key, value, error, leading=False)

    def _call(self, call: CallBridge) -> tuple[Any, BaseException | None]:
        try:
            context = (self._context or contextvars.Context()).copy()
            value = context.run(self._session.callbacks.call, call.name, call.args, call.kwargs)
            if inspect.isawaitable(value):
                if inspect.iscoroutine(value):
                    value.close()
                raise TypeError(f"the callback for {call.name} is async; use create_async_sandbox()")
        except BaseException as exc:  # noqa: BLE001 - whatever a callback raises is the guest's to see
            return None, exc
        return value, None

    def _settle(self, key: int, value: Any, error: BaseException | None, *, leading: bool) -> None:
        """Give the machine an answer. Where another thread leads, it is in its wait: then act for it."""
        guest = self._guest
        if leading:
            self._calling_since = None
        if self._session.guest is not guest:
            guest.machine.desk.returned(key)  # the guest ended meanwhile
            return
        now = clock()
        was_reading = guest.pump.reading
        guest.machine.bridge_done(key, value, error, now)
        if leading:
            return
        for call in self._carry_out(guest.pump.perform(now)):
            threads.run(functools.partial(self._answer_alone, call))
        if guest.pump.writing or guest.pump.reading is not was_reading or guest.machine.finished is not None:
            # a long answer, or more that the guest may send: the thread that waits must see to it
            self._bell.ring()
