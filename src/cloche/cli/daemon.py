"""``cloche daemon``: one warm house for all processes of a user."""

from __future__ import annotations

import os

import click

from cloche import __version__
from cloche.cli.options import json_option
from cloche.cli.terminal import neutralise, people_console, write_json
from cloche.errors import MachineError

LOG_LINES = 50


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """One warm pool of sessions for all your processes: start, stop, status, logs."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command()
@click.option(
    "--pool-size", type=click.IntRange(1), metavar="N", default=64, show_default=True, help="Live sessions at once."
)
@click.option(
    "--idle-exit",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="End when nobody has come for so long.",
)
@click.option("--foreground", "-f", is_flag=True, help="Stay in this terminal.")
@json_option
def start(pool_size: int, idle_exit: float | None, foreground: bool, as_json: bool) -> int:
    """Start the daemon; returns when it answers."""
    from cloche.backends.daemon.places import Places
    from cloche.daemon import lifecycle

    arguments = ["--pool-size", str(pool_size)]
    if idle_exit is not None:
        arguments += ["--idle-exit", str(idle_exit)]
    places = Places.default()
    if foreground:
        if "LISTEN_FDS" not in os.environ:  # whoever passes a socket knows whose it is
            pid = lifecycle.recorded_pid(places)
            lifecycle.refuse_second(lifecycle.Status(pid is not None, pid, True))
        lifecycle.become(places, arguments)
    pid = lifecycle.start(places, arguments)
    if as_json:
        write_json({"pid": pid, "socket": str(places.socket)})
    else:
        people_console().print(f"the daemon runs (pid {pid}, {neutralise(str(places.socket))})")
    return 0


@command.command()
@click.option("--force", is_flag=True, help="Kill it at once; running cells are lost.")
@json_option
def stop(force: bool, as_json: bool) -> int:
    """Stop the daemon; running cells may end first."""
    from cloche.backends.daemon.places import Places
    from cloche.daemon import lifecycle

    pid = lifecycle.stop(Places.default(), force=force)
    if as_json:
        write_json({"stopped": pid})
    else:
        people_console().print("no daemon runs" if pid is None else f"the daemon has ended (pid {pid})")
    return 0


@command.command()
@json_option
def status(as_json: bool) -> int:
    """Whether it runs, whether it answers, and how full it is. Exit code 1 when it does not."""
    from cloche.backends.daemon.places import Places
    from cloche.daemon import lifecycle

    places = Places.default()
    found = lifecycle.status(places)
    details = found.details or {}
    if as_json:
        write_json({"running": found.running, "responsive": found.responsive, "pid": found.pid,
                    "socket": str(places.socket), **details})  # fmt: skip
        return 0 if found.responsive else 1
    console = people_console()
    if not found.running:
        console.print("no daemon runs; next: cloche daemon start")
    elif not found.responsive:
        console.print(f"a daemon runs (pid {found.pid}) and does not answer; next: cloche daemon stop --force")
    else:
        console.print(f"running (pid {found.pid}) for {details['uptime']:.0f} s on {neutralise(str(places.socket))}")
        if details.get("version") != __version__:
            console.print(f"it is of version {details.get('version')}, and this is {__version__}; "
                          "next: cloche daemon stop && cloche daemon start")  # fmt: skip
        console.print(f"wall: {details.get('isolation', 'none: ' + str(details.get('trouble')))}")
        for name, value in details.get("pool", {}).items():
            console.print(f"{name}: {value}")
    return 0 if found.responsive else 1


@command.command()
@click.option(
    "--lines", "-n", type=click.IntRange(1), metavar="N", default=LOG_LINES, show_default=True, help="How many."
)
@json_option
def logs(lines: int, as_json: bool) -> int:
    """Show the end of the daemon's log."""
    from cloche.backends.daemon.places import Places

    path = Places.default().log
    try:
        text = path.read_text(errors="replace")
    except OSError as exc:
        raise MachineError(f"{path} cannot be read", cause=exc.strerror, remedy="cloche daemon start") from None
    shown = text.splitlines()[-lines:]
    if as_json:
        write_json({"log": str(path), "lines": shown})
        return 0
    for line in shown:
        click.echo(neutralise(line))
    return 0
