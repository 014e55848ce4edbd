"""Large contexts are kept once for all sessions that start with them, and arrive as if they were not."""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import sys
import threading
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jail.sessions import jail, value

import cloche
from cloche.backends.interpreter import examine
from cloche.backends.jail import templates as keeping
from cloche.backends.jail.houses import House, houses
from cloche.backends.jail.templates import Template
from cloche.backends.jail.texts import Layout, pieces
from cloche.conformance.waiting import wait_until
from cloche.session.processes import process_start

SET = ("json",)
"""What sessions here find imported: next to nothing."""
DIGEST = "import hashlib\nhashlib.sha256(context.encode('utf-8', 'surrogatepass')).hexdigest()"
TEXTS = {
    "ascii": "a line\r\nanother\n\0\x7f" * 50_000,
    "latin-1": "na\u00efve\r\n\0\xff" * 50_000,
    "two bytes": "\u20ac\ud800 x\udfff\0\r\n" * 50_000,
    "four bytes": "\U0001f600\ud83d\r\n\0a\u20ac" * 50_000,
    "one wide character": "a" * 500_000 + "\U0010ffff",
    "one character of two bytes": "a" * 500_000 + "\u0100",
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts need not be large to be kept."""
    monkeypatch.setattr(keeping, "LARGE", 100_000)
    monkeypatch.setattr(keeping, "WORTH_KEEPING", 40_000)


@pytest.fixture
def house() -> House:
    return houses.warm(examine(None, "jail"), SET)


def start(context: object, **options: object) -> cloche.SessionSandbox:
    sandbox = jail(preload=SET, **options)
    sandbox.initialize(context)
    return sandbox


def kept(sandbox: cloche.SessionSandbox) -> bool:
    """Whether its context was there before the session."""
    guest = sandbox._session.guest
    assert guest is not None
    return guest.channel.holds_context


def held(house: House) -> list[Template]:
    assert house.serving is not None
    assert house.serving.templates is not None
    house.serving.look(0)
    return list(house.serving.templates._held.values())


def parent_of(sandbox: cloche.SessionSandbox) -> int:
    return int(Path(f"/proc/{sandbox.guest_pid}/status").read_text().split("PPid:")[1].split()[0])


def private_bytes(pid: int | None) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


# -- what arrives ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_arrives_byte_by_byte_and_in_its_natural_form(house: House, kind: str) -> None:
    text = TEXTS[kind]
    with start(text) as sandbox:
        assert kept(sandbox)
        assert value(sandbox, DIGEST) == repr(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        # One that is wider than it needs to be would be equal to none, and found in no dict.
        again = "again = ''.join(list(context))\nimport sys\n"
        assert value(sandbox, again + "context == again, hash(context) == hash(again), len(context)") == repr(
            (True, True, len(text))
        )
        assert value(sandbox, "sys.getsizeof(context) == sys.getsizeof(again)") == "True"


def test_the_name_is_bound_as_without_a_template(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = ("context = 5", "type(context), len(context)", "del context", "context[:3]", "sorted(dir())")
    seen = []
    for size in (keeping.LARGE, sys.maxsize):
        monkeypatch.setattr(keeping, "LARGE", size)
        monkeypatch.setattr(keeping, "WORTH_KEEPING", size)
        with start("abc" * 100_000) as sandbox:
            results = [sandbox.execute(cell) for cell in cells]
            seen.append((kept(sandbox), [(result.outcome, result.value) for result in results]))
    assert [flag for flag, _ in seen] == [True, False]
    assert seen[0][1] == seen[1][1]


def test_nothing_of_a_session_is_seen_by_the_next(house: House) -> None:
    text = "x" * 200_000
    with start(text) as first:
        first.execute("import json, builtins\njson.left = builtins.left = mine = 1\nopen('f', 'w').write('x')").check()
        template = parent_of(first)
        with start(text) as second:
            assert parent_of(second) == template
            seen = "import json, os\nhasattr(json, 'left'), 'left' in dir(__builtins__), 'mine' in dir(), os.listdir()"
            assert value(second, seen) == "(False, False, False, [])"


def test_another_text_of_the_same_look_is_another_text(house: House) -> None:
    one = "a" * 400_000
    other = "a" * 100_000 + "b" + "a" * 299_999  # not where a glance falls
    for text in (one, other, one):
        with start(text) as sandbox:
            assert kept(sandbox)
            assert value(sandbox, "context.count('b')") == str(text.count("b"))
    assert len(held(house)) == 2


# -- sharing -----------------------------------------------------------------------------------


def test_sessions_share_the_memory_of_a_context(house: House) -> None:
    text = "0123456789abcdef" * (64 << 16)  # 64 MiB
    sandboxes = [start(text) for _ in range(4)]
    try:
        assert [value(sandbox, "context.count('f')") for sandbox in sandboxes] == [str(64 << 16)] * 4
        assert max(private_bytes(sandbox.guest_pid) for sandbox in sandboxes) < 8 << 20
        assert len({parent_of(sandbox) for sandbox in sandboxes}) == 1
    finally:
        for sandbox in sandboxes:
            sandbox.destroy()


def test_an_equal_text_need_not_be_the_same_object(house: House) -> None:
    with start("ab" * 100_000) as one, start("".join(["ab"] * 100_000)) as other:
        assert parent_of(one) == parent_of(other)


def test_a_smaller_one_is_kept_from_the_second_time_on(house: House) -> None:
    seen = []
    for _ in range(3):
        with start("y" * 60_000) as sandbox:
            seen.append(kept(sandbox))
            assert value(sandbox, "len(context)") == "60000"
    assert seen == [False, True, True]


@pytest.mark.parametrize(
    "context",
    ["z" * 39_999, ["z" * 200_000], {"a": "z" * 200_000}, None],
    ids=["small", "list", "dict", "none"],
)
def test_what_is_small_or_no_text_is_sent_to_each_session(house: House, context: object) -> None:
    for _ in range(2):
        with start(context) as sandbox:
            assert not kept(sandbox)
            if context is not None:
                assert sandbox.get_variable("context") == context
    assert held(house) == []


def test_sessions_from_a_template_are_made_ahead_too(house: House) -> None:
    text = "s" * 200_000
    with start(text) as sandbox:
        template = parent_of(sandbox)
    wait_until(lambda: held(house)[0].ready)
    for _ in range(2):
        start(text).destroy()

    def spares() -> set[int | None]:
        assert house.serving is not None
        assert house.serving.stock is not None
        kinds = [kind for kind in house.serving.stock._kinds.values() if "template" in kind.options]
        return {channel.pid for kind in kinds for _, channel in list(kind._ready)}

    wait_until(spares)
    known = spares()
    with start(text) as sandbox:
        assert sandbox.guest_pid in known
        assert parent_of(sandbox) == template
        assert value(sandbox, "len(context)") == "200000"


def test_a_session_that_crashed_starts_again_from_its_template(house: House) -> None:
    with start("c" * 200_000) as sandbox:
        template = parent_of(sandbox)
        assert sandbox.execute("import os\nos._exit(9)").exit_code == 9
        assert value(sandbox, "len(context)") == "200000"
        assert kept(sandbox)
        assert parent_of(sandbox) == template


def test_a_context_that_is_replaced_is_the_new_one_also_after_a_reset(house: House) -> None:
    with start("d" * 200_000) as sandbox:
        sandbox.initialize("e" * 300_000)
        assert value(sandbox, "context[0], len(context)") == "('e', 300000)"
        sandbox.reset()
        assert value(sandbox, "context[0], len(context)") == "('e', 300000)"
        sandbox.initialize(None)
        sandbox.reset()
        assert sandbox.execute("context").outcome == "error"


def test_many_at_once_wait_for_one_template(house: House) -> None:
    text = "m" * 4_000_000
    parents: list[int] = []

    def open_one() -> None:
        with start(text) as sandbox:
            assert value(sandbox, "len(context)") == "4000000"
            parents.append(parent_of(sandbox))

    callers = [threading.Thread(target=open_one) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(parents) == 8
    assert len(set(parents)) == 1


def test_an_async_sandbox_has_it_too(house: House) -> None:
    async def main() -> str | None:
        async with cloche.create_async_sandbox(backend="jail", preload=SET) as sandbox:
            await sandbox.initialize("q" * 200_000)
            return (await sandbox.execute("len(context)")).value

    assert anyio.run(main) == "200000"
    assert len(held(house)) == 1


# -- the end -----------------------------------------------------------------------------------


def test_a_template_that_is_not_wanted_any_more_ends_after_its_sessions(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "QUIET", 0.1)
    with start("t" * 200_000) as sandbox:
        template = parent_of(sandbox)
        wait_until(lambda: held(house) == [])
        assert value(sandbox, "len(context)") == "200000"
        assert process_start(template) is not None
        assert sandbox.execute("import os\nos._exit(7)").exit_code == 7  # whose end it still has to tell
    wait_until(lambda: process_start(template) is None)


def test_the_least_used_makes_room(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST", 2)
    with start("1" * 200_000) as oldest:
        for text in ("2" * 200_000, "3" * 200_000):
            start(text).destroy()
        assert [template.text[0] for template in held(house)] == ["2", "3"]
        assert value(oldest, "context[0]") == "'1'"


def test_what_would_take_too_much_memory_is_not_kept(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "MOST_BYTES", 300_000)
    start("1" * 200_000).destroy()
    with start("2" * 200_000) as sandbox:
        assert kept(sandbox)
        assert len(held(house)) == 1
    with start("3" * 400_000) as sandbox:
        assert not kept(sandbox)


def test_a_template_that_dies_costs_no_later_session(house: House) -> None:
    text = "k" * 200_000
    with start(text) as sandbox:
        template = parent_of(sandbox)
    wait_until(lambda: held(house)[0].ready)
    os.kill(template, signal.SIGKILL)
    wait_until(lambda: held(house) == [])
    with start(text) as sandbox:
        assert value(sandbox, "len(context)") == "200000"
        assert parent_of(sandbox) != template


def test_a_jail_that_died_is_replaced_though_a_template_was_in_it(house: House) -> None:
    with start("j" * 200_000) as sandbox:
        worker, template = sandbox.guest_pid, parent_of(sandbox)
        assert worker is not None
        zygote = int(Path(f"/proc/{template}/status").read_text().split("PPid:")[1].split()[0])
        os.kill(zygote, signal.SIGKILL)
        wait_until(lambda: process_start(template) is None and process_start(worker) is None)
        with pytest.raises(cloche.SessionLostError):
            sandbox.execute("1")
        assert value(sandbox, "len(context)") == "200000"


def test_one_that_never_came_up_is_not_tried_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slowly(text: str, layout: Layout) -> object:
        yield from list(pieces(text[:1000], layout))
        gate.wait(30)

    monkeypatch.setattr(keeping, "pieces", slowly)
    text = "n" * 200_000
    sandbox = jail(preload=SET)
    failures: list[BaseException] = []

    def begin() -> None:
        try:
            sandbox.initialize(text)
        except cloche.ClocheError as exc:
            failures.append(exc)

    with start(None) as small:
        zygote = parent_of(small)
    caller = threading.Thread(target=begin)
    caller.start()
    wait_until(lambda: held(house) and templates_of(zygote))
    for pid in templates_of(zygote):
        os.kill(pid, signal.SIGKILL)
    caller.join()
    gate.set()
    assert [type(failure) for failure in failures] == [cloche.StartError]
    with sandbox:
        sandbox.initialize(text)
        assert not kept(sandbox)
        assert value(sandbox, "len(context)") == "200000"


def templates_of(zygote: int) -> list[int]:
    """Children of the zygote that are in no seat: they have one number less than a worker."""
    found = []
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if int(fields["PPid"]) == zygote and len(fields["NSpid"].split()) == len(numbers(zygote)):
            found.append(int(path.parent.name))
    return found


def numbers(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/status").read_text().split("NSpid:")[1].splitlines()[0].split()


# -- the form of a text ------------------------------------------------------------------------


def narrowest(text: str) -> int:
    top = max(map(ord, text), default=0)
    return 1 if top < 0x100 else 2 if top < 0x10000 else 4


characters = st.sampled_from([0, 0x7F, 0x80, 0xFF, 0x100, 0xD800, 0xFFFF, 0x10000, 0x10FFFF]) | st.integers(0, 0x10FFFF)


@given(st.text(alphabet=characters.map(chr), min_size=1), st.booleans())
def test_the_width_of_a_text_is_known(text: str, with_copy: bool) -> None:
    text = "".join(list(text))
    if with_copy and not any(0xD800 <= ord(character) < 0xE000 for character in text):
        ctypes.pythonapi.PyUnicode_AsUTF8(ctypes.py_object(text))  # the interpreter keeps that form beside it
    layout = Layout.of(text)
    assert layout.width == narrowest(text)
    assert (layout.highest == 0x7F) == text.isascii()
    data = b"".join(pieces(text, layout))
    assert len(data) == layout.size
    codec = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[layout.width]
    assert data == text.encode(codec, "surrogatepass")
