"""``python -I -S compile.py COMPONENT COMPILED PATH...``: compile a guest, try it out, print what was found as JSON."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> None:
    """Leaves the compiled guest where it was wanted."""
    component, compiled, *path = arguments
    sys.path += path
    from cloche.backends.wasm.worker.trial import compile_component, is_module, try_out

    compile_component(component, compiled)
    import json

    facts = {"python": None, "trigger": None} if is_module(component) else try_out(compiled)
    print(json.dumps(facts))  # noqa: T201 - the host reads it


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file: its names are not for everybody
    main(sys.argv[1:])
