"""What the command writes for a user lies where the code that ran cannot lead it astray."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.command import Cloche

PLANT = """
import os
for name in ("a", "out"):
    try:
        os.symlink({target!r}, name)
    except OSError as exc:
        print(exc)
os.makedirs("made", exist_ok=True)
open("made/a", "w").write("from inside")
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "victim").write_text("of the user")
    return tmp_path / "victim"


@pytest.mark.parametrize("writable", ["workspace", "mount"])
@pytest.mark.parametrize("arguments", [("-g", "made/a:given/a"), ("-g", "made/a:given"), ("-o", "given/out")])
def test_a_destination_that_the_code_can_write_is_refused_before_it_runs(
    cloche: Cloche, victim: Path, writable: str, arguments: tuple[str, ...]
) -> None:
    (cloche.cwd / "given").mkdir()
    given = ("-w", "given") if writable == "workspace" else ("--mount", f"{cloche.cwd / 'given'}:/mnt/given:rw")
    done = cloche("run", *given, *arguments, "-c", PLANT.format(target=str(victim)))
    assert done.code == 1
    assert "the code can write to" in done.stderr
    assert victim.read_text() == "of the user"
    assert list((cloche.cwd / "given").iterdir()) == []  # neither a link of the code's nor a folder of ours


def test_a_link_in_the_way_is_replaced_by_the_copy_or_followed_as_it_was_before_the_run(
    cloche: Cloche, tmp_path: Path
) -> None:
    (tmp_path / "real").write_text("old")
    (cloche.cwd / "link").symlink_to(tmp_path / "real")
    assert cloche("run", "-g", "a:link", "-c", "open('a', 'w').write('new')").code == 0
    assert (tmp_path / "real").read_text() == "new"
    assert (cloche.cwd / "link").is_symlink()


def test_a_copy_goes_to_a_stream_that_was_named(cloche: Cloche) -> None:
    assert cloche("run", "-g", "a:/dev/stdout", "-c", "open('a', 'w').write('new');").stdout.endswith("new")


def test_files_for_a_new_folder_are_not_executable_and_nothing_is_left_of_their_making(cloche: Cloche) -> None:
    code = "import os\nos.mkdir('d')\nopen('d/a', 'w').write('x')\nos.chmod('d/a', 0o777)\nNone"
    assert cloche("run", "-o", "out", "-c", code).code == 0
    assert [str(path.relative_to(cloche.cwd)) for path in sorted(cloche.cwd.rglob("*"))] == ["out", "out/d", "out/d/a"]
    assert not (cloche.cwd / "out/d/a").stat().st_mode & 0o111


@pytest.mark.parametrize("name", ["x\rsaved the.passwords", "x\nerror: all is lost", "x\x1b[2J"])
def test_the_name_of_a_file_stays_within_its_line(cloche: Cloche, name: str) -> None:
    done = cloche("run", "-c", f"open({name!r}, 'w').close()")
    assert [line for line in done.stderr.splitlines() if "not kept" in line] == done.stderr.splitlines()
    saved = cloche("run", "-o", "out", "-c", f"open({name!r}, 'w').close()")
    assert len(saved.stderr.splitlines()) == 1
    assert os.listdir(cloche.cwd / "out") == [name]
    listed = cloche("repl", stdin=f"open({name!r}, 'w').close()\n:files\n".encode())
    assert len([line for line in listed.stdout.split("\n") if line.strip()]) == 1
    assert not {"\r", "\x1b"} & set(saved.stderr + listed.stdout)


def test_a_link_in_a_folder_that_is_handed_in_whole_is_not_followed(cloche: Cloche, victim: Path) -> None:
    (cloche.cwd / "data").mkdir()
    (cloche.cwd / "data/plain").write_text("x")
    (cloche.cwd / "data/link").symlink_to(victim)
    done = cloche("run", "-f", "data", "-c", "print(open('data/link').read())")
    assert done.code == 1
    assert "data/link is a link" in done.stderr
    assert "of the user" not in done.stdout
