"""Makes one code object of the whole guest, for the interpreter that runs this.

As a program, it has two uses. ``python -I -S bundle.py run [options]`` starts the guest from source. ``python -I -S
bundle.py describe`` prints, as one JSON line, what the host needs to know about this interpreter, followed by the
marshalled bundle: the host keeps it and starts later guests from it, at half the cost. That runs as the host, so
nothing of site-packages is run: a guest may have been able to write there.

All modules are compiled under one file name that is no path: no traceback can show where the guest lies, and the
interrupt handler can tell kernel frames from the user's. Modules that work on the user's data and keep no state of
the kernel's have another such name: they may be interrupted anywhere. None of them stays in `sys.modules`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

# Order of dependence: each imports only those before it.
MODULES = (
    "codes",
    "environment",
    "plain_json",
    "signals",
    "values",
    "wire",
    "capture",
    "imports",
    "namespace",
    "cells",
    "context_tools",
    "tracebacks",
    "bridges",
    "rich_forms",
    "notebook",
    "display",
    "cell_objects",
    "pickling",
    "pieces",
    "state",
    "c_library",
    "preloads",
    "text_state",
    "text_methods",
    "runner",
    "versions",
    "looks",
    "workbench",
    "resources",
    "variables",
    "kernel",
    "rehearsal",
    "start",
)
ZYGOTE_MODULES = (
    "jail",
    "jail.places",
    "jail.foreign",
    "jail.syscalls",
    "jail.landlock",
    "jail.filter",
    "jail.replaced_modules",
    "jail.shared_user",
    "jail.counted_memory",
    "jail.messages",
    "jail.preload",
    "jail.branches",
    "jail.prepared",
    "jail.worker",
    "jail.template",
    "jail.zygote",
)
CONFINED_MODULES = (
    "jail.confined_filter",
    "jail.task_quota",
    "jail.attributes",
    "jail.confinement",
    "jail.keeper",
    "jail.confined",
)
WASM_MODULES = (
    "wasm",
    "wasm.link",
    "wasm.console",
    "wasm.library",
    "wasm.waiting",
    "wasm.session",
    "wasm.start",
)
REPL_MODULES = ("repl_frames", "repl_files", "repl_front", "repl_service")
GUARDED_MODULES = ("guarded", "guarded.refusals")
RESTRICTED_MODULES = (
    "guarded.members",
    "guarded.objects",
    "guarded.builtins",
    "guarded.policy",
    "guarded.restricted",
)
FLAVOURS = {
    "checked": ((*MODULES, *GUARDED_MODULES, "guarded.start"), "guarded.start", (), "guarded.start"),
    "guest": (MODULES, "start", (), "start"),
    "jail": (MODULES + ZYGOTE_MODULES, "jail.zygote", CONFINED_MODULES, "jail.confined"),
    "pyodide": ((*MODULES, "idle_loop", "pyodide"), "pyodide", (), "pyodide"),
    "repl": (MODULES + REPL_MODULES, "repl_service", (), "repl_service"),
    "restricted": (
        (*MODULES, *GUARDED_MODULES, *RESTRICTED_MODULES, "guarded.restricted_start"),
        "guarded.restricted_start",
        (),
        "guarded.restricted_start",
    ),
    "stock": ((*MODULES, "wasm", "wasm.session", "wasm.stock"), "wasm.stock", (), "wasm.stock"),
    "wasm": ((*MODULES, "idle_loop", *WASM_MODULES), "wasm.start", (), "wasm.start"),
}
"""What is loaded, with the module whose `main` is then called; and what in addition when started with `CONTROL`."""
CONTROL = "--control"
MAX_PTH_SIZE = 1 << 20
PACKAGES = ("guarded", "jail", "wasm")
KERNEL_FILE = "<cloche>"
DATA_FILE = "<cloche data>"
INTERRUPTIBLE = (
    "values", "context_tools", "rich_forms", "notebook", "display", "cell_objects", "pickling", "pieces", "state",
    "text_state", "looks", "guarded.objects", "guarded.builtins",
)  # fmt: skip
DOCUMENTED = ("bridges", "context_tools", "notebook", "display", "looks", "workbench")

LATER = (
    "rich_forms", "notebook", "cell_objects", "pickling", "pieces", "state", "c_library", "preloads", "text_state",
    "text_methods", "versions", "looks", "workbench",
)  # fmt: skip
"""Made when something of them is first asked for, where a session pays for its own start. Whoever uses them imports the
module and not what is in it."""

BOOT = """
def boot(parts, entry):
    import marshal, sys

    def put_off(module, code):
        def find(name):
            if name[:2] == "__":
                raise AttributeError(name)
            others = {key: sys.modules[key] for key in modules if key in sys.modules}
            sys.modules.update(modules)
            try:
                exec(marshal.loads(code), module.__dict__)
            finally:
                for key in modules:
                    del sys.modules[key]
                sys.modules.update(others)
            module.__dict__.pop("__getattr__", None)
            return module.__dict__[name]
        module.__getattr__ = find

    kind = type(sys)
    package = kind("cloche_guest")
    package.__path__ = []
    modules = {"cloche_guest": package}
    sys.modules["cloche_guest"] = package
    for name, code in parts:
        module = kind("cloche_guest." + name)
        module.__path__ = []
        modules["cloche_guest." + name] = sys.modules["cloche_guest." + name] = module
        if type(code) is bytes:
            put_off(module, code)
        else:
            exec(code, module.__dict__)
        parent, _, last = name.rpartition(".")
        setattr(modules["cloche_guest." + parent] if parent else package, last, module)
    for name in modules:
        del sys.modules[name]
    modules["cloche_guest." + entry].main(sys.argv)
"""

START = """%s
import marshal, sys
parts, entry = marshal.loads(%r), %r
if %r in sys.argv:
    parts, entry = parts + marshal.loads(%r), %r
boot(parts, entry)
"""


def compile_part(folder: str, name: str) -> CodeType:
    """One module without its ``__future__`` import (a flag says the same and costs nothing).

    Docstrings are kept only where users can ask for them with `help()`.
    """
    import __future__

    filename = DATA_FILE if name in INTERRUPTIBLE else KERNEL_FILE
    path = folder + "/" + name.replace(".", "/")
    with open(path + ("/__init__.py" if name in PACKAGES else ".py"), encoding="utf-8") as handle:
        source = handle.read()
    tree: Any = compile(source, filename, "exec", 0x400, True)  # an ast.Module, without importing ast
    tree.body = [node for node in tree.body if getattr(node, "module", None) != "__future__"]
    code: CodeType = compile(
        tree, filename, "exec", __future__.annotations.compiler_flag, True, 1 if name in DOCUMENTED else 2
    )
    return code


def build(folder: str, flavour: str = "guest") -> CodeType:
    """A code object that starts the guest when it is run."""
    import marshal

    names, entry, more_names, other_entry = FLAVOURS[flavour]
    later = LATER if flavour == "guest" else ()
    compiled = ((name, compile_part(folder, name)) for name in names)
    parts = marshal.dumps(tuple((name, marshal.dumps(code) if name in later else code) for name, code in compiled))
    more = marshal.dumps(tuple((name, compile_part(folder, name)) for name in more_names))
    text = START % (BOOT, parts, entry, CONTROL, more, other_entry)
    return compile(text, KERNEL_FILE, "exec", 0, True, 2)


def main(argv: list[str]) -> None:
    """See the module's text."""
    folder = __file__.rpartition("/")[0] or "."
    flavour = argv[2] if len(argv) > 2 and argv[2] in FLAVOURS else "guest"
    if argv[1] == "run":
        sys.argv = argv[:1] + argv[2 + (argv[2:3] == [flavour]) :]
        exec(build(folder, flavour), {"__name__": "__main__"})
        return
    import marshal

    line, code = describe_interpreter(), marshal.dumps(build(folder, flavour))
    sys.stdout.buffer.write(line.encode("ascii") + b"\n" + code)


def describe_interpreter() -> str:
    """What the host cannot see from outside: version, real path, search path."""
    import importlib.util
    import json

    add_site_paths()
    return json.dumps(
        {
            "version": list(sys.version_info[:3]),
            "implementation": sys.implementation.name,
            "executable": sys.executable,
            "base_executable": getattr(sys, "_base_executable", sys.executable),
            "path": [entry for entry in sys.path if entry and entry != __file__.rpartition("/")[0]],
            "prefix": sys.prefix,
            "base_prefix": sys.base_prefix,
            "exec_prefix": sys.exec_prefix,
            "magic": importlib.util.MAGIC_NUMBER.hex(),
        }
    )


def add_site_paths() -> None:
    """What `site` would make of prefixes and search path, with ``.pth`` files read as data and nothing imported."""
    import site

    def read_lines(sitedir: str, name: str, known_paths: set[str] | None) -> set[str] | None:
        known = sys.path if known_paths is None else known_paths
        for folder in listed_folders(sitedir, name):
            if folder not in known:
                sys.path.append(folder)
                if known_paths is not None:
                    known_paths.add(folder)
        return known_paths

    changed: Any = site
    if not sys.flags.no_site or not hasattr(changed, "addpackage"):
        return  # it has run already, or is one whose files cannot be read as data
    changed.addpackage = read_lines
    changed.execsitecustomize = changed.execusercustomize = lambda: None
    site.main()


def listed_folders(sitedir: str, name: str) -> list[str]:
    """Folders that a ``.pth`` file names. Its lines of code are left out."""
    import os

    try:
        descriptor = os.open(os.path.join(sitedir, name), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            text = os.read(descriptor, MAX_PTH_SIZE).decode("utf-8-sig", "replace")
        finally:
            os.close(descriptor)
    except OSError:
        return []
    lines = (line.rstrip() for line in text.split("\n"))
    named = (line for line in lines if line and not line.startswith(("#", "import ", "import\t")) and "\0" not in line)
    folders = (os.path.abspath(os.path.join(sitedir, line)) for line in named)
    return [folder for folder in folders if os.path.exists(folder)]


if __name__ == "__main__":
    main(sys.argv)
