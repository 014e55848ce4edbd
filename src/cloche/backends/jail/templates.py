"""Large contexts that are kept in the jail, once for all sessions that start with them."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from cloche.backends.jail.texts import Layout, pieces
from cloche.session.callback_threads import threads
from cloche.session.chores import chores

if TYPE_CHECKING:
    from cloche.backends.jail.broker import Broker

LARGE = 32 << 20
"""Bytes from which a context is kept from its first session on: to copy it takes longer than to make the template, and
should the session end, the next one is there at once."""
WORTH_KEEPING = 8 << 20
"""Bytes from which it is kept from the second session on."""
MOST = 8
MOST_BYTES = min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4, 8 << 30)
"""Of all templates of one jail together. What would not fit is sent to each session, as without templates."""
QUIET = 60.0
"""Seconds without a new session after which a template is given up. Sessions that it forked live on."""
REMEMBERED = 64
SAMPLE = 4096
SOCKET_BUFFER = 1 << 20


class Template:
    """A process of the jail that holds one text and forks the sessions that start with it."""

    def __init__(self, number: int, text: str, layout: Layout) -> None:
        self.number = number
        self.text = text
        self.layout = layout
        self.ready = False
        self.last_used = time.monotonic()
        self._line, self.their_line = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)

    def feed(self) -> None:
        """Send the text, in a thread of its own. Should nobody read it any more, that is told elsewhere."""
        with suppress(OSError), self._line:
            for piece in pieces(self.text, self.layout):
                self._line.sendall(piece)

    def stop(self) -> None:
        """Send no more of it."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)


class Templates:
    """Those of one broker. They are found by the text itself: nobody ever gets one that merely looks the same."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = threading.Lock()
        self._held: dict[int, Template] = {}
        self._seen: dict[tuple[int, int], None] = {}
        self._refused: set[tuple[int, int]] = set()
        self._last = 0
        self._closed = False

    def holding(self, context: Any) -> Template | None:
        """The template of a context; None where it is not worth one, and is sent to the session itself."""
        if type(context) is not str or len(context) < WORTH_KEEPING // 4:
            return None
        layout = Layout.of(context)
        if layout.size < WORTH_KEEPING or layout.size > MOST_BYTES:
            return None
        with self._lock:
            if self._closed:
                return None
            template = self._find(context, layout)
            if template is None and self._is_wanted(context, layout):
                template = self._make(context, layout)
            if template is not None:
                template.last_used = time.monotonic()
            return template

    def _find(self, text: str, layout: Layout) -> Template | None:
        for template in self._held.values():
            if template.text is text or (template.layout == layout and template.text == text):
                return template
        return None

    def _is_wanted(self, text: str, layout: Layout) -> bool:
        """From the first time on, or from the second: then a glance must do to know it again."""
        glance = _glance(text)
        if glance in self._refused:
            return False
        if layout.size >= LARGE or glance in self._seen:
            return True
        self._seen[glance] = None
        while len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return False

    def _make(self, text: str, layout: Layout) -> Template | None:
        self._make_room(layout.size)
        self._last += 1
        template = Template(self._last, text, layout)
        message = {
            "hold": template.number,
            "length": layout.length,
            "width": layout.width,
            "highest": layout.highest,
        }
        with template.their_line:
            if not self._broker.tell(message, [template.their_line.fileno()]):
                return None
        self._held[template.number] = template
        threads.run(template.feed)
        chores.after(QUIET, partial(self._look_at, template))
        return template

    def _make_room(self, size: int) -> None:
        by_use = sorted(self._held.values(), key=lambda template: template.last_used)
        total = sum(template.layout.size for template in by_use)
        while by_use and (len(by_use) >= MOST or total + size > MOST_BYTES):
            oldest = by_use.pop(0)
            total -= oldest.layout.size
            self._drop(oldest)

    def _look_at(self, template: Template) -> None:
        """Is it still wanted?"""
        with self._lock:
            if self._held.get(template.number) is not template:
                return
            left = template.last_used + QUIET - time.monotonic()
            if left <= 0:
                self._drop(template)
            else:
                chores.after(left, partial(self._look_at, template))

    def _drop(self, template: Template) -> None:
        """Caller holds the lock."""
        del self._held[template.number]
        template.stop()
        self._broker.tell({"drop": template.number}, [])
        if self._broker.stock is not None:
            threads.run(partial(self._broker.stock.drop_kinds, template.number))

    # -- what the jail says --------------------------------------------------------------------

    def is_ready(self, number: int) -> None:
        """It holds its text now."""
        template = self._held.get(number)
        if template is not None:
            template.ready = True

    def is_gone(self, number: int) -> None:
        """It has ended. One that never held its text is not tried again: there may be no memory for it."""
        with self._lock:
            template = self._held.pop(number, None)
            if template is not None:
                template.stop()
                if not template.ready:
                    self._refused.add(_glance(template.text))

    def close(self) -> None:
        """Keep none from now on."""
        with self._lock:
            self._closed = True
            for template in list(self._held.values()):
                self._drop(template)


def _glance(text: str) -> tuple[int, int]:
    """Enough to suspect that it is the same; what a session gets is never decided by this."""
    middle = len(text) // 2
    return len(text), hash((text[:SAMPLE], text[middle : middle + SAMPLE], text[-SAMPLE:]))
