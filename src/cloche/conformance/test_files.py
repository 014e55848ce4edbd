"""The workspace: files in, files out, and what a cell did to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cloche.errors import WorkspaceFileError

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox


def paths(sandbox: SessionSandbox) -> list[str]:
    """Paths of all files."""
    return [file.path for file in sandbox.list_files()]


@pytest.mark.parametrize("data", [b"", b"\0\xff binary", b"x" * 3_000_000])
def test_a_file_comes_back_as_it_went(sandbox: SessionSandbox, data: bytes) -> None:
    sandbox.put_file("data.bin", data)
    assert sandbox.get_file("data.bin") == data


def test_text_is_stored_as_utf_8(sandbox: SessionSandbox) -> None:
    sandbox.put_file("a.txt", "caf\u00e9\r\n")
    assert sandbox.get_file("a.txt") == "caf\u00e9\r\n".encode()


def test_a_cell_reads_what_was_put(sandbox: SessionSandbox) -> None:
    sandbox.put_file("in/data.csv", b"a,b\n")
    assert sandbox.execute("open('in/data.csv').read()").value == "'a,b\\n'"


def test_a_file_can_be_put_while_the_session_lives(sandbox: SessionSandbox) -> None:
    sandbox.execute("1")
    sandbox.put_file("late", b"x")
    assert sandbox.execute("open('late').read()").value == "'x'"


def test_what_a_cell_wrote_can_be_fetched(sandbox: SessionSandbox) -> None:
    sandbox.execute("import os; os.makedirs('out'); f = open('out/a', 'w'); f.write('made'); f.close()")
    assert sandbox.get_file("out/a") == b"made"


def test_putting_a_file_replaces_it(sandbox: SessionSandbox) -> None:
    sandbox.put_file("a", b"long content")
    sandbox.put_file("a", b"new")
    assert sandbox.get_file("a") == b"new"


def test_files_are_listed_sorted_with_their_sizes(sandbox: SessionSandbox) -> None:
    sandbox.put_file("b", b"22")
    sandbox.put_file("a/c", b"333")
    sandbox.execute("import os; os.mkdir('empty')")
    assert [(file.path, file.size) for file in sandbox.list_files()] == [("a/c", 3), ("b", 2)]


def test_a_missing_file_is_said_to_be_missing(sandbox: SessionSandbox) -> None:
    with pytest.raises(WorkspaceFileError, match="does not exist"):
        sandbox.get_file("missing")


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "a/../../b", "", ".", "..", "a\0b", "/", "x/.."])
def test_a_path_outside_the_workspace_is_refused(sandbox: SessionSandbox, path: str) -> None:
    with pytest.raises(WorkspaceFileError):
        sandbox.put_file(path, b"")
    with pytest.raises(WorkspaceFileError):
        sandbox.get_file(path)


@pytest.mark.parametrize("path", ["./a", "a//b", "/app/c", "d/./e"])
def test_other_spellings_of_a_path_inside_are_accepted(sandbox: SessionSandbox, path: str) -> None:
    sandbox.put_file(path, b"x")
    assert sandbox.get_file(path) == b"x"


@pytest.mark.cloche_needs("links")
def test_a_link_out_of_the_workspace_is_not_followed(sandbox: SessionSandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("host")
    sandbox.execute(
        f"import os; os.symlink({str(tmp_path / 'secret')!r}, 'link'); os.symlink({str(tmp_path)!r}, 'dir')"
    )
    for path in ("link", "dir/secret"):
        with pytest.raises(WorkspaceFileError):
            sandbox.get_file(path)
    with pytest.raises(WorkspaceFileError):
        sandbox.put_file("dir/planted", b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]


@pytest.mark.cloche_needs("links")
def test_putting_a_file_where_a_link_is_replaces_the_link(sandbox: SessionSandbox, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("host")
    sandbox.execute(f"import os; os.symlink({str(tmp_path / 'target')!r}, 'link')")
    sandbox.put_file("link", b"mine")
    assert (tmp_path / "target").read_text() == "host"
    assert sandbox.get_file("link") == b"mine"


@pytest.mark.cloche_needs("links")
def test_links_are_not_listed_as_files(sandbox: SessionSandbox) -> None:
    sandbox.execute("import os; os.symlink('/etc/passwd', 'link'); open('real', 'w').close()")
    assert paths(sandbox) == ["real"]


@pytest.mark.cloche_needs("subprocess")
def test_a_pipe_in_the_workspace_does_not_block(sandbox: SessionSandbox) -> None:
    sandbox.execute("import os; os.mkfifo('pipe')")
    with pytest.raises(WorkspaceFileError):
        sandbox.get_file("pipe")
    assert paths(sandbox) == []


def test_a_file_in_place_of_a_folder_is_an_error(sandbox: SessionSandbox) -> None:
    sandbox.put_file("a", b"")
    with pytest.raises(WorkspaceFileError):
        sandbox.put_file("a/b", b"")


def test_a_folder_in_place_of_a_file_is_an_error(sandbox: SessionSandbox) -> None:
    sandbox.put_file("a/b", b"")
    with pytest.raises(WorkspaceFileError):
        sandbox.get_file("a")
    with pytest.raises(WorkspaceFileError):
        sandbox.put_file("a", b"")


def test_a_giant_that_is_mostly_holes_is_not_read(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    with open(tmp_path / "giant", "wb") as handle:
        try:
            handle.truncate(1 << 40)
        except OSError:
            pytest.skip("files with holes of this size cannot be made here")
    sandbox = open_sandbox(workspace=tmp_path)
    sandbox.execute("open('small', 'w').write('x')").check()
    with pytest.raises(WorkspaceFileError, match="limit"):
        sandbox.get_file("giant")
    assert {file.path: file.size for file in sandbox.list_files()} == {"giant": 1 << 40, "small": 1}


@pytest.mark.parametrize("name", ["with\nnewline", "caf\u00e9", "-rf", " ", "a'b\"c", "\U0001f600"])
def test_any_name_works(sandbox: SessionSandbox, name: str) -> None:
    sandbox.execute(f"open({name!r}, 'w').close()")
    assert paths(sandbox) == [name]
    assert sandbox.get_file(name) == b""


@pytest.mark.cloche_needs("byte_names")
def test_a_name_that_is_not_utf_8_does_not_break_the_listing(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("open(b'\\xff\\xfe', 'w').close(); open('fine', 'w').close()")
    assert "fine" in result.files_created
    assert "fine" in paths(sandbox)


def test_a_file_over_the_limit_is_not_read(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    sandbox = open_sandbox(workspace=tmp_path, workspace_bytes=1_000_000)
    with (tmp_path / "huge").open("wb") as handle:
        handle.truncate(1 << 40)
    with pytest.raises(WorkspaceFileError, match="limit"):
        sandbox.get_file("huge")


def test_a_file_over_the_quota_is_not_taken(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(workspace_bytes=1_000_000)
    with pytest.raises(WorkspaceFileError):
        sandbox.put_file("big", b"x" * 1_000_001)
    assert paths(sandbox) == []


def test_a_cell_cannot_write_a_file_over_the_quota(open_sandbox: OpenSandbox) -> None:
    result = open_sandbox(workspace_bytes=1_000_000).execute("open('big', 'wb').write(b'x' * 2_000_000)")
    assert result.outcome == "error"


def test_a_workspace_over_its_quota_is_pointed_out(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(workspace_bytes=1_000_000)
    result = sandbox.execute("for n in range(4): open(str(n), 'wb').write(b'x' * 500_000)")
    assert "workspace_bytes" in str(result.guidance)


def test_created_files_are_reported(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("import os; os.mkdir('d'); open('b', 'w').close(); open('d/a', 'w').close()")
    assert (result.files_created, result.files_modified, result.files_deleted) == (("b", "d/a"), (), ())


def test_modified_files_are_reported(sandbox: SessionSandbox) -> None:
    sandbox.execute("f = open('a', 'w'); f.write('one'); f.close()")
    result = sandbox.execute("f = open('a', 'a'); f.write('two'); f.close()")
    assert (result.files_created, result.files_modified, result.files_deleted) == ((), ("a",), ())


def test_deleted_files_are_reported(sandbox: SessionSandbox) -> None:
    sandbox.execute("open('a', 'w').close()")
    result = sandbox.execute("import os; os.remove('a')")
    assert (result.files_created, result.files_modified, result.files_deleted) == ((), (), ("a",))


def test_a_file_put_from_outside_is_not_the_cells_doing(sandbox: SessionSandbox) -> None:
    sandbox.execute("1")
    sandbox.put_file("a", b"x")
    assert sandbox.execute("open('b', 'w').close()").files_created == ("b",)


def test_files_written_by_a_cell_that_failed_are_reported(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("open('a', 'w').close(); 1 / 0").files_created == ("a",)


def test_files_written_by_a_cell_that_died_are_reported(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("open('a', 'w').close(); import os; os._exit(1)").files_created == ("a",)


def test_a_given_folder_is_the_workspace(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("x")
    sandbox = open_sandbox(workspace=tmp_path)
    result = sandbox.execute("open('given').read()")
    assert (result.value, result.workspace_path) == ("'x'", str(tmp_path))


def test_files_that_were_there_before_are_not_reported_as_created(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    assert open_sandbox(workspace=tmp_path).execute("open('new', 'w').close()").files_created == ("new",)


def test_a_workspace_that_is_not_there_is_refused(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceFileError):
        open_sandbox(workspace=tmp_path / "missing").execute("1")


def test_a_workspace_that_a_cell_removed_is_an_error_and_not_a_crash(sandbox: SessionSandbox) -> None:
    sandbox.execute("import os, shutil; shutil.rmtree(os.getcwd())")
    with pytest.raises(WorkspaceFileError):
        sandbox.get_file("a")
    sandbox.reset()
    sandbox.put_file("a", b"x")
    assert sandbox.execute("open('a').read()").value == "'x'"
