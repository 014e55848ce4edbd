"""The options by which commands choose a sandbox, and the sandbox they choose."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cloche.cli.inputs import Placement, parse_placement, read_context
from cloche.cli.quantities import NO_LIMIT, Duration, Size
from cloche.errors import BackendUnavailableError, RequestError

if TYPE_CHECKING:
    from cloche.sandbox import SessionSandbox

F = TypeVar("F", bound=Callable[..., Any])

_TIERS = ("none", "process", "confined", "sealed", "metered")


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user chose; None where nothing was said, so that configuration counts."""

    backend: str | None = None
    python: str | None = None
    timeout: int | None = None
    memory: int | None = None
    max_output: int | None = None
    min_isolation: str | None = None
    workspace: str | None = None
    env: tuple[str, ...] = ()
    mount: tuple[str, ...] = ()
    context: str | None = None
    file: tuple[str, ...] = ()

    def sandbox(self, **more: Any) -> SessionSandbox:
        """A sandbox of that kind; nothing is started yet. `more` goes to `create_sandbox` as it is."""
        from cloche.cli.config_note import tell_config_file
        from cloche.factory import create_sandbox

        tell_config_file()
        if self.python is not None:
            _refuse_missing_interpreter(self.python)
        given: dict[str, Any] = {
            "backend": self.backend,
            "python": self.python,
            "workspace": self.workspace,
            "timeout_ms": self.timeout,
            "minimum_isolation": self.min_isolation,
        }
        if self.max_output is not None:
            given |= {"max_output_length": self.max_output, "stdout_max_bytes": 4 * self.max_output + 64}
            given |= {"stderr_max_bytes": given["stdout_max_bytes"]}
        given = {name: value for name, value in given.items() if value is not None}
        if self.memory is not None:
            given["memory_bytes"] = None if self.memory == NO_LIMIT else self.memory
        if self.env:
            given["environment"] = self._environment()
        if self.mount:
            given["mounts"] = self.mount
        try:
            sandbox = create_sandbox(**{**given, **more})
            _set_up(sandbox.backend)
            _tell_passed_over(sandbox.passed_over.get("daemon"))
            return sandbox
        except TypeError as exc:  # an option in the configuration file that this backend does not have
            raise RequestError(str(exc), remedy="cloche config shows the file in effect") from None

    def _environment(self) -> dict[str, str]:
        from cloche.config import load_config

        environment = dict(load_config().policy.environment)
        for item in self.env:
            name, equals, value = item.partition("=")
            if not name or "\0" in item:
                raise RequestError(f"--env {item!r} is not NAME=VALUE", remedy="--env NAME=VALUE")
            if not equals:
                if name not in os.environ:
                    raise RequestError(f"--env {name}: there is no such variable here", remedy=f"--env {name}=VALUE")
                value = os.environ[name]
            environment[name] = value
        return environment

    def placements(self) -> list[Placement]:
        """The files to put in, checked before anything starts."""
        return [placed for item in self.file for placed in parse_placement(item)]

    def furnish(self, sandbox: SessionSandbox, placements: list[Placement]) -> None:
        """Put the files in and bind the context."""
        for placement in placements:
            sandbox.put_file(placement.target, placement.read())
        if self.context is not None:
            sandbox.initialize(read_context(self.context))


def _tell_passed_over(reason: str | None) -> None:
    """A daemon that runs and cannot serve is worth a word; most people run none."""
    from cloche.cli.terminal import Terminal

    if reason is not None and reason.startswith("the daemon"):
        Terminal().note(f"auto passes over daemon: {reason}")


def _set_up(backend: str) -> None:
    """A first session would do it too, but in silence and within its deadline."""
    from cloche.cli.terminal import Terminal
    from cloche.factory import find_backend

    find_backend(backend).set_up(lambda step: Terminal().note(f"{backend}: {step} ..."))


def _refuse_missing_interpreter(python: str) -> None:
    """A wrong path is the user's mistake; a machine without any Python is not."""
    from cloche.backends.interpreter import locate

    try:
        locate(python)
    except BackendUnavailableError as exc:
        raise RequestError(
            exc.message, remedy="--python takes a path or a name on PATH, of version 3.8 or later"
        ) from None


_OPTIONS = (
    click.option("--backend", "-b", metavar="NAME", help="auto (default), native, ...; cloche doctor lists them."),
    click.option("--python", metavar="PATH", help="The interpreter that runs the code, 3.8 or later."),
    click.option("--timeout", "-t", type=Duration(), metavar="TIME", help="Deadline: 500 (ms), 500ms, 2s, 1m."),
    click.option("--memory", "-m", type=Size(), metavar="SIZE", help="Memory of the guest: 256M, 2G, none."),
    click.option("--max-output", type=Size(), metavar="SIZE", help="Characters kept of each stream: 50000, 10M."),
    click.option(
        "--min-isolation",
        type=click.Choice(_TIERS, case_sensitive=False),
        help="Refuse to run behind a weaker wall than this.",
    ),
    click.option(
        "--workspace",
        "-w",
        type=click.Path(exists=True, file_okay=False),
        metavar="DIR",
        help="Work in this folder. Default: a private one, removed at the end.",
    ),
    click.option("--env", "-e", multiple=True, metavar="NAME[=VALUE]", help="A variable for the guest (repeatable)."),
    click.option(
        "--mount",
        multiple=True,
        metavar="SRC:DEST[:rw]",
        help="Show a folder or file at DEST, below /mnt, /data, /srv or /media (repeatable).",
    ),
    click.option("--context", metavar="FILE", help="Text to bind as `context` (UTF-8, unchanged; - reads stdin)."),
    click.option(
        "--file",
        "-f",
        multiple=True,
        metavar="SRC[:DEST]",
        help="Put a file or folder into the workspace (repeatable).",
    ),
)

NAMES = tuple(Choices.__dataclass_fields__)


_OF_THE_WALL = ("backend", "python", "memory", "min_isolation", "env", "mount")


def sandbox_options(command: F) -> F:
    """Give a command all options that choose a sandbox; it receives them as `choices`."""
    return _with_options(command, NAMES)


def wall_options(command: F) -> F:
    """Give a command those that choose where code runs, but not what it is given."""
    return _with_options(command, _OF_THE_WALL)


def _with_options(command: F, names: tuple[str, ...]) -> F:
    import functools

    @functools.wraps(command)
    def with_choices(**given: Any) -> Any:
        return command(choices=Choices(**{name: given.pop(name) for name in names}), **given)

    wrapped: Any = with_choices
    for name, option in reversed(list(zip(NAMES, _OPTIONS, strict=True))):
        if name in names:
            wrapped = option(wrapped)
    result: F = wrapped
    return result


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")

folder_for_results = click.option(
    "--out", "-o", type=click.Path(path_type=Path), metavar="DIR", help="Keep results in this new or empty folder."
)

session_option = click.option(
    "--session", metavar="NAME", help="Work in this session: it is brought back, and saved after each cell."
)
store_option = click.option(
    "--store", metavar="URL", help="Where sessions are kept: sqlite:///DIR, redis://HOST/0, s3://BUCKET/PREFIX."
)
