"""Writes docs/defaults.md from the code: run it, or build the site, which runs it.

Used by mkdocs as a hook (`on_pre_build`). A test proves that the page in the repository is current.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from cloche.policy import MIB, ExecutionPolicy
from cloche.result import EXIT_CODES

PAGE = Path(__file__).parent / "defaults.md"

_HEAD = """# All defaults

Every limit of a session is a field of `ExecutionPolicy`. This table is generated from the code
(`docs/generate_defaults.py`). Each field can be set in a configuration file, as an environment variable
`CLOCHE_<FIELD>` (except `environment` and `mounts`) and as a keyword of `create_sandbox`; see
[Configuration](configuration.md).

| field | default | smallest | meaning |
|---|---|---|---|
"""
_EXIT_CODES = """
## Exit codes

`SandboxResult.exit_code` by outcome; `exited` carries the status that the code asked for.

| outcome | exit code |
|---|---|
"""


def render() -> str:
    """The page."""
    rows = [_row(item) for item in dataclasses.fields(ExecutionPolicy)]
    codes = [f"| `{outcome}` | {code} |" for outcome, code in EXIT_CODES.items()]
    return _HEAD + "\n".join(rows) + "\n" + _EXIT_CODES + "\n".join(codes) + "\n"


def _row(item: dataclasses.Field[Any]) -> str:
    default = item.default if item.default is not dataclasses.MISSING else {}
    minimum = item.metadata["minimum"]
    smallest = "" if minimum is None else _amount(item.name, minimum)
    return f"| `{item.name}` | {_amount(item.name, default)} | {smallest} | {item.metadata['doc']} |"


def _amount(name: str, value: object) -> str:
    """A number that can be read."""
    if not isinstance(value, int) or isinstance(value, bool):
        return f"`{value!r}`"
    if name.endswith("_bytes") and value >= MIB and value % MIB == 0:
        return f"`{value}` ({value // MIB} MiB)"
    if name.endswith("_ms") and value >= 1000:
        return f"`{value}` ({value / 1000:g} s)"
    return f"`{value}`"


def on_pre_build(config: Any) -> None:  # noqa: ARG001 - the signature that mkdocs calls
    """Refresh the page before the site is built."""
    write()


def write() -> bool:
    """Write the page when it is not current; whether it was written."""
    page = render()
    if PAGE.is_file() and PAGE.read_text("utf-8") == page:
        return False
    PAGE.write_text(page, "utf-8")
    return True


if __name__ == "__main__":
    write()
    sys.exit(0)
