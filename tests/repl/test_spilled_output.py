"""Output spill-to-file: stored whole, summed up in its place, within bounds."""

from __future__ import annotations

import gc
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest

from cloche import AsyncREPLEnvironment, PromptConfig, REPLConfig, REPLEnvironment
from cloche.conformance.waiting import wait_until
from cloche.repl.spill import Spill, bounded_summary, compose, head_and_tail, summary_request

LONG = "\n".join(f"row {number}" for number in range(3000))
PROMPT = PromptConfig()


def test_lines_are_counted_as_peek_counts_them():
    pages = "\x0c".join(map(str, range(100)))
    assert head_and_tail(f"{pages}\r\nend\n") == f"{pages[:200]}... [{len(pages) - 200} more]\nend"


@pytest.fixture
def env(tmp_path):
    with REPLEnvironment("text", REPLConfig(spill_dir=str(tmp_path)), backend="native") as environment:
        yield environment


def test_output_over_the_cap_goes_whole_to_the_file_of_its_turn(env, tmp_path):
    result = env.execute("for n in range(3000): print('row', n)")
    (folder,) = tmp_path.iterdir()
    assert result.spilled == "out:1"
    assert (folder / "turn_1.txt").read_text() == LONG
    assert (folder / "turn_1.txt").stat().st_mode & 0o077 == 0


def test_output_at_the_cap_is_shown_as_it_is(env):
    assert env.execute("print('x' * 8192)").spilled is None
    assert env.execute("print('x' * 8193)").spilled == "out:2"


def test_without_a_model_the_summary_is_the_head_and_the_tail(env):
    lines = env.execute("for n in range(3000): print('row', n)").output.splitlines()
    assert lines[1:16] == [f"row {number}" for number in range(15)]
    assert lines[16] == "... [2980 lines left out: 16 to 2995]"
    assert lines[17:22] == [f"row {number}" for number in range(2995, 3000)]


def test_one_very_long_line_is_cut_too(env):
    result = env.execute("print('x' * 500_000)")
    assert len(result.output) <= PROMPT.max_output_preview
    assert env.execute("len(peek('out:1', 600_000))").output == "500000"


def test_every_hint_of_the_footer_can_be_typed(env):
    shown = env.execute("for n in range(3000): print('row', n)").output
    hints = re.findall(r"(?:peek|grep)\(.*?\)(?=,|\])", shown.rpartition("To see more: ")[2])
    assert len(hints) == 3
    for hint in hints:
        assert env.execute(f"print({hint})").error is None, hint


def test_the_order_of_the_seed_works_for_grep(env):
    env.execute("for n in range(3000): print('row', n)")
    assert env.execute("print(grep('out:1', 'row 77$'))").output == "78: row 77"


def test_the_path_of_a_stored_output_is_a_source_too(env):
    env.execute("for n in range(3000): print('row', n)")
    path = next(iter(Path(env.config.spill_dir).iterdir())) / "turn_1.txt"
    assert env.execute(f"print(peek('{path}', 5), grep('{path}', 'row 77$'), grep('row 77$', '{path}'))").output == (
        "row 0 78: row 77 78: row 77"
    )
    (path.parent / "turn_2.txt").write_text("not an output of this session")
    assert "SourceError" in str(env.execute(f"peek('{path.parent}/turn_2.txt')").error)


def test_a_model_keeps_a_rolling_summary():
    asked: list[str] = []

    def model(prompt: str) -> str:
        asked.append(prompt)
        return f"summary {len(asked)}\n" + "more\n" * 50

    with REPLEnvironment("text", backend="native", llm=model) as env:
        first = env.execute("print('a' * 9000)")
        second = env.execute("print('b' * 9000)")
    assert "summary 1" in first.output
    assert first.output.count("more\n") == PROMPT.summary_lines - 1
    assert "Summary of the outputs so far:\nsummary 1" in asked[1]
    assert "b" * 4000 in asked[1]
    assert "summary 2" in second.output


def test_an_error_is_told_whatever_a_model_makes_of_the_output_before_it():
    with REPLEnvironment("", backend="native", llm=lambda _: "all is well") as env:
        result = env.execute("print('x' * 9000)\nraise ValueError('no' * 2000)")
        assert "all is well\n[ERROR] ValueError: nono" in result.output
        assert len(result.output) <= PROMPT.max_output_preview


def test_a_model_that_fails_costs_only_its_summary():
    def model(prompt: str) -> str:
        raise ConnectionError("down")

    with REPLEnvironment("text", backend="native", llm=model) as env:
        assert "row 14" in env.execute("for n in range(3000): print('row', n)").output


def test_a_model_that_does_not_answer_costs_only_its_summary():
    never = threading.Event()
    code = "for n in range(3000): print('row', n)"
    with REPLEnvironment("text", backend="native", llm=lambda _: never.wait(), bridge_timeout_ms=100) as env:
        assert "row 14" in env.execute(code).output
    never.set()

    async def hang(prompt: str) -> str:
        await anyio.sleep_forever()
        raise AssertionError(prompt)

    async def turn() -> str:
        async with AsyncREPLEnvironment("text", backend="native", llm=hang, bridge_timeout_ms=100) as env:
            return (await env.execute(code)).output

    assert "row 14" in anyio.run(turn)


def test_no_model_is_asked_about_the_output_before_the_answer():
    asked: list[str] = []
    with REPLEnvironment("text", backend="native", llm=asked.append) as env:
        env.execute("peek()")
        assert env.execute("print('x' * 9000)\nFINAL('done')").is_final
    assert asked == []


def test_the_oldest_outputs_give_way_to_the_quota(tmp_path):
    spill = Spill(str(tmp_path), 100)
    for turn in (1, 2, 3):
        spill.store(turn, "x" * 40)
    assert spill.handles == ["out:2", "out:3"]
    assert spill.read(1) is None
    assert spill.read(3) == "x" * 40


def test_what_was_stored_goes_with_the_environment(tmp_path):
    with REPLEnvironment("text", REPLConfig(spill_dir=str(tmp_path)), backend="native") as env:
        env.execute("print('x' * 9000)")
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


def test_two_environments_with_one_folder_do_not_overwrite_each_other(tmp_path):
    config = REPLConfig(spill_dir=str(tmp_path))
    with REPLEnvironment("", config, backend="native") as one, REPLEnvironment("", config, backend="native") as other:
        one.execute("print('a' * 9000)")
        other.execute("print('b' * 9000)")
        assert one.execute("peek('out:1', 1)").output == "'a'"
        assert other.execute("peek('out:1', 1)").output == "'b'"


def test_a_summary_never_outgrows_its_preview():
    text = compose(3, LONG, Path("/x/turn_3.txt"), "word " * 5000, PROMPT)
    assert len(text) <= PROMPT.max_output_preview
    assert text.endswith(")]")


def test_what_a_model_is_asked_is_bounded_whatever_it_said_before():
    assert len(summary_request("s" * 2048, "x" * 10**6, PROMPT)) < 7000
    assert len(bounded_summary("long " * 10**5, PROMPT)) <= PROMPT.summary_tokens * 4


@pytest.mark.parametrize("text", ["", "\n", "a", "a\n" * 19, "\n" * 100])
def test_any_text_has_a_head_and_a_tail(text):
    assert len(head_and_tail(text).splitlines()) <= 21


def test_an_output_that_cannot_be_stored_costs_no_turn(tmp_path):
    (tmp_path / "file").write_text("")
    with REPLEnvironment("", {"spill_dir": str(tmp_path / "file" / "folder")}, backend="native") as env:
        result = env.execute("print('x' * 9000)")
        assert result.spilled is None
        assert "could not be stored: Not a directory" in result.output
        assert len(result.output) <= PROMPT.max_output_preview
        assert env.execute("1 + 1").output == "2"


def test_an_output_over_the_quota_is_cut_between_characters(tmp_path):
    spill = Spill(str(tmp_path), 101)
    spill.store(1, "\u00fc" * 100)
    assert spill.read(1) == "\u00fc" * 50


def test_an_output_that_is_not_stored_whole_says_so(tmp_path):
    config = {"spill_dir": str(tmp_path), "spill_quota_bytes": 10_000}
    with REPLEnvironment("", config, backend="native") as env:
        result = env.execute("print('x' * 20_000)")
        assert result.output.startswith(
            "[Output: 20000 characters, 1 line, the first 10000 characters stored as out:1 ("
        )


def test_what_a_full_disk_had_room_for_does_not_stay_there(tmp_path):
    spill = Spill(str(tmp_path), 100_000)
    spill.store(1, "before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            spill.store(2, "x" * 50_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in spill.folder.iterdir()] == ["turn_1.txt"]


def test_outputs_are_stored_again_after_somebody_tidied_up(tmp_path):
    spill = Spill(str(tmp_path / "outputs"), 1000)
    spill.store(1, "gone")
    shutil.rmtree(tmp_path / "outputs")
    spill.store(2, "there")
    assert (spill.read(1), spill.read(2), spill.handles) == (None, "there", ["out:2"])


def test_a_link_in_place_of_a_stored_output_is_not_followed(tmp_path):
    (tmp_path / "secret").write_text("secret")
    spill = Spill(str(tmp_path / "outputs"), 1000)
    path = spill.store(1, "output")
    path.unlink()
    path.symlink_to(tmp_path / "secret")
    assert spill.read(1) is None
    spill.store(1, "in its place")
    assert spill.read(1) == "in its place"
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_folder_that_somebody_else_made_is_not_used(tmp_path):
    spill = Spill(str(tmp_path), 1000)
    (tmp_path / spill.session_id).mkdir()
    with pytest.raises(FileExistsError):
        spill.store(1, "output")


def test_outputs_of_an_environment_that_nobody_closed_go_with_it():
    spill = Spill(None, 1000)
    folder = spill.store(1, "output").parent
    assert folder.exists()
    del spill
    gc.collect()
    wait_until(lambda: not folder.exists(), "the outputs of an environment that is gone are still there")


def test_hundreds_of_spilling_turns_stay_within_the_quota(tmp_path):
    with REPLEnvironment("", {"spill_dir": str(tmp_path), "spill_quota_bytes": 50_000}, backend="native") as env:
        for _ in range(100):
            env.execute("print('x' * 9000)")
        (folder,) = tmp_path.iterdir()
        assert sum(file.stat().st_size for file in folder.iterdir()) <= 50_000
        assert "there is no stored output" in str(env.execute("peek('out:1')").error)


def test_outputs_of_a_process_that_was_killed_go_when_the_next_is_stored(tmp_path):
    code = (
        "import os, sys; from cloche.repl.spill import Spill\n"
        "spill = Spill(sys.argv[1], 1000)\nprint(spill.store(1, 'left').parent, flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=50)
    left, mine = Path(killed.stdout.strip()), tmp_path / "mine"
    mine.mkdir()
    assert (left / "turn_1.txt").read_text() == "left"
    one, other = Spill(str(tmp_path), 1000), Spill(str(tmp_path), 1000)
    kept = one.store(1, "kept")
    other.store(1, "output")
    assert not left.exists()
    assert kept.exists()
    assert mine.exists()


def test_what_code_puts_in_the_place_of_a_stored_output_is_not_waited_for_or_followed(tmp_path):
    spill = Spill(str(tmp_path), 1000)
    path = spill.store(1, "text")
    (tmp_path / "secret").write_text("of the host")
    path.unlink()
    path.symlink_to(tmp_path / "secret")
    assert spill.read(1) is None
    path.unlink()
    os.mkfifo(path)
    assert spill.read(1) is None
    assert spill.store(1, "again") == path
    assert spill.read(1) == "again"
    assert (tmp_path / "secret").read_text() == "of the host"
    spill.clear()
