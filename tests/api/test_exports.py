"""The public names: all there, all in one sorted list, and nothing imported before it is used."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import cloche
from cloche import errors

SOURCE = Path(cloche.__file__).read_text("utf-8")


def imported_for_checkers() -> set[str]:
    """What type checkers see in ``cloche/__init__.py``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom):
                    names |= {alias.asname or alias.name for alias in statement.names}
    return names


def test_the_list_is_sorted_and_without_doubles():
    def order(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert cloche.__all__ == sorted(cloche.__all__, key=order)
    assert len(set(cloche.__all__)) == len(cloche.__all__)


def test_the_list_is_what_type_checkers_see():
    assert set(cloche.__all__) == imported_for_checkers() | {"__version__"}


@pytest.mark.parametrize("name", cloche.__all__)
def test_a_public_name_can_be_imported_and_says_where_it_belongs(name):
    value = getattr(cloche, name)
    home = getattr(value, "__module__", None) or "cloche"
    assert home.split(".")[0] in ("cloche", "cloche_guest", "builtins"), home
    assert not any(part.startswith("_") for part in home.split("."))
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value), "has no docstring"


def test_every_error_is_public():
    kinds = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, errors.ClocheError)
    }
    assert kinds <= set(cloche.__all__)


def test_what_public_functions_take_and_return_is_public():
    """A name in a signature that cannot be imported from the package cannot be written by its users."""
    import re

    mentioned: set[str] = set()
    for name in cloche.__all__:
        value = getattr(cloche, name)
        members = [value] if inspect.isfunction(value) else []
        if inspect.isclass(value):
            members = [item for key, item in vars(value).items() if inspect.isfunction(item) and key[0] != "_"]
        for function in members:
            for annotation in function.__annotations__.values():
                mentioned |= set(re.findall(r"(?<!ast\.)\b[A-Z][A-Za-z]+\b", str(annotation)))
    known = {"Any", "Callable", "Mapping", "None", "Self", "Unset", "PathLike", "OnOutput", "Literal", "T", "True",
             "Logger", "EventSink", "BaseException", "TracebackType", "Path", "Exit", "Workspace", "SessionState",
             "Outcome", "CodeType", "Iterable", "Iterator", "Counted"}  # fmt: skip
    assert mentioned - known - set(cloche.__all__) == set()


def test_star_import_gives_the_list():
    names: dict[str, object] = {}
    exec("from cloche import *", names)
    assert set(cloche.__all__) <= set(names)


def test_dir_shows_the_list():
    assert dir(cloche) == sorted(cloche.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        cloche.nonsense  # noqa: B018 - looking it up is the test
    with pytest.raises(ImportError):
        exec("from cloche import nonsense")


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert cloche.__version__ == version("cloche")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import cloche", {"asyncio", "anyio", "trio", "rich", "click", "subprocess", "tomllib", "structlog"}),
        ("import cloche; cloche.create_sandbox", {"asyncio", "anyio", "trio", "rich", "click", "structlog"}),
        ("import cloche; cloche.run('1', backend='native')", {"anyio", "trio", "rich", "click", "importlib.metadata"}),
    ],
)
def test_nothing_is_imported_before_it_is_needed(code, absent):
    script = f"{code}\nimport sys\nprint(*sorted(set(sys.modules) & {absent!r}))"
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_every_module_can_be_imported_alone():
    names = [
        f"{package}.{module.name}"
        for package in ("cloche.session", "cloche.backends")
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__)
    ]
    script = """
import os, sys
for name in sys.argv[1:]:
    if not os.fork():
        __import__(name)
        os._exit(0)
    if os.wait()[1]:
        print(name)
"""
    done = subprocess.run([sys.executable, "-I", "-c", script, *names], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
