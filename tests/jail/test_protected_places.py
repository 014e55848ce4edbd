"""What the host runs code from, or obeys, stays as it is when it lies in a folder that a guest may write."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.jail.sessions import Environment, value

from cloche import BackendUnavailableError, ExecutionPolicy, WorkspaceFileError, create_sandbox
from cloche.backends.interpreter import examine
from cloche.backends.protected_places import Cover, ProtectedPlaces
from cloche.factory import find_backend
from cloche.session.workspace import Workspace

ATTACK = """
import os, shutil
def attempt(action, *args):
    try:
        action(*args)
    except OSError:
        pass
for path in {paths!r}:
    attempt(lambda: open(os.path.join(path, "planted"), "w").close())
    attempt(lambda: open(path, "a").write("planted"))
    attempt(os.chmod, path, 0o777)
    attempt(os.utime, path, (1, 1))
    attempt(os.link, path, "hard")
    while path.strip("/"):
        attempt(os.rename, path, path + "-moved")
        attempt(shutil.rmtree, path)
        attempt(os.unlink, path)
        attempt(os.rmdir, path)
        path = os.path.dirname(path)
"""


def marks(folder: Path) -> set[tuple[str, int, int, bytes]]:
    """Files and folders below: name, which it is, its rights, what is in it."""
    found = set()
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        found.add((str(path), status.st_ino, status.st_mode, path.read_bytes() if path.is_file() else b""))
    return found


def assert_untouched(root: Path, *protected: str, python: str | None = None) -> None:
    """A guest that may write to `root` cannot change these."""
    before = set().union(*(marks(root / path) for path in protected))
    options: dict[str, Any] = {} if python is None else {"python": python}
    with create_sandbox(backend="jail", workspace=root, preload=(), **options) as sandbox:
        sandbox.execute(ATTACK.format(paths=protected)).check()
        assert value(sandbox, "open('mine', 'w').write('x')") == "1"
    after = set().union(*(marks(root / path) for path in protected))
    assert before <= after
    assert not [mark for mark in after if "planted" in mark[0] or b"planted" in mark[3]]
    assert (root / "mine").read_text() == "x"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_an_environment_in_the_workspace_can_be_read_and_not_changed(project):
    environment = Environment(project / "tools/env")
    environment.install("installed", "figure = 7")
    with create_sandbox(backend="jail", workspace=project, python=str(environment.python), preload=()) as sandbox:
        assert value(sandbox, "open('tools/env/pyvenv.cfg').read()[:4]") == "'home'"
        assert value(sandbox, "import installed; installed.figure") == "7"
    assert_untouched(project, "tools/env", python=str(environment.python))


def test_a_workspace_that_is_an_environment_is_covered_where_python_reads_it(project):
    environment = Environment(project)
    assert_untouched(project, "bin", "lib", "pyvenv.cfg", python=str(environment.python))


def test_an_environment_that_python_would_take_its_library_from_a_new_file_in_is_no_workspace(project):
    """As conda makes them, without a pyvenv.cfg: a guest could write one, and with it a library that the host runs."""
    environment = Environment(project)
    (project / "pyvenv.cfg").unlink()
    interpreter = examine()._replace(
        executable=str(environment.python), located=str(environment.python), prefix=str(project)
    )
    with pytest.raises(WorkspaceFileError, match="cannot be given") as caught:
        ProtectedPlaces(interpreter).within(str(project))
    assert str(project / "pyvenv.cfg") in str(caught.value.cause)
    (project / "work").mkdir()
    assert ProtectedPlaces(interpreter).within(str(project / "work")) == Cover()


def test_a_script_that_starts_the_interpreter_can_be_read_and_not_changed(project):
    script = project / "python.sh"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    assert_untouched(project, "python.sh", python=str(script))


@pytest.mark.parametrize(
    ("variable", "place"),
    [
        ("CLOCHE_CACHE_DIR", "own/cache"), ("CLOCHE_STATE_DIR", "own/state"), ("CLOCHE_SESSIONS_DIR", "sessions"),
        ("XDG_CONFIG_HOME", ".config"), ("CLOCHE_DAEMON_SOCKET", "run/daemon.sock"),
    ],
)  # fmt: skip
def test_folders_of_ours_are_covered_and_made_where_they_are_not_there_yet(project, monkeypatch, variable, place):
    monkeypatch.setenv(variable, str(project / place))
    own = {"XDG_CONFIG_HOME": ".config/cloche", "CLOCHE_DAEMON_SOCKET": "run"}.get(variable, place)
    ProtectedPlaces().within(str(project))
    assert_untouched(project, own)


def test_a_writable_mount_is_covered_like_a_workspace(project):
    environment = Environment(project / "env")
    before = marks(project / "env")
    mounts = [f"{project}:/mnt/project:rw"]
    with create_sandbox(backend="jail", mounts=mounts, python=str(environment.python), preload=()) as sandbox:
        sandbox.execute(ATTACK.format(paths=["/mnt/project/env"])).check()
        assert value(sandbox, "open('/mnt/project/mine', 'w').write('x')") == "1"
    assert marks(project / "env") == before


def test_an_environment_is_not_mounted_writable(project):
    environment = Environment(project / "env")
    for source in (project / "env/lib", environment.packages):
        sandbox = create_sandbox(
            backend="jail", mounts=[f"{source}:/mnt/x:rw"], python=str(environment.python), preload=()
        )
        with sandbox, pytest.raises(WorkspaceFileError, match="cannot be given") as caught:
            sandbox.execute("1")
        assert str(source) in str(caught.value)
        assert str(project / "env") in str(caught.value.cause)


def test_a_place_that_is_reached_by_a_link_in_the_folder_is_refused(project, tmp_path):
    environment = Environment(tmp_path / "elsewhere")
    (project / "env").symlink_to(tmp_path / "elsewhere")
    python = str(project / "env/bin/python")
    assert environment.python.exists()
    sandbox = create_sandbox(backend="jail", workspace=project, python=python, preload=())
    with sandbox, pytest.raises(WorkspaceFileError, match="cannot be given") as caught:
        sandbox.execute("1")
    assert "by a link" in str(caught.value.cause)


@pytest.mark.parametrize("backend", ["jail", "wasm", "pyodide"])
def test_a_wall_without_a_view_refuses_such_a_folder_and_names_the_part(project, monkeypatch, backend):
    if backend == "jail":
        monkeypatch.setenv("CLOCHE_MASK_LAYERS", "namespaces")
    monkeypatch.setenv("CLOCHE_STATE_DIR", str(project / "own/state"))
    with pytest.raises(WorkspaceFileError, match="cannot be given") as caught:  # before anything is built or started
        find_backend(backend)().open(ExecutionPolicy(), Workspace(project, private=False), 30.0)
    assert str(project / "own/state") in str(caught.value.cause)


def test_the_root_folder_is_no_workspace():
    sandbox = create_sandbox(backend="jail", workspace="/", preload=())
    with sandbox, pytest.raises(WorkspaceFileError, match="cannot be given"):
        sandbox.execute("1")


def test_we_ourselves_are_covered_where_we_run_from_a_checkout():
    import cloche

    source = Path(cloche.__file__).parent
    cover = ProtectedPlaces().within(str(source.parent.parent))
    assert any(str(source).endswith(path) for path in cover.covered)
    assert any(sys.prefix.endswith(path) for path in cover.covered) or not sys.prefix.startswith(str(source.parents[1]))


def test_a_workspace_below_the_folder_of_the_daemons_socket_is_no_trouble(project, monkeypatch):
    monkeypatch.setenv("CLOCHE_DAEMON_SOCKET", str(project.parent / "daemon.sock"))
    assert ProtectedPlaces().within(str(project)) == Cover()


def test_locks_on_user_numbers_are_covered(project, monkeypatch):
    (project / "cloche/uids").mkdir(parents=True)
    monkeypatch.setattr("cloche.backends.protected_places.LOCK_FOLDER", str(project / "cloche/uids"))
    assert ProtectedPlaces().within(str(project)) == Cover(("cloche",))


def test_a_plain_project_has_nothing_to_cover(project):
    (project / "src").mkdir()
    assert ProtectedPlaces().within(str(project)) == Cover()


# -- what enters the view -----------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "secret").write_text("of the user")
    monkeypatch.setenv("HOME", str(folder))
    return folder


def sees(sandbox, path: Path) -> str | None:
    return value(sandbox, f"import os; os.path.exists({str(path)!r})")


def test_a_link_to_an_interpreter_does_not_give_its_folder_away(home):
    (home / "python").symlink_to(os.path.realpath(sys.executable))
    with create_sandbox(backend="jail", python=str(home / "python"), preload=()) as sandbox:
        assert value(sandbox, "1 + 1") == "2"
        assert sees(sandbox, home / "secret") == "False"


def test_an_environment_that_is_the_home_folder_does_not_give_it_away(home):
    environment = Environment(home)
    environment.install("installed", "figure = 7")
    with create_sandbox(backend="jail", python=str(environment.python), preload=()) as sandbox:
        assert value(sandbox, "import installed; installed.figure") == "7"
        assert sees(sandbox, home / "secret") == "False"


@pytest.mark.parametrize("named", [".", ".."])
def test_a_search_path_that_names_the_home_folder_is_refused(home, tmp_path, named):
    environment = Environment(tmp_path / "env")
    (environment.packages / "home.pth").write_text(os.path.normpath(home / named) + "\n")
    sandbox = create_sandbox(backend="jail", python=str(environment.python), preload=())
    with sandbox, pytest.raises(BackendUnavailableError, match="cannot be used in the jail") as caught:
        sandbox.execute("1")
    assert "home folder" in str(caught.value.cause)
