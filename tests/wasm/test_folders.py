"""What a restarted guest is given: the folders that the user named, whatever the last guest has put in their place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.wasm.sessions import value, wasm

import cloche

SECRET = "not for the guest"
UP = "../" * 12
PLACES = (
    "/app/site-packages", "/app/lib", "/app/pyvenv.cfg", "/app/home", "/app/tmp", "/app/work", "/app/cloche_guest",
    "/run/cloche/tmp", "/run/cloche/site-packages", "/run/cloche/home",
)  # fmt: skip
RESTARTS = {
    "exit": lambda sandbox: sandbox.execute("import os; os._exit(0)"),
    "fuel": lambda sandbox: sandbox.execute("while True: pass"),
    "reset": lambda sandbox: sandbox.reset(),
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "passwd").write_text(SECRET)
    (folder / "planted.py").write_text("")
    return folder


def link_everywhere(target: str) -> str:
    """A cell that makes each place that a restart may look at a link to a folder of the host."""
    return (
        f"import os, shutil\ndef link(place):\n    shutil.rmtree(place, ignore_errors=True)\n"
        f"    try: os.remove(place)\n    except OSError: pass\n    os.symlink({UP + target.lstrip('/')!r}, place)\n"
        f"for place in {PLACES!r}: link(place)"
    )


def read_everywhere() -> str:
    return (
        "found = []\n"
        f"for place in {PLACES!r}:\n"
        "    for name in ('passwd', 'planted.py'):\n"
        "        try: found.append(open(place + '/' + name).read())\n"
        "        except OSError: pass\n"
        "found"
    )


@pytest.mark.parametrize("restart", RESTARTS)
@pytest.mark.parametrize("given", [True, False])
def test_links_at_the_places_that_a_restart_looks_at_lead_nowhere(
    secret: Path, tmp_path: Path, restart: str, given: bool
):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    with wasm(workspace=workspace if given else None, fuel_budget=500_000_000) as sandbox:
        sandbox.execute(link_everywhere(str(secret))).check()
        RESTARTS[restart](sandbox)
        assert value(sandbox, read_everywhere()) == "[]"


def test_a_link_in_place_of_site_packages_does_not_open_the_hosts_folder():
    with wasm() as sandbox:
        sandbox.execute(f"import os; os.symlink({UP + 'etc'!r}, '/app/site-packages')").check()
        sandbox.execute("import os; os._exit(0)")
        assert sandbox.execute("open('/app/site-packages/passwd').read()").outcome == "error"


def test_a_link_of_an_earlier_session_is_not_followed_either(secret: Path, tmp_path: Path):
    """The guest of one process wrote it, another process starts with the same workspace and names it."""
    (tmp_path / "site-packages").symlink_to(secret)
    (tmp_path / "way").symlink_to(tmp_path)  # the same folder by another name
    for way in (tmp_path, tmp_path / "way"):
        sandbox = wasm(workspace=tmp_path, site_packages=way / "site-packages")
        with sandbox, pytest.raises(cloche.StartError, match="links are not followed"):
            sandbox.execute("1")


@pytest.mark.parametrize("inner", ["site-packages", "a/b/site-packages"])
def test_packages_inside_the_workspace_that_a_cell_replaces_by_a_link_are_refused(
    secret: Path, tmp_path: Path, inner: str
):
    workspace = tmp_path / "workspace"
    (workspace / inner).mkdir(parents=True)
    with wasm(workspace=workspace, site_packages=workspace / inner) as sandbox:
        first = inner.partition("/")[0]
        # by a descriptor of /app: its name /app/site-packages is that of the read-only folder
        sandbox.execute(
            f"import os\napp = os.open('/app', os.O_RDONLY)\nname = {first!r}\n"
            "os.rename(name, 'moved', src_dir_fd=app, dst_dir_fd=app)\n"
            f"os.symlink('../secret', {first!r}, dir_fd=app)"
        )
        assert (workspace / first).is_symlink()
        sandbox.execute("import os; os._exit(0)")
        with pytest.raises(cloche.StartError, match="links are not followed"):
            sandbox.execute("open('/app/site-packages/passwd').read()")


def test_a_workspace_inside_of_anothers_is_not_opened_through_a_link_that_the_other_made(secret: Path, tmp_path: Path):
    outer = tmp_path / "outer"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    with wasm(workspace=outer) as attacker, wasm(workspace=inner) as victim:
        victim.execute("1").check()
        attacker.execute("import os; os.rename('inner', 'moved'); os.symlink('../secret', 'inner')").check()
        victim.execute("import os; os._exit(0)")
        with pytest.raises(cloche.StartError, match="links are not followed"):
            victim.execute("open('passwd').read()")


def test_a_copy_that_a_protected_session_returns_to_has_the_folders_of_the_first(secret: Path, tmp_path: Path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    with wasm(workspace=workspace, protect_state=True) as sandbox:
        sandbox.execute("x = 1\n" + link_everywhere(str(secret))).check()
        assert sandbox.execute("import os; os._exit(0)").session_state == "restored"
        assert value(sandbox, read_everywhere()) == "[]"
        assert value(sandbox, "x") == "1"


def test_the_users_own_links_on_the_way_to_a_folder_are_followed(tmp_path: Path):
    real = tmp_path / "real"
    (real / "workspace").mkdir(parents=True)
    (real / "packages").mkdir()
    (real / "packages" / "greeting.py").write_text("text = 'hello'")
    (tmp_path / "way").symlink_to(real)
    way = tmp_path / "way"
    with wasm(workspace=way / "workspace", site_packages=way / "packages") as sandbox:
        assert value(sandbox, "import greeting; open('a', 'w').write('x'); greeting.text") == "'hello'"
        sandbox.execute("import os; os._exit(0)")
        assert value(sandbox, "import greeting; greeting.text, open('a').read()") == "('hello', 'x')"
    assert os.listdir(real / "workspace") == ["a"]
