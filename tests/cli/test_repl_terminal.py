"""``cloche repl`` under a person's hands: a real pseudo-terminal."""

from __future__ import annotations

import os
import stat

from tests.cli.command import Cloche
from tests.cli.typewriter import CTRL_C, CTRL_D, ENTER, TAB, Typewriter


def begin(typewriter: Typewriter, *options: str) -> None:
    typewriter.start("repl", *options)
    typewriter.expect("Ctrl-D to leave")
    typewriter.expect(">>>")


def enter(typewriter: Typewriter, statement: str) -> None:
    """Run a statement, and wait for the prompt after it (not for one that is merely redrawn)."""
    typewriter.type(f"{statement}; print('do' + 'ne')" + ENTER)
    typewriter.expect(r"done\r\n")
    typewriter.expect(">>>")


def leave(typewriter: Typewriter) -> None:
    typewriter.type(CTRL_D)
    assert typewriter.finish() == 0


def test_a_person_gets_a_value_and_leaves_with_ctrl_d(typewriter: Typewriter, cloche: Cloche) -> None:
    begin(typewriter)
    typewriter.type("6 * 7" + ENTER)
    typewriter.expect(r"42\r\n")
    typewriter.expect(">>>")
    leave(typewriter)
    assert cloche.left_behind() == []


def test_a_block_goes_on_with_indentation_until_an_empty_line(typewriter: Typewriter) -> None:
    begin(typewriter)
    typewriter.type("for i in range(3):" + ENTER)
    typewriter.expect(r"\.\.\.")
    typewriter.type("print('turn', i * 11)" + ENTER + ENTER)
    typewriter.expect(r"turn 0\r\nturn 11\r\nturn 22\r\n")
    typewriter.expect(">>>")
    leave(typewriter)


def test_ctrl_c_cancels_the_cell_and_keeps_the_session(typewriter: Typewriter) -> None:
    begin(typewriter)
    enter(typewriter, "kept = 'kept' + '!'")
    typewriter.type("import time; print('run' + 'ning'); time.sleep(600)" + ENTER)
    typewriter.expect(r"running\r\n")
    typewriter.type(CTRL_C)
    typewriter.expect("cancelled")
    typewriter.expect(">>>")
    typewriter.type("kept" + ENTER)
    typewriter.expect("'kept!'")
    typewriter.expect(">>>")
    leave(typewriter)


def test_ctrl_c_at_the_prompt_drops_the_line(typewriter: Typewriter) -> None:
    begin(typewriter)
    typewriter.type("broken (")
    typewriter.expect(r"broken \(")
    typewriter.type(CTRL_C)
    typewriter.expect(">>>")
    typewriter.type("1 + 1" + ENTER)
    typewriter.expect(r"2\r\n")
    typewriter.expect(">>>")
    leave(typewriter)


def test_tab_completes_names_of_the_live_session(typewriter: Typewriter) -> None:
    begin(typewriter)
    enter(typewriter, "globals()['a_long_' + 'variable_name'] = 40 + 2")
    typewriter.type("a_long" + TAB)
    typewriter.expect("a_long_variable_name")  # nobody has typed it
    typewriter.type(ENTER)
    typewriter.expect(r"42\r\n")
    typewriter.expect(">>>")
    leave(typewriter)


def test_tab_at_the_start_of_a_line_indents(typewriter: Typewriter) -> None:
    begin(typewriter)
    typewriter.type("if True:" + ENTER)
    typewriter.expect(r"\.\.\.")
    typewriter.type(TAB + "print('deep' + 'er')" + ENTER + ENTER)
    typewriter.expect(r"deeper\r\n")
    typewriter.expect(">>>")
    leave(typewriter)


def test_output_without_a_newline_does_not_eat_the_prompt(typewriter: Typewriter) -> None:
    begin(typewriter)
    typewriter.type("print('no' + 'newline', end='')" + ENTER)
    typewriter.expect(r"nonewline\r\n")
    typewriter.expect(">>>")
    leave(typewriter)


def test_history_is_kept_for_the_next_time_and_for_nobody_else(typewriter: Typewriter, cloche: Cloche) -> None:
    begin(typewriter)
    typewriter.type("'remember' + ' me'" + ENTER)
    typewriter.expect("'remember me'")
    typewriter.expect(">>>")
    leave(typewriter)
    history = cloche.cache / "repl_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    with Typewriter(cloche) as again:
        begin(again)
        again.type("\x1b[A")  # arrow up
        again.expect("'remember' \\+ ' me'")
        again.type(ENTER)
        again.expect(r"'remember me'\r\n")
        again.expect(">>>")
        leave(again)


def test_a_session_lost_while_completing_is_told(typewriter: Typewriter, cloche: Cloche) -> None:
    os.mkfifo(cloche.cwd / "sprung")
    begin(typewriter, "--workspace", ".")
    attribute = "lambda self, name: (open('sprung', 'w').close(), os._exit(1))"
    enter(typewriter, f"import os; trap = type('Trap', (), {{'__getattr__': {attribute}}})()")
    typewriter.type("trap.inner.x" + TAB)
    (cloche.cwd / "sprung").read_bytes()  # returns when completion has touched the trap
    typewriter.type(ENTER)
    typewriter.expect("the session ended during complete")
    typewriter.expect(">>>")
    leave(typewriter)
