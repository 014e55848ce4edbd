"""What a kernel does for whoever wants one request, one state in and one state out: see docs/repl-server.md."""

from __future__ import annotations

from cloche_guest import preloads, text_state
from cloche_guest.c_library import write_c_output_at_once
from cloche_guest.codes import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.namespace import Namespace

    Reply = tuple[dict[str, Any] | None, list[Any] | None]

ALWAYS_BOUND = ("display",)


class TextMethods:
    """Requests of a kernel, on its namespace. `guarded` runs what touches the user's objects."""

    def __init__(self, space: Namespace, guarded: Callable[[Callable[[], Any]], Any]) -> None:
        self._space = space
        self._guarded = guarded
        self._given: dict[str, Any] = {}  # what was bound here, and is no variable while it is the same

    def methods(self) -> dict[str, Callable[[dict[str, Any], bytearray | None], Reply]]:
        """By their names on the wire."""
        return {"preload": self.preload, "load_state": self.load_state, "save_state": self.save_state}

    def preload(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Import modules and bind their names. With `only`, the names that sessions reserve are the user's."""
        if params.get("only"):
            kept = {name: self._space.reserved.get(name) for name in ALWAYS_BOUND}
            for name in list(self._space.reserved):
                self._space.release(name)
            self._bind(kept)
            write_c_output_at_once()
        modules = params.get("modules")
        left_out: list[list[str]] = []
        bound: dict[str, Any] = {}
        wanted = preloads.PRELOAD_MODULES if modules is None else modules
        self._guarded(lambda: preloads.bind(bound, wanted, lambda module, why: left_out.append([module, why])))
        self._bind(bound)
        return {"bound": list(bound), "left_out": left_out}, None

    def _bind(self, found: dict[str, Any]) -> None:
        self._given.update(found)
        self._space.names.update(found)

    def load_state(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Put a state back, all of it or nothing."""

        def load() -> dict[str, Any]:
            try:
                return {"restored": text_state.load(self._space.names, body or bytearray(), self._space.reserved)}
            except StateError as exc:
                return {"failed": str(exc)}

        return self._guarded(load), None

    def save_state(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """The variables as a state; `errors` has what could not be saved, with the reason."""
        names, limit, partial = self._space.names, params.get("limit", 1 << 30), bool(params.get("partial"))

        def save() -> tuple[list[bytes] | None, list[list[str]]]:
            wanted = [name for name in self._space.user_names() if names[name] is not self._given.get(name, self)]
            return text_state.save(names, wanted, limit, partial)

        text, errors = self._guarded(save)
        return {"saved": text is not None, "errors": errors}, text or []
