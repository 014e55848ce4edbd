"""The pytest plugin: `cloche_sandbox`, a fresh sandbox for a test, and ``--backend`` to choose its backend.

It is active wherever Cloche is installed, so it must not be felt there: nothing of Cloche is imported before
a test asks for a fixture, and ``--backend`` is taken only when no other plugin and no conftest has an option
of that name (``--cloche-backend`` always works).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from cloche.sandbox import SessionSandbox

LONG_NAME = "--cloche-backend"
SHORT_NAME = "--backend"
_DESTINATION = "cloche_backends"

pytest.register_assert_rewrite("cloche.conformance")  # what a failed behaviour compared is to be seen


def chosen_backends(config: pytest.Config) -> tuple[str, ...]:
    """The backends named on the command line, in order; one option may name several, with commas."""
    words: list[str] = config.getoption(_DESTINATION, None) or []
    names = [name.strip() for word in words for name in word.split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the option under the name that is ours alone."""
    _add_option(parser, LONG_NAME)


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None, None, None]:
    """Register the short name when everybody else has had his turn."""
    yield
    if _is_free(parser, SHORT_NAME):
        _add_option(parser, SHORT_NAME)


def _add_option(parser: pytest.Parser, name: str) -> None:
    parser.getgroup("cloche", "sandboxes for model-written code").addoption(
        name,
        action="append",
        dest=_DESTINATION,
        metavar="NAME[,NAME]",
        help="backend of the cloche_sandbox fixture and of cloche.conformance; may be given several times",
    )


def _is_free(parser: pytest.Parser, name: str) -> bool:
    word = f"{name}=native"
    try:
        _, unknown = parser.parse_known_and_unknown_args([word])
    except (Exception, SystemExit):  # noqa: BLE001 - somebody's option that does not take this value
        return False
    return word in unknown


def pytest_configure(config: pytest.Config) -> None:
    """Make the markers of `cloche.conformance` known."""
    config.addinivalue_line("markers", "cloche_needs(*capabilities): a behaviour that only some backends can have")
    config.addinivalue_line("markers", "cloche_only(api): a behaviour of the sync or of the async API alone")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each backend that was named."""
    names = chosen_backends(metafunc.config)
    if names and "cloche_backend" in metafunc.fixturenames and "cloche_api" not in metafunc.fixturenames:
        metafunc.parametrize("cloche_backend", names)


@pytest.fixture
def cloche_backend() -> str:
    """Name of the backend that this test runs on: what ``--backend`` says, or ``auto``."""
    return "auto"


@pytest.fixture
def cloche_sandbox(cloche_backend: str) -> Iterator[SessionSandbox]:
    """A fresh sandbox, destroyed when the test is over. Nothing is started before it is used."""
    from cloche.factory import create_sandbox

    with create_sandbox(backend=cloche_backend) as sandbox:
        yield sandbox
