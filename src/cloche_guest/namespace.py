"""The one namespace in which all cells run, and the names in it that are ours."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def is_variable(name: Any) -> bool:
    """Whether a name may be one of the user's: neither Python's own, nor that of the last value."""
    return type(name) is str and name != "_" and not (name.startswith("__") and name.endswith("__"))


class Exit:
    """`exit` and `quit` without `site`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return "Use %s() to end the cell" % self._name

    def __call__(self, code: Any = None) -> NoReturn:
        raise SystemExit(code)


class Help:
    """`help` without `site`; pydoc is imported when it is used."""

    def __repr__(self) -> str:
        return "Type help(object) for help about object."

    def __call__(self, *args: Any) -> None:
        if not args:
            print(repr(self))
            return
        import pydoc

        print(pydoc.plain(pydoc.render_doc(args[0])))


def no_debugger(*args: Any, **options: Any) -> NoReturn:
    """Stands in for the debugger behind `breakpoint()`, which would read from a terminal."""
    raise RuntimeError("breakpoint() is not available: there is no terminal here; print what you want to know instead")


def no_terminal(prompt: object = "") -> NoReturn:
    """Stands in for `input` where nothing can be read."""
    raise EOFError("input() is not available: there is no terminal here; put the value into a variable instead")


def read_input(prompt: object = "") -> str:
    """Stands in for `input`: reads what code or the host put in the place of `sys.stdin`; there is no terminal."""
    stdin = getattr(sys, "stdin", None)
    if stdin is None or stdin is sys.__stdin__:
        no_terminal()
    sys.stdout.write(str(prompt))
    sys.stdout.flush()
    line = stdin.readline()
    if not line:
        raise EOFError("EOF when reading a line")
    return str(line[:-1] if line[-1] == "\n" else line)


class Namespace:
    """`__main__`, with reserved names that are put back after each cell."""

    def __init__(self) -> None:
        module = type(sys)("__main__")
        self.names = module.__dict__
        self.reserved: dict[str, Any] = {}
        import builtins

        self.names["__builtins__"] = builtins
        sys.modules["__main__"] = module
        for name in ("exit", "quit"):
            setattr(builtins, name, Exit(name))
        builtins.help = Help()  # type: ignore[assignment]  # the same call, another class
        builtins.input = read_input
        sys.breakpointhook = no_debugger

    def reserve(self, name: str, value: Any) -> None:
        """Bind `name` now and again after each cell."""
        self.reserved[name] = value
        self.names[name] = value

    def release(self, name: str) -> None:
        """Give `name` up."""
        self.reserved.pop(name, None)
        self.names.pop(name, None)

    def restore_reserved(self) -> None:
        """Undo what a cell did to our names."""
        try:
            self._put_back()
        except BaseException:
            # A key that is no plain text was asked whether it is one of ours, and raised: such keys are no variables.
            variables = {name: value for name, value in self.names.items() if type(name) is str}
            self.names.clear()
            self.names.update(variables)
            self._put_back()

    def _put_back(self) -> None:
        names = self.names
        for name, value in self.reserved.items():
            if names.get(name, self) is not value:
                names[name] = value

    def current_context(self) -> tuple[bool, Any]:
        """(is it the one the host gave, its value). A cell may have rebound the name."""
        value = self.names.get("context")
        return value is self.reserved.get("context", self), value

    def user_names(self) -> list[str]:
        """Variables of the user, in the order in which they were made."""
        return [name for name in list(self.names) if is_variable(name) and name not in self.reserved]
