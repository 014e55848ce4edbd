"""``cloche run``: what it prints, keeps and answers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.command import Cloche
from tests.cli.typewriter import Typewriter

PLOT = "class Picture:\n    _repr_png_ = lambda self: b'\\x89PNG picture'\ndisplay(Picture())"


def test_a_line_of_code_prints_its_output(cloche: Cloche) -> None:
    done = cloche("run", "-c", "print(6*7)")
    assert (done.code, done.stdout, done.stderr) == (0, "42\n", "")


def test_a_file_is_run(cloche: Cloche) -> None:
    (cloche.cwd / "job.py").write_text("print('from a file')\n")
    assert cloche("run", "job.py").stdout == "from a file\n"


def test_standard_input_is_run(cloche: Cloche) -> None:
    assert cloche("run", "-", stdin=b"print('piped')").stdout == "piped\n"


def test_code_is_the_main_module(cloche: Cloche) -> None:
    assert cloche("run", "-c", "if __name__ == '__main__': print('main')").stdout == "main\n"


def test_a_coding_line_is_honoured(cloche: Cloche) -> None:
    source = "# -*- coding: latin-1 -*-\nprint('é')\n".encode("latin-1")
    assert cloche("run", "-", stdin=source).stdout == "é\n"


def test_unicode_goes_through_unharmed(cloche: Cloche) -> None:
    assert cloche("run", "-c", "print('héllo ☃ 🌱'); '☃'").stdout == "héllo ☃ 🌱\n'☃'\n"


def test_a_terminal_that_knows_ascii_only_gets_signs_of_ours_in_letters(cloche: Cloche) -> None:
    done = cloche("doctor", PYTHONIOENCODING="ascii")
    assert "+ native, isolation PROCESS" in done.stdout
    assert "\\u" not in done.stdout


def test_a_terminal_that_knows_ascii_only_gets_numbers(cloche: Cloche) -> None:
    done = cloche("run", "-c", "print('☃')", PYTHONIOENCODING="ascii")
    assert (done.code, done.stdout) == (0, "\\u2603\n")


def test_the_last_expression_is_shown_on_its_own_line(cloche: Cloche) -> None:
    assert cloche("run", "-c", "print('a', end='')\n1 + 1").stdout == "a\n2\n"


def test_a_last_expression_of_none_is_not_shown(cloche: Cloche) -> None:
    assert cloche("run", "-c", "None").stdout == ""


def test_both_streams_are_kept_apart(cloche: Cloche) -> None:
    done = cloche("run", "-c", "import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_code_that_raises_exits_2_with_its_own_traceback_only(cloche: Cloche) -> None:
    done = cloche("run", "-c", "def half(x):\n    return x / 0\nhalf(1)")
    assert done.code == 2
    assert done.stderr.splitlines()[0] == "Traceback (most recent call last):"
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert "line 2, in half" in done.stderr
    assert "cloche" not in done.stderr


@pytest.mark.parametrize(
    ("code", "expected"), [("raise SystemExit", 0), ("import sys; sys.exit(0)", 0), ("import sys; sys.exit(3)", 2)]
)
def test_leaving_with_a_status_is_ok_when_the_status_is_zero(cloche: Cloche, code: str, expected: int) -> None:
    assert cloche("run", "-c", code).code == expected


def test_a_process_that_dies_exits_2_and_says_how(cloche: Cloche) -> None:
    done = cloche(
        "run", "-c", "import os, signal\nprint('last words', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)"
    )
    assert (done.code, done.stdout) == (2, "last words\n")
    assert "SIGSEGV" in done.stderr


def test_a_time_out_exits_2_with_a_hint_in_one_line(cloche: Cloche) -> None:
    done = cloche("run", "-c", "print('before')\nwhile True: pass", "--timeout", "300ms")
    assert (done.code, done.stdout) == (2, "before\n")
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["error", "hint"]
    assert "--timeout" in done.stderr


def test_too_little_memory_exits_2_with_a_hint(cloche: Cloche) -> None:
    done = cloche("run", "-c", "x = bytearray(300 * 2**20)", "--memory", "200M")
    assert done.code == 2
    assert "hint: The code wanted more memory than 200 MiB" in done.stderr


def test_memory_none_lifts_the_limit(cloche: Cloche) -> None:
    done = cloche("run", "-c", "import resource; resource.getrlimit(resource.RLIMIT_DATA)", "--memory", "none")
    assert done.stdout == "(-1, -1)\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_arrives_while_the_code_still_runs(cloche: Cloche, stream: str) -> None:
    code = (
        f"import os, sys, time\nprint('first', file=sys.{stream}, flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "print('last')"
    )
    with cloche.start("run", "-c", code, "--workspace", ".") as process:
        pipe = getattr(process, stream)
        assert pipe.readline() == b"first\n"  # the cell cannot end before the file is there
        assert process.poll() is None
        (cloche.cwd / "go").touch()
        assert process.communicate()[0].endswith(b"last\n")
    assert process.returncode == 0


def test_output_that_was_cut_says_so_and_how_to_keep_more(cloche: Cloche) -> None:
    done = cloche("run", "-c", "print('a' * 100)", "--max-output", "10")
    assert (done.code, done.stdout) == (0, "a" * 10)
    assert done.stderr == "stdout was cut after 10 characters (--max-output SIZE keeps more)\n"


def test_the_error_is_told_though_the_traceback_was_cut_off(cloche: Cloche) -> None:
    done = cloche("run", "-c", "import sys; sys.stderr.write('a' * 100); 1/0", "--max-output", "10")
    assert done.stderr.splitlines()[-1] == "error: ZeroDivisionError: division by zero"


def test_a_context_arrives_byte_for_byte(cloche: Cloche) -> None:
    text = b"\xef\xbb\xbfone\r\ntwo\rthree\n\0 \xe2\x98\x83"
    (cloche.cwd / "text").write_bytes(text)
    done = cloche("run", "-c", "print(context.encode().hex())", "--context", "text")
    assert bytes.fromhex(done.stdout) == text


def test_a_context_may_come_from_standard_input(cloche: Cloche) -> None:
    assert cloche("run", "-c", "context", "--context", "-", stdin=b"a\r\n").stdout == "'a\\r\\n'\n"


def test_files_go_into_the_workspace(cloche: Cloche) -> None:
    (cloche.cwd / "data.bin").write_bytes(b"\0\1")
    (cloche.cwd / "tree" / "deep").mkdir(parents=True)
    (cloche.cwd / "tree" / "deep" / "leaf").write_text("leaf")
    (cloche.cwd / "odd:name").write_text("odd")
    code = "import pathlib\n[str(p) for p in sorted(pathlib.Path('.').rglob('*')) if p.is_file()]"
    done = cloche("run", "-c", code, "-f", "data.bin", "-f", "data.bin:in/", "-f", "tree:wood", "-f", "odd:name")
    assert done.stdout == "['data.bin', 'in/data.bin', 'odd:name', 'wood/deep/leaf']\n"


def test_a_produced_file_is_copied_out(cloche: Cloche) -> None:
    code = "import os; os.mkdir('d'); open('d/made', 'wb').write(b'1\\r\\n\\0'); open('more', 'w').close()"
    done = cloche("run", "-c", code, "--get", "d/made", "--get", "d/made:renamed")
    assert (done.code, done.stderr) == (0, "not kept: more (--out DIR or --get PATH keeps files)\n")
    assert (cloche.cwd / "made").read_bytes() == (cloche.cwd / "renamed").read_bytes() == b"1\r\n\0"


def test_a_file_that_was_not_produced_exits_2(cloche: Cloche) -> None:
    done = cloche("run", "-c", "print('ran')", "--get", "nothing")
    assert (done.code, done.stdout) == (2, "ran\n")
    assert "nothing does not exist" in done.stderr


def test_a_link_out_of_the_workspace_is_not_followed(cloche: Cloche, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    done = cloche(
        "run", "-c", f"import os; os.symlink({str(tmp_path / 'secret')!r}, 'link')", "--get", "link", "--out", "o"
    )
    assert done.code == 2
    assert list(cloche.cwd.rglob("link")) == []


def test_out_keeps_new_and_changed_files_and_displays(cloche: Cloche) -> None:
    (cloche.cwd / "old").write_text("before")
    (cloche.cwd / "same").write_text("same")
    code = f"import os; os.mkdir('d'); open('d/new', 'w').write('new'); open('old', 'w').write('after')\n{PLOT}"
    done = cloche("run", "-c", code, "-f", "old", "-f", "same", "--out", "results")
    assert done.code == 0
    kept = {
        str(path.relative_to(cloche.cwd / "results")) for path in (cloche.cwd / "results").rglob("*") if path.is_file()
    }
    assert kept == {"d/new", "old", "display-1.png"}
    assert (cloche.cwd / "results" / "old").read_text() == "after"
    assert {line.removeprefix("saved results/") for line in done.stderr.splitlines()} == kept


def test_out_refuses_a_folder_with_something_in_it_before_anything_runs(cloche: Cloche) -> None:
    (cloche.cwd / "mine").write_text("mine")
    done = cloche("run", "-c", "print('ran'); open('mine', 'w').write('yours')", "--out", ".")
    assert (done.code, done.stdout) == (1, "")
    assert (cloche.cwd / "mine").read_text() == "mine"


def test_a_file_of_the_code_cannot_take_the_place_of_a_display(cloche: Cloche) -> None:
    done = cloche("run", "-c", f"open('display-1.png', 'w').write('not a picture')\n{PLOT}", "--out", "results")
    assert done.code == 0
    contents = {path.read_bytes() for path in (cloche.cwd / "results").iterdir()}
    assert b"\x89PNG picture" in contents


def test_saved_files_are_not_executable(cloche: Cloche) -> None:
    cloche("run", "-c", "import os; open('tool', 'w').close(); os.chmod('tool', 0o777)", "--out", "results")
    assert not os.access(cloche.cwd / "results" / "tool", os.X_OK)


def test_a_picture_is_saved_and_named(cloche: Cloche) -> None:
    done = cloche("run", "-c", PLOT)
    assert done.stdout == ""
    path = Path(done.stderr.removeprefix("saved ").rstrip("\n"))
    assert path.read_bytes() == b"\x89PNG picture"


def test_a_display_that_is_text_is_printed(cloche: Cloche) -> None:
    assert cloche("run", "-c", "display({'a': 1})").stdout == "{'a': 1}\n"


def test_a_value_with_a_rich_form_is_printed_once(cloche: Cloche) -> None:
    code = "class Table:\n    __repr__ = lambda self: 'table'\n    _repr_html_ = lambda self: '<b>table</b>'\nTable()"
    assert cloche("run", "-c", code).stdout == "table\n"


def test_a_given_workspace_keeps_its_files(cloche: Cloche) -> None:
    done = cloche("run", "-c", "open('kept', 'w').write('x');", "--workspace", ".")
    assert (done.code, done.stderr) == (0, "")
    assert (cloche.cwd / "kept").exists()


def test_the_guest_sees_only_variables_it_was_given(cloche: Cloche) -> None:
    code = "import os\n[os.environ.get(name) for name in ('GIVEN', 'PASSED', 'API_KEY')]"
    done = cloche("run", "-c", code, "-e", "GIVEN=a=b", "-e", "PASSED", PASSED="through", API_KEY="secret")
    assert done.stdout == "['a=b', 'through', None]\n"


def test_arguments_outrank_variables_which_outrank_the_file(cloche: Cloche) -> None:
    (cloche.cwd / "cloche.toml").write_text("max_output_length = 3\n")
    code = ("run", "-c", "print('abcdefgh', end='')")
    assert cloche(*code).stdout == "abc"
    assert cloche(*code, CLOCHE_MAX_OUTPUT_LENGTH="5").stdout == "abcde"
    assert cloche(*code, "--max-output", "7", CLOCHE_MAX_OUTPUT_LENGTH="5").stdout == "abcdefg"


def test_a_wall_that_is_too_weak_is_refused(cloche: Cloche) -> None:
    done = cloche("run", "-c", "print('ran')", "--backend", "native", "--min-isolation", "metered")
    assert (done.code, done.stdout) == (2, "")
    assert "remedy:" in done.stderr


def test_the_network_gets_one_sentence_of_advice(cloche: Cloche) -> None:
    done = cloche("run", "-c", "import socket\nraise socket.gaierror(-2, 'Name or service not known')")
    assert done.code == 2
    hints = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
    assert len(hints) == 1
    assert "--file" in hints[0]


def test_a_result_on_a_terminal_ends_with_a_whole_line(typewriter: Typewriter) -> None:
    typewriter.start("run", "-c", "print('no newline', end='')")
    assert typewriter.finish() == 0
    assert typewriter.rest == "no newline\r\n"


def test_a_session_leaves_nothing_behind(cloche: Cloche) -> None:
    assert cloche("run", "-c", "open('x', 'w').write('x')").code == 0
    assert cloche.left_behind() == []


def test_a_folder_can_be_mounted(cloche: Cloche, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("of the host")
    done = cloche("run", "--backend", "jail", "--mount", f"{tmp_path}:/mnt/in", "-c", "open('/mnt/in/file').read()")
    assert (done.code, done.stdout) == (0, "'of the host'\n"), done.stderr
    refused = cloche("run", "--backend", "jail", "--mount", f"{tmp_path}:/usr/in", "-c", "1")
    assert refused.code != 0
    assert "choose a path at or below /mnt" in refused.stderr
