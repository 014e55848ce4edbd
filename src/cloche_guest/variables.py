"""What a host asks of a session's variables, also of a session in its own process."""

from __future__ import annotations

from cloche_guest.codes import INVALID_PARAMS, RequestFailed
from cloche_guest.values import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.namespace import Namespace

    Reply = tuple[dict[str, Any] | None, list[Any] | None]

MOST_MATCHES = 200
LONGEST_TYPE = 100


class Variables:
    """Requests of a kernel, on its namespace. `guarded` runs what touches the user's objects."""

    def __init__(
        self, space: Namespace, value_limit: Callable[[], int], guarded: Callable[[Callable[[], Any]], Any]
    ) -> None:
        self._space = space
        self._value_limit = value_limit
        self._guarded = guarded

    def methods(self) -> dict[str, Callable[[dict[str, Any], bytearray | None], Reply]]:
        """By their names on the wire."""
        return {
            "get_variable": self.get_variable,
            "set_variable": self.set_variable,
            "list_variables": self.list_variables,
            "complete": self.complete,
        }

    def get_variable(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """A variable of the namespace, as data."""
        names, limit = self._space.names, self._value_limit()
        if params["name"] not in names:
            return {"found": False}, None
        value = self._guarded(lambda: encode(names[params["name"]], limit))
        return {"found": True, "value": value}, None

    def set_variable(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Bind a variable."""
        name = params["name"]
        if not name.isidentifier():
            raise RequestFailed(INVALID_PARAMS, "%.60r is not a variable name" % (name,))
        if name in self._space.reserved:
            raise RequestFailed(INVALID_PARAMS, "%r is reserved" % (name,))
        self._space.names[name] = decode(params["value"])
        return {}, None

    def list_variables(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Names and types of the user's variables."""
        names = self._space.names
        found = self._guarded(lambda: [[name, _type_name(names[name])] for name in self._space.user_names()])
        return {"variables": found}, None

    def complete(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Completions of the dotted name at the end of `text`."""

        def find() -> list[str]:
            import rlcompleter

            completer = rlcompleter.Completer(self._space.names)
            found: list[str] = []
            while len(found) < MOST_MATCHES:
                match = completer.complete(params["text"], len(found))
                if match is None:
                    break
                found.append(match)
            return found

        return {"matches": self._guarded(find)}, None


def _type_name(value: Any) -> str:
    """As the interpreter has it, whatever a metaclass of the user's makes of `__name__`."""
    return str.__str__(type.__dict__["__name__"].__get__(type(value)))[:LONGEST_TYPE]
