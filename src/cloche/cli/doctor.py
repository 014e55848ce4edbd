"""``cloche doctor``: what this machine can do, layer by layer, and the command that gets the rest."""

from __future__ import annotations

import json
import platform
import re
import sys
from importlib import metadata
from typing import IO, TYPE_CHECKING, Any

import click

from cloche import __version__
from cloche.cli.config_note import tell_config_file
from cloche.cli.failure import CODE_FAILED
from cloche.cli.options import json_option
from cloche.cli.terminal import neutralise, people_console, write_json
from cloche.config import find_config_file, load_config
from cloche.errors import ClocheError
from cloche.factory import choose_backend, find_backend, probe_backends
from cloche.guarantees import sentences_of
from cloche.paths import cache_dir, sessions_dir

if TYPE_CHECKING:
    from cloche.session.channel import Availability

TEST_BACKEND = "fake"
"""Always there, and no wall: it does not make a machine fit."""

EXTRAS = {
    "log": "structured log events through structlog",
    "pyodide": "the pyodide wall, which runs in Deno",
    "redis": "sessions and other state in a Redis server",
    "restricted": "guard-rails by RestrictedPython, for the inprocess backend",
    "repl": "the workbench: grep in linear time, and counted tokens",
    "s3": "sessions and other state in a bucket",
    "wasm": "the wasm wall: wasmtime, and componentize-py to build its guest",
}
"""What each optional extra is for; those for development are left out."""

_DEVELOPMENT = ("dev", "docs", "bench")


@click.command()
@click.option("--python", metavar="PATH", help="Ask about this interpreter.")
@click.option("--preload", is_flag=True, help="Also import what sessions find imported, and say what is broken.")
@click.option(
    "--seccomp-profile", "profile", metavar="FILE", type=click.File("rb"),
    help="Only print this seccomp profile of a container engine with what the jail needs added (- for standard input).",
)  # fmt: skip
@json_option
def command(python: str | None, preload: bool, profile: IO[bytes] | None, as_json: bool) -> int:
    """Show every backend and isolation layer: there or not, why, and what to type to get it."""
    if profile is not None:
        write_json(_extended(profile.read()))
        return 0
    findings = examine(python, preload=preload)
    if as_json:
        write_json(findings)
    else:
        _show(findings)
    return 0 if findings["ok"] else CODE_FAILED


def _extended(text: bytes) -> dict[str, Any]:
    from cloche.backends.jail.container_profile import extend_profile

    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return extend_profile(found)


def examine(python: str | None = None, *, preload: bool = False) -> dict[str, Any]:
    """Everything there is to know, as plain data. `preload`: also what takes its time to find out."""
    tell_config_file()
    config = load_config()
    options = {**config.options}
    if python or config.python:
        options["python"] = python or config.python
    backends = {name: _backend(name, found) for name, found in probe_backends(**options).items()}
    if preload:
        for name in [name for name, found in backends.items() if found["available"]]:
            backend = find_backend(name)
            known = {key: value for key, value in options.items() if key in backend.options}
            backends[name]["details"] |= backend.look_closer(config.policy, **known)
    auto = _auto(config.policy, options)
    file = find_config_file()
    return {
        "version": __version__,
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "platform": platform.platform(),
        "folders": {"cache": _folder(cache_dir), "sessions": _folder(sessions_dir)},
        "config_file": str(file) if file else None,
        "configured_backend": config.backend,
        "backends": backends,
        "auto": auto,
        "extras": _extras(),
        "ok": auto["backend"] is not None or backends.get(config.backend or "", {}).get("available", False),
    }


def _backend(name: str, found: Availability) -> dict[str, Any]:
    tier = found.isolation if found.available else None
    return {
        "guarantees": None if tier is None else sentences_of(name, tier),
        "available": found.available,
        "reason": found.reason or None,
        "remedy": found.remedy or None,
        "isolation": None if found.isolation is None else found.isolation.name,
        "layers": [
            {"name": layer.name, "active": layer.active, "purpose": layer.purpose, "remedy": layer.remedy}
            for layer in found.layers
        ],
        "details": dict(found.details),
    }


def _folder(locate: Any) -> dict[str, Any]:
    try:
        return {"path": str(locate()), "trouble": None}
    except (OSError, ClocheError) as exc:
        return {"path": None, "trouble": str(exc)}


def _auto(policy: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What `auto` would choose, and why the others before it were passed over."""
    try:
        chosen, skipped = choose_backend(policy, options)
    except ClocheError as exc:
        return {"backend": None, "skipped": {}, "reason": exc.cause or exc.message, "remedy": exc.remedy}
    return {"backend": chosen.name, "skipped": skipped, "reason": None, "remedy": None}


def _extras() -> dict[str, dict[str, Any]]:
    """Optional parts by the names in the package's own metadata."""
    needed: dict[str, list[str]] = {}
    for requirement in metadata.requires("cloche") or ():
        found = re.match(r"([\w.-]+).*;.*extra == ['\"]([\w.-]+)['\"]", requirement)
        if found is not None and found[2] not in _DEVELOPMENT:
            needed.setdefault(found[2], []).append(found[1])
    return {
        extra: {
            "installed": all(map(_installed, packages)),
            "purpose": EXTRAS.get(extra, ", ".join(packages)),
            "remedy": f"pip install 'cloche[{extra}]'",
        }
        for extra, packages in needed.items()
    }


def _installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


class _Page:
    """Lines for a person. What was found on the machine cannot write anything but text."""

    def __init__(self) -> None:
        self._console = people_console()

    def say(self, text: str, style: str = "", indent: int = 0) -> None:
        from rich.text import Text

        self._console.print(Text(" " * indent + neutralise(text), style=style), soft_wrap=True)

    def mark(self, good: bool, text: str, indent: int = 0) -> None:
        from rich.text import Text

        line = Text(" " * indent)
        line.append("✓ " if good else "✗ ", style="green" if good else "red")
        self._console.print(line.append(neutralise(text)), soft_wrap=True)


def _show(findings: dict[str, Any]) -> None:
    page = _Page()
    say = page.say
    python = findings["python"]
    say(f"Cloche {findings['version']}, Python {python['version']} ({python['executable']})", "bold")
    say(findings["platform"])
    for name, folder in findings["folders"].items():
        say(f"{name}: {folder['path'] or folder['trouble']}")
    say(f"configuration file: {findings['config_file'] or 'none'}")
    for name, backend in findings["backends"].items():
        say("")
        _show_backend(page, name, backend)
    say("")
    for name, extra in findings["extras"].items():
        remedy = "" if extra["installed"] else f" ({extra['remedy']})"
        page.mark(extra["installed"], f"extra {name}: {extra['purpose']}{remedy}")
    say("")
    _show_choice(page, findings)


def _show_backend(page: _Page, name: str, backend: dict[str, Any]) -> None:
    tier = f", isolation {backend['isolation']}" if backend["isolation"] else ""
    page.mark(backend["available"], f"{name}{tier}" + (" (for tests)" if name == TEST_BACKEND else ""))
    if not backend["available"]:
        page.say(f"why: {backend['reason']}", indent=4)
        if backend["remedy"]:
            page.say(f"remedy: {backend['remedy']}", indent=4)
    if backend["details"]:
        page.say(", ".join(f"{key} {value}" for key, value in backend["details"].items()), indent=4)
    for layer in backend["layers"]:
        page.mark(layer["active"], f"{layer['name']}: {layer['purpose']}", indent=4)
        if not layer["active"] and layer["remedy"]:
            page.say(f"remedy: {layer['remedy']}", indent=8)


def _show_choice(page: _Page, findings: dict[str, Any]) -> None:
    say, auto = page.say, findings["auto"]
    for name, reason in auto["skipped"].items():
        say(f"auto passes over {name}: {reason}")
    configured = findings["configured_backend"]
    if configured not in (None, "auto"):
        known = "" if configured in findings["backends"] else ", which does not exist"
        say(f"the configuration names {configured}{known}; auto is not asked", "bold" if not known else "bold red")
    if auto["backend"]:
        say(f"auto chooses {auto['backend']}", "bold green")
        _show_guarantees(page, findings["backends"][auto["backend"]])
    else:
        say(f"auto finds no backend: {auto['reason']}", "bold red")


def _show_guarantees(page: _Page, backend: dict[str, Any]) -> None:
    """What a session there is kept from, as SECURITY.md has it, with what proves each."""
    told = backend["guarantees"] or {"kept": [], "not_kept": []}
    if told["kept"]:
        page.say("which holds against code that tries to")
    for kept, sentences in ((True, told["kept"]), (False, told["not_kept"])):
        for sentence in sentences:
            page.mark(kept, sentence, indent=4)
