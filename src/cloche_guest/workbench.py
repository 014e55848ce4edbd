"""What an agent finds in its namespace: looks at texts that the host holds, and the last word.

The work is done by the host, which counts and decides. Here are the faces: results that print well, values of
variables that are sent along, and the way out of a cell that has given its answer.
"""

from __future__ import annotations

from cloche_guest.bridges import name_stub
from cloche_guest.looks import make_hits, make_listing
from cloche_guest.values import TooLarge, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.bridges import Bridges
    from cloche_guest.namespace import Namespace

FINAL = "FINAL"
TEXTS = {"llm_call": ("prompt", "context_slice"), "mark_finding": ("content",), "STUCK": ("reason",)}
"""Functions that take texts, and their parameters for these, which come first."""


class Workbench:
    """Makes the stubs. One for a session."""

    def __init__(self, bridges: Bridges, space: Namespace) -> None:
        self._bridges = bridges
        self._space = space
        self._docs: dict[str, str] = {}
        self._stubs: dict[str, Any] = {}
        self._place_answer()
        space.names.setdefault("artifacts", {})

    def stub(self, kind: str, name: str, doc: str) -> Any:
        """A stub of one of the kinds that there are."""
        makers: dict[str, Callable[[str], Any]] = {
            "hits": self._hits,
            "listing": self._listing,
            "chunks": self._chunks,
            "final": self._final,
            "final_var": self._final_var,
            "help": self._help,
            "list_tools": self._list_tools,
            "texts": self._texts,
            "plain": lambda name: self._bridges.tool(name, ""),
        }
        self._docs[name] = doc
        stub = self._stubs[name] = name_stub(makers[kind](name), name, doc)
        return stub

    def show(self, value: Any) -> str:
        """The last expression of a cell: a text of several lines as it is, which is easier to read, and shorter."""
        return value if type(value) is str and "\n" in value else repr(value)

    def after_cell(self) -> None:
        """Whoever fills in `answer` and says that it is ready has given his answer."""
        found = self._space.names.get("answer")
        try:
            # Past what a class of the cell's own makes of `get`.
            content = dict.get(found, "content") if isinstance(found, dict) else None
            ready = isinstance(found, dict) and bool(dict.get(found, "ready"))
        except BaseException:  # else it would be met again after every cell
            self._place_answer()
            raise
        if ready:
            self._place_answer()
            self._bridges.end_cell(FINAL, self._answer(content), {})

    def _place_answer(self) -> None:
        self._space.names["answer"] = {"content": "", "ready": False}

    def _answer(self, value: Any) -> tuple[Any, ...]:
        """An answer as it travels: its text, and its value where that is plain and not too large."""
        if callable(value) and not isinstance(value, type):
            raise TypeError("the answer is a function, %r: call it, and give what it returns" % (value,))
        text = str.__str__(str(value))  # plain, also where a class of the cell's own is text
        limit = self._bridges.value_limit // 4
        if len(text) > limit:
            raise ValueError("the answer has %d characters; it may have %d" % (len(text), limit))
        try:
            encode(value, limit)
        except TooLarge:
            return (text,)
        return (text, value)

    def _final(self, name: str) -> Any:
        def stub(answer: Any) -> None:
            self._bridges.end_cell(name, self._answer(answer), {})

        return stub

    def _final_var(self, name: str) -> Any:
        def stub(variable: str) -> None:
            self._bridges.end_cell(FINAL, self._answer(self._find(variable)), {})

        return stub

    def _find(self, variable: Any) -> Any:
        if type(variable) is not str:
            raise TypeError("FINAL_VAR takes the name of a variable; FINAL(%s) gives a value" % type(variable).__name__)
        names = self._space.names
        if variable in names:
            return names[variable]
        kept = names.get("artifacts")
        if isinstance(kept, dict) and variable in kept:
            return kept[variable]
        import difflib

        near = difflib.get_close_matches(variable, self._space.user_names(), 1)
        raise NameError("there is no variable %r%s" % (variable, "; did you mean %r?" % near[0] if near else ""))

    def _hits(self, name: str) -> Any:
        def stub(*args: Any, **kwargs: Any) -> Any:
            return make_hits(self._bridges.invoke(name, args, kwargs))

        return stub

    def _texts(self, name: str) -> Any:
        """For functions that take texts: whatever is given for one goes as it would be printed, and whole."""
        names = TEXTS[name]

        def stub(*args: Any, **kwargs: Any) -> Any:
            told = [_printed(value) for value in args[: len(names)]]
            named = {key: _printed(value) if key in names else value for key, value in kwargs.items()}
            return self._bridges.invoke(name, (*told, *args[len(names) :]), named)

        return stub

    def _listing(self, name: str) -> Any:
        def stub(*args: Any, **kwargs: Any) -> Any:
            return make_listing(self._bridges.invoke(name, args, kwargs))

        return stub

    def _chunks(self, name: str) -> Any:
        """The host says where the cuts are; the text is here already, unless the context is something else."""

        def stub(*args: Any, **kwargs: Any) -> Any:
            reply = self._bridges.invoke(name, args, kwargs)
            context: Any = self._space.reserved.get("context")
            pieces = []
            for index, (start, end, *sent) in enumerate(reply):
                text = sent[0] if sent else context[start:end]
                pieces.append({"index": index, "start": start, "end": end, "text": text, "char_count": end - start})
            return pieces

        return stub

    def _help(self, name: str) -> Any:
        def stub(*what: Any) -> None:
            import builtins

            for name, doc in self._docs.items():
                if len(what) == 1 and (what[0] is self._stubs[name] or (type(what[0]) is str and what[0] == name)):
                    print(doc)
                    return
            builtins.help(*what)

        return stub

    def _list_tools(self, name: str) -> Any:
        def stub() -> Any:
            return _Tools((name, doc.partition("\n")[0]) for name, doc in sorted(self._docs.items()))

        return stub


def _printed(value: Any) -> Any:
    return value if value is None else str.__str__(str(value))


class _Tools(dict):  # type: ignore[type-arg]  # the guest runs where dict cannot be subscripted
    """Names, and how each is called."""

    def __repr__(self) -> str:
        return "\n".join(str(line) for line in self.values())

    __str__ = __repr__
