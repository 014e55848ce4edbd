"""Folders and files of the host that a policy gives: what the guest may do with them, and what is refused."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.jail.sessions import Environment, jail, value

import cloche
from cloche import Mount, PolicyError, StartError, UnsupportedError
from cloche.backends.jail.mounts import MOST, Place


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    (folder / "below").mkdir(parents=True)
    (folder / "file").write_text("of the host")
    return folder


def error_of(sandbox: cloche.SessionSandbox, code: str) -> str | None:
    exception = sandbox.execute(code).exception
    return None if exception is None else exception.message


# -- what the guest finds ----------------------------------------------------------------------


def test_folders_and_files_are_where_the_policy_says(shared: Path) -> None:
    mounts = [Mount(str(shared), "/mnt/deep/in/it"), Mount(str(shared / "file"), "/data/one.txt"), f"{shared}:/srv"]
    with jail(mounts=mounts) as sandbox:
        paths = ("/mnt/deep/in/it/file", "/data/one.txt", "/srv/file")
        assert value(sandbox, f"[open(path).read() for path in {paths}]") == repr(["of the host"] * 3)
        assert value(sandbox, "import os\nos.listdir('/mnt'), os.listdir('/data'), sorted(os.listdir('/srv'))") == repr(
            (["deep"], ["one.txt"], ["below", "file"])
        )


def test_a_mount_is_read_only_and_so_is_what_it_lies_in(shared: Path) -> None:
    with jail(mounts=[f"{shared}:/mnt/in"]) as sandbox:
        for act in (
            "open('/mnt/in/file', 'w')", "open('/mnt/in/new', 'w')", "os.remove('/mnt/in/file')",
            "os.mkdir('/mnt/new')", "os.chmod('/mnt/in/file', 0o777)", "os.rename('/mnt/in', '/mnt/out')",
            "os.symlink('/x', '/mnt/in/link')", "os.utime('/mnt/in/file')", "os.truncate('/mnt/in/file', 0)",
            "open('/data/new', 'w')",
        ):  # fmt: skip
            assert "Read-only file system" in (error_of(sandbox, f"import os\n{act}") or act), act
    assert sorted(path.name for path in shared.iterdir()) == ["below", "file"]
    assert (shared / "file").read_text() == "of the host"


def test_a_writable_mount_gives_files_that_belong_to_the_folders_owner(shared: Path) -> None:
    with jail(mounts=[f"{shared}:/mnt/out:rw"]) as sandbox:
        sandbox.execute("open('/mnt/out/made', 'w').write('x')\nimport os\nos.remove('/mnt/out/file')").check()
        assert value(sandbox, "os.stat('/mnt/out/made').st_uid == os.getuid()") == "True"
    assert (shared / "made").read_text() == "x"
    assert (shared / "made").stat().st_uid == shared.stat().st_uid
    assert not (shared / "file").exists()


def test_no_set_id_program_and_no_device_works_in_a_mount(shared: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make devices")
    os.mknod(shared / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    with jail(mounts=[f"{shared}:/mnt/out:rw"]) as sandbox:
        assert "Permission denied" in (error_of(sandbox, "open('/mnt/out/zero', 'rb')") or "")
        made = "open('/mnt/out/tool', 'w').close()\nimport os\nos.chmod('/mnt/out/tool', 0o4755)"
        assert sandbox.execute(made).outcome == "error"
        flags = int(value(sandbox, "os.statvfs('/mnt/out').f_flag") or 0)
        assert flags & os.ST_NOSUID
        assert flags & os.ST_NODEV
    assert not (shared / "tool").stat().st_mode & 0o6000


@pytest.mark.parametrize("writable", [False, True])
def test_links_in_a_mount_do_not_lead_out(shared: Path, tmp_path: Path, writable: bool) -> None:
    (tmp_path / "secret").write_text("secret")
    (shared / "absolute").symlink_to(tmp_path / "secret")
    (shared / "relative").symlink_to("../secret")
    (shared / "far").symlink_to("../" * 40 + str(tmp_path / "secret")[1:])
    (shared / "users").symlink_to("/etc/passwd")
    with jail(mounts=[Mount(str(shared), "/mnt/in", writable)]) as sandbox:
        for name in ("absolute", "relative", "far"):
            assert "No such file" in (error_of(sandbox, f"open('/mnt/in/{name}').read()") or "")
        assert "user:x:1000:1000:user:/app:/bin/sh" in (value(sandbox, "open('/mnt/in/users').read()") or "")
        assert value(sandbox, "len(open('/mnt/in/users').readlines())") == "3"
        assert sandbox.execute("import os\nos.listdir('/mnt/in/below/../../..')").check().value == value(
            sandbox, "os.listdir('/')"
        )


def test_what_was_made_in_a_mount_is_no_file_of_the_workspace(shared: Path) -> None:
    with jail(mounts=[f"{shared}:/mnt/out:rw"]) as sandbox:
        result = sandbox.execute("open('/mnt/out/made', 'w').close()\nopen('mine', 'w').close()")
        assert result.files_created == ("mine",)
        assert [file.path for file in sandbox.list_files()] == ["mine"]


def test_a_mount_stays_when_a_session_crashes_and_with_a_given_workspace(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with jail(mounts=[f"{shared}:/mnt/in"], workspace=tmp_path / "work") as sandbox:
        assert sandbox.execute("import os\nos._exit(1)").session_state == "reset"
        assert value(sandbox, "open('/mnt/in/file').read()") == "'of the host'"
        sandbox.execute("open('made', 'w').close()").check()
        sandbox.reset()
        assert value(sandbox, "open('/mnt/in/file').read()") == "'of the host'"
    assert (tmp_path / "work" / "made").exists()


def test_a_branch_has_the_mounts_of_its_parent(shared: Path) -> None:
    with jail(mounts=[f"{shared}:/mnt/in", f"{shared}:/mnt/out:rw"]) as sandbox:
        sandbox.execute("x = 1").check()
        with sandbox.fork() as branch:
            assert value(branch, "x, open('/mnt/in/file').read()") == "(1, 'of the host')"
            assert "Read-only" in (error_of(branch, "open('/mnt/in/file', 'w')") or "")
            branch.execute("open('/mnt/out/branch', 'w').close()").check()
    assert (shared / "branch").exists()


def test_sessions_have_their_own_mounts_and_none_of_anothers(shared: Path) -> None:
    with jail(mounts=[f"{shared}:/mnt/private-name"]) as one, jail() as other:
        assert value(one, "import os\nos.listdir('/mnt')") == "['private-name']"
        assert value(other, "import os\nos.listdir('/mnt')") == "[]"


def test_a_mount_follows_the_link_that_was_named_and_nothing_later(shared: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(shared)
    with jail(mounts=[f"{link}:/mnt/in"]) as sandbox:
        assert value(sandbox, "open('/mnt/in/file').read()") == "'of the host'"
        link.unlink()
        link.symlink_to("/")
        assert value(sandbox, "import os\nsorted(os.listdir('/mnt/in'))") == "['below', 'file']"


def test_what_was_put_in_a_folders_place_after_the_look_is_not_given(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    seen = Place.of(str(shared))
    stale = Place(str(tmp_path / "other"), seen.device, seen.inode)
    monkeypatch.setattr(Place, "of", classmethod(lambda cls, path: stale))
    with jail(mounts=[f"{shared}:/mnt/in"]) as sandbox, pytest.raises(StartError, match=r"Stale|replaced"):
        sandbox.execute("1")


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "why"),
    [("/usr/x", "place of the view"), ("/app/x", "place of the view"), ("/tmp/x", "place of the view"),
     ("/proc/x", "place of the view"), ("/new", "place of the view"), ("/", "place of the view"),
     ("/run/cloche/home", "place of the view"), ("/mntx", "place of the view")],
)  # fmt: skip
def test_nothing_is_mounted_over_the_view(shared: Path, target: str, why: str) -> None:
    with jail(mounts=[Mount(str(shared), target)]) as sandbox, pytest.raises(PolicyError, match=why) as caught:
        sandbox.execute("1")
    assert caught.value.field == "mounts"
    assert "/mnt" in (caught.value.remedy or "")


@pytest.mark.parametrize("source", ["/", "/proc/self", "/sys", "/dev/shm"])
def test_the_host_itself_is_not_given(source: str) -> None:
    with jail(mounts=[f"{source}:/mnt/in"]) as sandbox, pytest.raises(PolicyError, match="not given to any session"):
        sandbox.execute("1")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with jail(mounts=[f"{tmp_path}/missing:/mnt/in"]) as sandbox, pytest.raises(PolicyError, match="missing") as caught:
        sandbox.execute("1")
    assert "mkdir -p" in (caught.value.remedy or "")


def test_pipes_sockets_and_devices_are_not_given(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(tmp_path / "service"))
        for name in ("pipe", "service"):
            with jail(mounts=[f"{tmp_path}/{name}:/mnt/in"]) as sandbox, pytest.raises(PolicyError, match="plain file"):
                sandbox.execute("1")


def test_an_interpreter_is_not_hidden(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cloche.backends.jail import tenancy

    monkeypatch.setattr(tenancy, "trees_of", lambda interpreter: ["/srv/python3"])
    with jail(mounts=[f"{shared}:/srv/in"]) as sandbox, pytest.raises(PolicyError, match="hide /srv/python3"):
        sandbox.execute("1")


def test_there_may_be_so_many_and_no_more(shared: Path) -> None:
    with jail(mounts=[f"{shared}:/mnt/{number}" for number in range(MOST)]) as sandbox:
        assert value(sandbox, "import os\nlen(os.listdir('/mnt'))") == str(MOST)
    with (
        jail(mounts=[f"{shared}:/mnt/{number}" for number in range(MOST + 1)]) as sandbox,
        pytest.raises(PolicyError, match="at most"),
    ):
        sandbox.execute("1")


def test_a_file_system_that_cannot_map_owners_is_refused_by_its_path(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("an ordinary user's folders need no mapping")
    place = tmp_path / "ramfs"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "ramfs", "none", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with jail(mounts=[f"{place}:/mnt/in"]) as sandbox, pytest.raises(StartError, match="ramfs") as caught:
            sandbox.execute("1")
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert "mapped mounts" in (caught.value.remedy or "")


def test_other_walls_refuse_mounts(shared: Path) -> None:
    with pytest.raises(UnsupportedError, match="mounts"):
        cloche.create_sandbox(backend="native", mounts=[f"{shared}:/mnt/in"])


# -- as an ordinary user -----------------------------------------------------------------------

SCRIPT = """
import json, os, cloche
os.makedirs("shared/below")
open("shared/file", "w").write("of the user")
open("secret", "w").write("secret")
os.symlink(os.path.abspath("secret"), "shared/absolute")
os.symlink("../secret", "shared/relative")
mounts = ["shared:/mnt/in", "shared/below:/mnt/out:rw", "shared/file:/data/one"]
with cloche.create_sandbox(backend="jail", mounts=mounts) as sandbox:
    read = sandbox.execute("[open(path).read() for path in ('/mnt/in/file', '/data/one')]").value
    sandbox.execute("open('/mnt/out/made', 'w').write('x')").check()
    failures = [
        sandbox.execute(code).exception.message.split("] ")[1].split(":")[0]
        for code in ("open('/mnt/in/file', 'w')", "open('/mnt/new', 'w')", "open('/mnt/in/absolute')",
                     "open('/mnt/in/relative')")
    ]
print(json.dumps([read, failures, os.listdir("shared/below"), os.stat("shared/below/made").st_uid == os.getuid()]))
"""


def test_an_ordinary_user_mounts_folders_too(as_user: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = as_user(SCRIPT)
    assert done.returncode == 0, done.stderr
    read_only, missing = "Read-only file system", "No such file or directory"
    assert json.loads(done.stdout) == [
        "['of the user', 'of the user']",
        [read_only, read_only, missing, missing],
        ["made"],
        True,
    ]


def test_a_session_with_mounts_finds_its_modules_imported(shared: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install("first", "")
    from cloche.backends.interpreter import examine
    from cloche.backends.jail.houses import houses

    houses.warm(examine(environment.python, "jail"), ("first",))
    with jail(python=environment.python, preload=("first",), mounts=[f"{shared}:/mnt/in"]) as sandbox:
        assert value(sandbox, "import sys\n'first' in sys.modules, open('/mnt/in/file').read()") == repr(
            (True, "of the host")
        )
