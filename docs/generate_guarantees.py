"""Writes the tables of guarantees into SECURITY.md: run it after a change to `cloche.guarantees`.

A test proves that the page in the repository is current.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cloche.guarantees import ATTEMPTS, GUARANTEES, Guarantee

PAGE = Path(__file__).parent.parent / "SECURITY.md"
BEGIN = "<!-- made by docs/generate_guarantees.py -->"
END = "<!-- end of what was made -->"
_WALLS = ("jail", "wasm", "pyodide", "native")


def render() -> str:
    """The tables."""
    parts = [BEGIN]
    for wall in _WALLS:
        rows = [found for found in GUARANTEES if found.wall == wall]
        parts.append(
            f"### `{wall}`\n\n| the code tries to | tier | guaranteed | by | proved by |\n|---|---|---|---|---|\n"
            + "\n".join(map(_row, sorted(rows, key=_place)))
        )
    return "\n\n".join([*parts, END])


def _place(found: Guarantee) -> tuple[int, int]:
    return list(ATTEMPTS).index(found.attempt), -max(found.tiers)


def _row(found: Guarantee) -> str:
    tiers = ", ".join(f"`{tier.name}`" for tier in sorted(found.tiers, reverse=True))
    layers = ", ".join(found.layers) or "-"
    proofs = ", ".join(f"`{_address(proof)}`" for proof in found.proofs) or "-"
    return f"| {ATTEMPTS[found.attempt]} | {tiers} | {found.holds} | {layers} | {proofs} |"


def _address(proof: str) -> str:
    """A technique as it is; a test by its file, which names it."""
    if "::" not in proof:
        return proof
    return proof if proof.startswith("conformance/") else f"tests/{proof}"


def page() -> str:
    """SECURITY.md with the tables as they should be."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    return before + render() + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.exit(0)
