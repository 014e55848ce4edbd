"""Rows of service research, sections 0 and 1.5: inputs on which another server of this document failed."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.repl_server.client import FIELDS, Client

from cloche.conformance.waiting import wait_until


def test_output_before_sys_exit_is_answered(server: Client) -> None:
    response = server.ask("import sys\nprint('before'); sys.exit(0)")
    assert (response["stdout"], response["exit_code"]) == ("before\n", 0)


def test_output_of_children_and_raw_writes_is_captured_in_order(server: Client) -> None:
    code = "import os, subprocess\nprint('a')\nsubprocess.run(['echo', 'child'])\nos.write(1, b'raw\\n')\nprint('b')"
    assert server.run(code) == "a\nchild\nraw\nb\n"


def test_output_of_c_code_is_captured(server: Client) -> None:
    code = "import ctypes\nlibc = ctypes.CDLL(None)\nprint('a')\n_ = libc.printf(b'from c\\n')\nprint('b')"
    assert server.run(code) == "a\nfrom c\nb\n"


def test_a_reply_that_the_code_writes_to_stdout_is_output(server: Client) -> None:
    forged = ">>> RESPONSE_START <<<\n" + json.dumps({"stdout": "forged", "exit_code": 0}) + "\n>>> RESPONSE_END <<<\n"
    assert server.run(f"import os\n_ = os.write(1, {forged!r}.encode())") == forged


def test_code_has_no_descriptor_of_the_wire(server: Client) -> None:
    """Neither among its own, nor through the process in front of it."""
    code = """
import os
forged = b">>> RESPONSE_START <<<\\n{}\\n>>> RESPONSE_END <<<\\n"
reached = []
for process in ("self", str(os.getppid())):
    try:
        found = os.listdir(f"/proc/{process}/fd")
    except OSError:
        continue
    for number in found:
        path = f"/proc/{process}/fd/{number}"
        try:
            if process == "self" and int(number) >= 200 or not os.readlink(path).startswith("pipe:"):
                continue
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        reached.append(process)
        os.write(descriptor, forged)
reached
"""
    response = server.ask(code)
    assert set(re.findall("[a-z]+|[0-9]+", response["stdout"].splitlines()[-1])) <= {"self"}
    assert server.run("1") == "1\n"


def test_an_expression_that_raises_a_syntax_error_when_it_runs_is_run_once(server: Client) -> None:
    server.run("calls = []")
    assert server.ask("[calls.append(1), eval('1 +')]")["error"].startswith("SyntaxError")
    assert server.run("calls") == "[1]\n"


def test_a_restored_function_sees_a_variable_that_is_changed_later(server: Client) -> None:
    state = server.ask("x = 1\ndef f(): return x", capture_state=True)["state"]
    assert server.run("x = 2\nprint(f())", state=state) == "2\n"


def test_a_value_under_the_name_of_a_preload_survives(server: Client) -> None:
    state = server.ask("np = 5", capture_state=True)["state"]
    server.run("import numpy as np")
    assert server.run("np", state=state) == "5\n"


def test_a_cell_of_several_lines_that_ends_in_an_expression_shows_it(server: Client) -> None:
    assert server.run("x = 20\nprint('sum')\nx + 1") == "sum\n21\n"
    assert server.run("x + 1;") == ""
    assert server.run("None") == ""


def test_a_generator_is_left_out_and_anything_else_that_cannot_be_saved_is_told(server: Client) -> None:
    response = server.ask("g = (i for i in [])\nh = [g]", capture_state=True, partial_state=True)
    assert response["state_errors"] == {"h": "cannot pickle 'generator' object"}


def test_a_state_of_sixty_megabytes_is_saved_and_restored(server: Client) -> None:
    response = server.ask("a = np.random.default_rng(1).random(7_500_000)\nfloat(a.sum())", capture_state=True)
    assert response["error"] is None
    assert len(response["state"]) > 60_000_000
    assert server.run("float(a.sum())", state=response["state"]) == response["stdout"]


def test_what_a_thread_prints_after_the_end_comes_with_the_next_response(server: Client) -> None:
    code = """
import os, threading
os.mkfifo("gate")
def late():
    open("gate").close()
    print("late")
    os.write(1, b"raw\\n")
    os.rename("gate", "done")
threading.Thread(target=late).start()
"""
    assert server.run(code) == ""
    folder = server.run_folder()
    with open(folder / "gate", "w"):
        wait_until((folder / "done").exists)
    assert server.run("os.remove('done')") == "late\nraw\n"


def test_created_and_changed_files_are_named(server: Client) -> None:
    code = "import os\nopen('one.txt', 'w').write('1')\nos.makedirs('sub')\nopen('sub/two.txt', 'w').write('2')"
    assert server.ask(code)["files"] == ["one.txt", "sub/two.txt"]
    assert server.ask("1")["files"] == []
    assert server.ask("from pathlib import Path\nPath('one.txt').write_text('3');")["files"] == ["one.txt"]
    assert server.ask("import subprocess\nsubprocess.run(['touch', 'three'])")["files"] == ["three"]
    assert server.ask("os.symlink('/etc/passwd', 'link')\nos.remove('one.txt')")["files"] == []


def test_all_fields_of_the_document_and_no_others_are_there(server: Client) -> None:
    assert list(server.ask("1", capture_state=True)) == FIELDS


def test_a_library_that_cannot_be_imported_is_not_passed_over_in_silence(folder: Path) -> None:
    (folder / "half.py").write_text("import no_such_thing\n")
    client = Client(folder, PRELOAD_MODULES="half")
    client.wait_until_ready()
    assert b"half was not imported: ModuleNotFoundError: No module named 'no_such_thing'" in client.close()
