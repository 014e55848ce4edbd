"""The root command, and the border at which every failure becomes a message and an exit code."""

from __future__ import annotations

import codecs
import errno
import importlib
import os
import sys

import click

from cloche import __version__
from cloche.cli.failure import CODE_FAILED, INTERRUPTED, READER_GONE, USER_ERROR, exit_code_for, report
from cloche.cli.terminal import OutputLost, ReaderGone
from cloche.errors import ClocheError, RequestError

COMMANDS = {
    "run": "Run a file or a line of Python in a sandbox.",
    "repl": "Work with a live session, line by line.",
    "session": "Sessions that last: list, show, save, load, rm.",
    "replay": "Run a session's cells again and report the first that differs.",
    "setup": "Fetch and build what a backend needs, ahead of its first session.",
    "doctor": "Show what this machine can do, and how to get the rest.",
    "demo": "A guided tour that really runs.",
    "escapes": "Try every known way out of a sandbox.",
    "daemon": "Start, stop and look at the daemon: one warm pool for all your processes.",
    "ps": "List the sessions of this machine.",
    "clean": "Remove what a crash left behind.",
    "config": "Show the settings in effect and where each comes from.",
}
"""Each is `command` in the module of its name. The sentences stand here so that --help imports none of them."""
_LENIENT = "cloche.lenient"
_SIGNS = {"─": "-", "✓": "+", "✗": "x", "→": "->", "…": "..."}
"""What this command draws, for terminals that know only ASCII."""


class LazyGroup(click.Group):
    """Imports a subcommand when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"cloche.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"cloche {near[0]}" if near else "cloche --help lists the commands"
            if os.path.isfile(args[0]):
                hint = f"cloche run {args[0]}"
            raise RequestError(f"there is no command {args[0]!r}", remedy=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        version = ".".join(map(str, sys.version_info[:3]))
        click.echo(f"cloche {__version__} (Python {version})")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 the request was wrong, 2 the code or the run failed, 130 cancelled.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
@click.pass_context
def root(ctx: click.Context) -> None:
    """Runs Python that a language model wrote: sealed, warm, and in view."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def invoke(arguments: list[str]) -> int:
    """Run the command and return its exit code. No failure leaves here as a traceback."""
    _be_lenient_with_odd_characters()
    as_json = "--json" in arguments
    try:
        if "_CLOCHE_COMPLETE" in os.environ:  # a shell asks for completions, in click's own protocol
            root.main(prog_name="cloche")
        with root.make_context("cloche", list(arguments)) as context:
            returned = root.invoke(context)
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except click.ClickException as exc:
        report(_as_request_error(exc), as_json=as_json)
        return USER_ERROR
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        _drop_output()
        return READER_GONE
    except OutputLost as exc:
        _drop_output()
        report(exc, as_json=False)
        return exit_code_for(exc)
    except ClocheError as exc:
        report(exc, as_json=as_json)
        return exit_code_for(exc)
    except Exception as exc:  # the last border: a user gets a message, whatever we did wrong
        if os.environ.get("CLOCHE_DEBUG"):
            raise
        report(_as_internal_error(exc), as_json=as_json)
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            _drop_output()
        return CODE_FAILED
    return returned if isinstance(returned, int) else 0


def _drop_output() -> None:
    """The interpreter flushes once more on its way out, and must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _as_request_error(exc: click.ClickException) -> RequestError:
    remedy = None
    if isinstance(exc, click.UsageError) and exc.ctx is not None:
        remedy = f"{exc.ctx.command_path} --help"
    return RequestError(exc.format_message().rstrip("."), remedy=remedy)


def _as_internal_error(exc: Exception) -> ClocheError:
    if isinstance(exc, OSError):
        place = exc.filename if isinstance(exc.filename, str) else None
        return ClocheError("the machine refused", cause=str(exc), remedy=_what_to_look_at(exc, place))
    return ClocheError(
        "something unforeseen went wrong in Cloche itself",
        cause=f"{type(exc).__name__}: {exc}",
        remedy="set CLOCHE_DEBUG=1 for the whole story, and please report it",
    )


def _what_to_look_at(exc: OSError, place: str | None) -> str | None:
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"make room: df -h {os.path.dirname(place) or '.'}" if place else "make room where the output goes: df -h"
        )
    if exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and place:
        return f"see who may use it: ls -ld {place}"
    return None


def _be_lenient_with_odd_characters() -> None:
    """A terminal that cannot show a character shows its number; it is no reason to fail."""
    codecs.register_error(_LENIENT, _nearest)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_LENIENT)


def _nearest(exc: UnicodeError) -> tuple[str | bytes, int]:
    """Signs of our own as letters, all else by number."""
    if isinstance(exc, UnicodeEncodeError) and exc.object[exc.start] in _SIGNS:
        return _SIGNS[exc.object[exc.start]], exc.start + 1
    return codecs.backslashreplace_errors(exc)
