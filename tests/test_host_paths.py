"""Paths that a guest can have named are opened by `cloche.host.guest_files` alone.

Every call that takes a path to the file system is found in the source. Outside of `cloche/host` it must be excused with
the reason why no guest decides what it opens: for a module as a whole, or, where the module deals with workspaces,
function by function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import cloche

ROOT = Path(cloche.__file__).parent
APART = ("host", "escapes", "conformance", "testing.py", "pytest_plugin.py")
"""The layer that may, and what tests: it makes what a hostile guest would make."""
OF_OS = frozenset(
    [
        "open",
        "stat",
        "lstat",
        "scandir",
        "listdir",
        "walk",
        "fwalk",
        "mkdir",
        "makedirs",
        "rename",
        "renames",
        "replace",
        "unlink",
        "remove",
        "rmdir",
        "removedirs",
        "symlink",
        "link",
        "readlink",
        "chmod",
        "chown",
        "lchown",
        "utime",
        "truncate",
        "access",
        "mkfifo",
        "mknod",
        "chdir",
    ]
)
OF_OS_PATH = frozenset(
    ["exists", "lexists", "isfile", "isdir", "islink", "ismount", "getsize", "getmtime", "samefile", "realpath"]
)
OF_PATHS = frozenset(
    [
        "exists",
        "is_dir",
        "is_file",
        "is_symlink",
        "is_socket",
        "stat",
        "lstat",
        "read_bytes",
        "read_text",
        "write_bytes",
        "write_text",
        "iterdir",
        "glob",
        "rglob",
        "mkdir",
        "unlink",
        "rmdir",
        "touch",
        "symlink_to",
        "hardlink_to",
        "chmod",
        "resolve",
        "readlink",
    ]
)
OURS = "a folder of ours, which no guest is given to write (protected_places)"
USERS = "a path that the user gave, looked at before any code runs"
KERNEL = "files of the kernel: /proc, /sys, cgroups, devices"
INSTALLED = "files of this installation or of an interpreter, which no guest is given to write (protected_places)"
HELD = "one name in a folder that is held by descriptor, and no link is followed"
RESOLVED_FIRST = "before the first guest runs; names below the workspace are not resolved"
EXCUSED = {
    "backends/protected_places.py:__init__": "the folder for temporary files",
    "backends/daemon/backend.py:probe": OURS,
    "backends/daemon/places.py": OURS,
    "backends/interpreter.py": INSTALLED,
    "backends/jail/branching.py:__init__": HELD,
    "backends/jail/cgroups.py:__init__": KERNEL,
    "backends/jail/cgroups.py:_joiner": INSTALLED,
    "backends/jail/cgroups.py:_limit_memory": KERNEL,
    "backends/jail/cgroups.py:_make_missing_tops": KERNEL,
    "backends/jail/cgroups.py:_make_top": KERNEL,
    "backends/jail/cgroups.py:_read": KERNEL,
    "backends/jail/cgroups.py:_write": KERNEL,
    "backends/jail/cgroups.py:open_joins": KERNEL,
    "backends/jail/cgroups.py:remove_group": KERNEL,
    "backends/jail/cgroups.py:remove_groups": KERNEL,
    "backends/jail/copies.py:_copy_entry": HELD,
    "backends/jail/copies.py:_copy_file": HELD,
    "backends/jail/copies.py:_remove": HELD,
    "backends/jail/ends.py": KERNEL,
    "backends/jail/gauges.py": KERNEL,
    "backends/jail/grounds.py:__init__": OURS,
    "backends/jail/grounds.py:_lend": OURS,
    "backends/jail/grounds.py:_open": OURS,
    "backends/jail/grounds.py:close_if_empty": OURS,
    "backends/jail/grounds.py:make": OURS,
    "backends/jail/grounds.py:running_tasks": KERNEL,
    "backends/jail/hierarchies.py": KERNEL,
    "backends/jail/launch.py": INSTALLED,
    "backends/jail/mounts.py": "a folder that the user gives; the jail opens it again and compares device and inode",
    "backends/jail/outside_users.py": OURS,
    "backends/jail/programs.py": INSTALLED,
    "backends/jail/tenancy.py:_covers": "the root of a folder that the user gives",
    "backends/jail/tenancy.py:_part": "a place to be covered; the jail opens it again and compares device and inode",
    "backends/jail/tiers.py": KERNEL,
    "backends/jail/upkeep.py": OURS,
    "backends/lifeline.py": KERNEL,
    "backends/protected_places.py:_concerned": "places that are to be covered; a link on the way to one is refused",
    "backends/protected_places.py:_resolved": "places that are to be covered; a link on the way to one is refused",
    "backends/protected_places.py:_scripts": INSTALLED,
    "backends/protected_places.py:within": "the root of a folder that the user gives",
    "backends/pyodide/backend.py:open": OURS,
    "backends/pyodide/packages.py": OURS,
    "backends/pyodide/release.py": OURS,
    "backends/pyodide/runtime.py": OURS,
    "backends/wasm/artefacts.py": OURS,
    "backends/wasm/backend.py:__init__": OURS,
    "backends/wasm/backend.py:_guest_folders": RESOLVED_FIRST,
    "backends/wasm/backend.py:probe": OURS,
    "backends/wasm/building.py": OURS,
    "backends/wasm/folders.py:open_all": "folders that are opened without links",
    "backends/wasm/folders.py:resolve": RESOLVED_FIRST,
    "backends/wasm/guest_process.py": KERNEL,
    "backends/wasm/worker/bounds.py": KERNEL,
    "backends/wasm/worker/images.py": KERNEL,
    "backends/wasm/worker/memory.py": KERNEL,
    "backends/wasm/worker/stock.py": KERNEL,
    "backends/wasm/worker/trial.py": OURS,
    "cli/clean.py": OURS,
    "cli/daemon.py": OURS,
    "cli/demo.py": "a new or empty folder of the user's, and names that the tour chooses",
    "cli/group.py": USERS,
    "cli/inputs.py:_files_in": USERS,
    "cli/inputs.py:_read": USERS,
    "cli/inputs.py:parse_placement": USERS,
    "cli/inputs.py:placements": USERS,
    "cli/inputs.py:read": USERS,
    "cli/outputs.py:__init__": USERS,
    "cli/outputs.py:_is_special": USERS,
    "cli/outputs.py:_writable_by_guest": USERS,
    "cli/outputs.py:fetch_to": USERS,
    "cli/outputs.py:refuse_guests": USERS,
    "cli/repl_commands.py": USERS,
    "cli/repl_prompt.py": OURS,
    "cli/session.py": USERS,
    "cli/workbench.py": USERS,
    "config_files.py:_is_callers": OURS,
    "config_files.py:_speaks_of_us": "who could have written it is looked at; read without links, up to a limit",
    "config_files.py:_upwards": "who could have written it is looked at before it is read",
    "config_files.py:_why_not_trusted": "who could have written it is what is asked here",
    "config_files.py:nearest_file": USERS,
    "config_files.py:read": "a file of the user's; one that was found is read without links, up to a limit",
    "daemon/connection.py": OURS,
    "daemon/lifecycle.py": OURS,
    "daemon/server.py": OURS,
    "daemon/sweeping.py": OURS,
    "guardrails/reexports.py": INSTALLED,
    "journal/container.py": USERS,
    "journal/session_file.py": "a session file that the user names, in which everything is hostile",
    "paths.py": OURS,
    "pool/keeping.py": OURS,
    "repl/roots.py:__init__": USERS,
    "repl/roots.py:resolve": "to choose a root; what is found is opened from there, through no link",
    "repl/spill.py:_remove": OURS,
    "repl/spill.py:_remove_leftovers": OURS,
    "repl/spill.py:folder": OURS,
    "repl/spill.py:store": HELD,
    "repl/text.py": "no caller in the project; its text says for which files it is",
    "session/folder.py:__init__": OURS,
    "session/folder.py:_mtime": OURS,
    "session/folder.py:_read_record": "a record that a native guest can replace: no link, no waiting, up to a limit",
    "session/folder.py:find_sessions": OURS,
    "session/folder.py:given_folder": USERS,
    "session/folder.py:record": OURS,
    "session/hosts.py": OURS,
    "session/processes.py": KERNEL,
    "session/register.py:_remove": OURS,
    "session/register.py:_write": OURS,
    "session/register.py:read_register": OURS,
    "session/workspace.py:_still_empty": "the time of the root itself, through no link",
    "session/workspace.py:ensure": "the root itself, which is ours",
    "session/workspace.py:empty": "the root itself, which is ours",
    "stores/blobs.py": OURS,
    "stores/embedded.py": OURS,
}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """(function in which it stands, call that takes a path)."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call) and takes_path(child):
                yield function, child
            inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            yield from visit(child, inner)

    yield from visit(tree, "")


def takes_path(call: ast.Call) -> bool:
    """Whether it names something in the file system by a path, relative to a descriptor or not."""
    match call.func:
        case ast.Name("open"):
            return True
        case ast.Attribute(ast.Name("os"), name):
            return name in OF_OS
        case ast.Attribute(ast.Attribute(ast.Name("os"), "path"), name):
            return name in OF_OS_PATH
        case ast.Attribute(ast.Name("shutil"), name):
            return name != "get_terminal_size"
        case ast.Attribute(_, "rename" | "replace" | "samefile"):
            return len(call.args) == 1 and not call.keywords  # of a path: text takes two
        case ast.Attribute(_, "open"):
            return not call.args or (isinstance(call.args[0], ast.Constant) and call.args[0].value in ("r", "rb", "wb"))
        case ast.Attribute(receiver, name):
            return name in OF_PATHS and ast.unparse(receiver) not in ("guest_files", "self.roots", "sources.roots")
    return False


def found() -> dict[str, set[str]]:
    """Functions with such calls, by module."""
    modules: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.split("/")[0] not in APART:
            functions = {function for function, _ in calls(ast.parse(path.read_text("utf-8")))}
            if functions:
                modules[name] = functions
    return modules


def deals_with_guests(module: str) -> bool:
    """Whether it speaks of workspaces, or opens what guests have named."""
    text = (ROOT / module).read_text("utf-8")
    tree = ast.parse(text)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return any("workspace" in name.lower() for name in names) or "import guest_files" in text


def test_only_one_module_opens_what_a_guest_can_have_named():
    strangers = [
        f"{module}:{function}"
        for module, functions in found().items()
        for function in sorted(functions)
        if f"{module}:{function}" not in EXCUSED and (deals_with_guests(module) or module not in EXCUSED)
    ]
    assert strangers == [], "use cloche.host.guest_files, or add them to EXCUSED with the reason why no guest decides"


def test_every_excuse_is_needed():
    there = {
        name for module, functions in found().items() for name in (module, *(f"{module}:{it}" for it in functions))
    }
    assert [name for name in EXCUSED if name not in there] == []


def test_every_test_that_the_page_names_exists():
    page = (Path(__file__).parent.parent / "docs/trusted-files.md").read_text("utf-8")
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", page))
    tests = [path.read_text("utf-8") for path in Path(__file__).parent.rglob("test_*.py")]
    assert len(named) > 20
    assert [name for name in sorted(named) if not any(f"def {name}(" in text for text in tests)] == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("os.path.isdir(workspace / 'x')", True), ("os.stat(path)", True), ("open(path)", True),
        ("path.is_dir()", True), ("path.open('rb')", True), ("fresh.replace(path)", True),
        ("shutil.rmtree(path)", True),
        ("text.replace('a', 'b')", False), ("guest_files.status(name, folder)", False), ("os.close(3)", False),
        ("os.fstat(3)", False),
    ],
)  # fmt: skip
def test_the_rule_finds_calls_that_take_paths(code, found):
    assert bool(list(calls(ast.parse(code)))) is found
