"""What can be looked at: handles and paths under the roots, and nothing else."""

from __future__ import annotations

import os

import pytest

from cloche import LookError, REPLConfig, REPLEnvironment, RequestError, SourceError
from cloche.repl import looking
from cloche.repl.searching import Text
from cloche.repl.sources import Sources, as_text
from cloche.repl.turn import OpenTurn
from cloche.session.workspace import Workspace
from cloche_guest.values import RemoteObject


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    (folder / "deep").mkdir(parents=True)
    (folder / "notes.txt").write_bytes("erste Zeile\r\nzweite: größer\r\n".encode())
    (folder / "deep" / "more.txt").write_text("more")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def sources(root):
    found = Sources([str(root)], {3: "stored\noutput"}.get)
    found.set_context("one\ntwo\nthree\n")
    return found


def test_peek_shows_the_beginning(sources):
    assert looking.peek(sources, 5) == "one\nt"
    assert looking.peek(sources) == "one\ntwo\nthree\n"


def test_peek_takes_a_source_a_start_and_lines(sources):
    assert looking.peek(sources, "out:3", 6) == "stored"
    assert looking.peek(sources, 6, "out:3") == "stored"
    assert looking.peek(sources, None, 3, 4) == "two"
    assert looking.peek(sources, start=-6) == "three\n"
    assert looking.peek(sources, lines=(2, 3)) == "two\nthree"
    assert looking.peek(sources, lines="2-2") == looking.peek(sources, lines=2) == "two"
    assert looking.peek(sources, "notes.txt", lines=(2, 2)).rstrip("\r") == "zweite: größer"


@pytest.mark.parametrize(
    "arguments",
    [{"n": -1}, {"n": "x"}, {"n": True}, {"start": 1.5}, {"lines": "a"}, {"lines": (1,)}, {"lines": 0}, {"lines": -1},
     {"lines": (-3, -1)}, {"lines": (3, 2)}, {"lines": "3-2"}],
)  # fmt: skip
def test_a_look_without_a_meaning_is_refused(sources, arguments):
    with pytest.raises(LookError):
        looking.peek(sources, **arguments)


@pytest.mark.parametrize(
    "name",
    ["../secret.txt", "/etc/passwd", "deep/../../secret.txt", "nothing.txt", "a\0b", "out:9", "x" * 5000, "two\nlines",
     5, b"notes.txt", "", "deep"],
)  # fmt: skip
def test_what_is_no_source_or_lies_outside_is_not_seen(sources, name):
    with pytest.raises(SourceError):
        sources.find(name)


def test_a_link_out_of_the_root_is_not_followed(sources, root):
    os.symlink(root.parent / "secret.txt", root / "link.txt")
    os.symlink(root.parent, root / "folder")
    for name in ("link.txt", "folder/secret.txt", str(root / "link.txt")):
        with pytest.raises(SourceError):
            sources.find(name)


def test_without_roots_no_file_is_seen(root):
    bare = Sources([], lambda number: None)
    with pytest.raises(SourceError, match="may be seen"):
        bare.find(str(root / "notes.txt"))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_the_mark_at_the_beginning_of_a_file_tells_its_encoding_and_is_no_part_of_it(sources, root, encoding):
    text = "Größe,Wert\n" if encoding != "utf-16-be" else "\ufeffGröße,Wert\n"
    (root / "table.csv").write_bytes(text.encode(encoding))
    assert looking.peek(sources, "table.csv") == "Größe,Wert\n"
    assert looking.grep(sources, 10, None, "^größe", "table.csv")["total"] == 1


def test_what_the_code_gave_instead_of_a_text_is_named_as_the_code_knows_it(sources):
    given = RemoteObject("re.Pattern", "re.compile('x')")
    with pytest.raises(LookError, match=r"(?s)not re\.compile\('x'\).*pattern\.pattern"):
        looking.grep(sources, 10, None, given)


def test_a_file_that_changes_is_read_again(sources, root):
    assert sources.find("deep/more.txt").text == "more"
    (root / "deep" / "more.txt").write_text("other text")
    assert sources.find("deep/more.txt").text == "other text"


def test_a_file_that_has_only_just_changed_is_not_kept(sources, root):
    (root / "new.txt").write_text("a second change may carry the same time")
    sources.find("new.txt")
    assert not sources._files


def test_what_is_known_of_a_file_of_the_workspace_is_known_without_reading_it(sources, tmp_path, monkeypatch):
    workspace = Workspace(tmp_path, private=False)
    sources.workspace = lambda: workspace
    monkeypatch.setattr(Workspace, "read", lambda *_: pytest.fail("read"))
    (tmp_path / "giant").touch()
    os.truncate(tmp_path / "giant", 1 << 40)
    assert looking.file_info(sources, "giant")["size"] == 1 << 40
    assert sources.knows("giant")


def test_a_file_of_the_workspace_is_read_once_while_it_does_not_change(sources, tmp_path, monkeypatch):
    workspace = Workspace(tmp_path, private=False)
    sources.workspace = lambda: workspace
    monkeypatch.setattr("cloche.repl.sources.CLOCK_GRAIN", 0)
    (tmp_path / "a.txt").write_text("one")
    assert sources.find("a.txt") is sources.find("./a.txt")
    (tmp_path / "a.txt").write_text("other")
    assert sources.find("a.txt").text == "other"


def test_grep_takes_both_orders_when_only_one_names_a_text(sources):
    assert [hit["text"] for hit in looking.grep(sources, 100, None, "out", "out:3")["hits"]] == ["output"]
    assert [hit["text"] for hit in looking.grep(sources, 100, None, "out:3", "out")["hits"]] == ["output"]
    assert looking.grep(sources, 100, None, "t", "notes.txt")["source"] == "notes.txt"


def test_a_search_is_given_up_when_its_turn_is_over(sources):
    turn = OpenTurn(1)
    assert looking.grep(sources, 100, turn.check, "two")["total"] == 1
    turn.end()
    with pytest.raises(RequestError, match="the turn is over"):
        looking.grep(sources, 100, turn.check, "two")


def test_grep_never_takes_raw_text_for_a_source(sources):
    with pytest.raises(SourceError):
        looking.grep(sources, 100, None, "a", "some text to search in\nwith lines")


def test_list_dir_and_file_info_see_the_root(sources, root):
    listing = looking.list_dir(sources, str(root))
    assert [(entry["name"], entry["is_dir"]) for entry in listing["entries"]] == [("deep", True), ("notes.txt", False)]
    info = looking.file_info(sources, "notes.txt")
    assert (info["type"], info["size"], info["extension"]) == ("file", 31, ".txt")
    with pytest.raises(SourceError):
        looking.list_dir(sources, "/etc")


def test_roots_may_lie_in_each_other_be_links_or_be_missing(root, tmp_path):
    os.symlink(root, tmp_path / "link")
    found = Sources([str(tmp_path / "link"), str(root / "deep"), str(root), str(tmp_path / "missing")], lambda _: None)
    assert found.roots.folders == [str(root), str(root / "deep"), str(tmp_path / "missing")]
    for name in ("more.txt", "deep/more.txt", str(tmp_path / "link" / "deep" / "more.txt")):
        assert found.find(name).text == "more"


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "/dev/stdin", "deep"])
def test_only_plain_files_are_read(root, name):
    os.mkfifo(root / "pipe")
    found = Sources([str(root), "/dev"], lambda _: None)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SourceError, match=r"plain file|directory"):
        found.find(name)
    assert len(os.listdir("/proc/self/fd")) == before
    assert looking.file_info(found, name)["type"] in ("other", "folder")


def test_a_folder_that_becomes_a_link_between_two_looks_is_not_followed(sources, root, monkeypatch):
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "more.txt").write_text("secret")
    resolve = sources.roots.resolve

    def resolve_and_swap(path):
        real = resolve(path)
        (root / "deep").rename(root / "was")
        os.symlink(root.parent / "outside", root / "deep")
        return real

    monkeypatch.setattr(sources.roots, "resolve", resolve_and_swap)
    with pytest.raises(SourceError, match="cannot be read"):
        sources.find("deep/more.txt")


def test_a_file_that_grows_while_it_is_read_is_read_within_bounds_and_not_kept(sources, root, monkeypatch):
    monkeypatch.setattr("cloche.repl.sources.MOST_OF_A_FILE", 10)
    (root / "log.txt").write_text("0123456789")
    assert sources.find("log.txt").text == "0123456789"
    with open(root / "log.txt", "a") as log:
        log.write("more")
    with pytest.raises(SourceError, match="more than the 10 bytes"):
        sources.find("log.txt")


def test_what_is_kept_of_files_is_bounded(sources, root, monkeypatch):
    monkeypatch.setattr("cloche.repl.sources.KEPT_BYTES", 100)
    monkeypatch.setattr("cloche.repl.sources.CLOCK_GRAIN", 0)
    for number in range(5):
        (root / f"{number}.txt").write_text("x" * 60)
        sources.find(f"{number}.txt")
    assert len(sources._files) == 1


def test_a_text_is_made_searchable_once_however_many_search_it(monkeypatch):
    made: list[object] = []

    class Counted(Text):
        def __init__(self, data: str) -> None:
            made.append(data)
            super().__init__(data)

    monkeypatch.setattr("cloche.repl.sources.Text", Counted)
    with REPLEnvironment("a\nb\n" * 100_000, backend="native") as env:
        result = env.execute("[grep(p).total for p in ('a', 'b', 'c', 'd', 'e', 'f')]")
        assert all(call.ahead for call in result.calls)
    assert len(made) == 1


def test_list_dir_without_a_path_names_the_roots(root):
    with REPLEnvironment("", {"roots": [root]}, backend="native") as env:
        assert env.execute("print(list_dir())").output == f"{root}/"


@pytest.mark.parametrize("length", [0, 1, 7, 1019, 5000])
@pytest.mark.parametrize("n_chunks", [1, 3, 20])
@pytest.mark.parametrize("overlap", [0, 5, 10_000])
def test_cuts_lose_nothing(length, n_chunks, overlap):
    text = "".join("\n" if number % 37 == 0 else chr(97 + number % 26) for number in range(length))
    found = looking.cuts(text, n_chunks, overlap)
    joined, at = "", 0
    for start, end in found:
        assert start <= at
        joined += text[at:end]
        at = end
    assert joined == text


@pytest.mark.parametrize(
    ("context", "text"),
    [("a", "a"), (b"\xffa", "\ufffda"), (["a", "b"], "a\nb"), ({"a": 1}, '{\n "a": 1\n}'), (5, "5")],
)
def test_a_context_of_any_kind_can_be_looked_at(context, text):
    assert as_text(context) == text


@pytest.mark.parametrize("context", [b"by\xfftes\n" * 30, ["a", "b", "c"], {"k": [1, "\u00fc"]}, 5, "", "x\ud800y"])
def test_pieces_of_a_context_of_any_kind_make_its_text(context):
    with REPLEnvironment(context, backend="native") as env:
        joined = env.execute("print(ascii(''.join(c['text'] for c in chunk_context(3, overlap=0))))").output
    assert joined == ascii(as_text(context))


def test_files_of_the_workspace_are_seen_by_the_paths_that_the_code_gives_them():
    with REPLEnvironment("text", REPLConfig(guard="off"), backend="jail") as env:
        env.execute("import os; os.mkdir('d'); open('d/a.txt', 'w').write('inside\\nlines'); os.getcwd()")
        result = env.execute(
            "print(peek('d/a.txt', 6), peek('/app/d/a.txt', lines=2)); print(list_dir('d'), list_dir())\n"
            "print(file_info('d/a.txt')['size'], grep('side', 'd/a.txt'))"
        )
        assert result.output == "inside lines\na.txt (12 bytes) d/\n12 1: inside"
        empty = env.execute(
            "os.mkdir('e'); print(list_dir('e'), file_info('e')['type'], list_dir('d/../e'))\npeek('e')"
        )
        assert empty.output.startswith("empty folder empty\n")
        assert "'e' is not a plain file" in empty.output


def test_a_link_in_the_workspace_does_not_lead_out():
    with REPLEnvironment("text", REPLConfig(guard="off"), backend="jail") as env:
        result = env.execute("import os; os.symlink('/etc/passwd', 'x'); peek('x')")
        assert "SourceError" in str(result.error)
