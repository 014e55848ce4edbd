"""Redaction: secrets in what a model is shown are masked, streamed or whole, of any size."""

from __future__ import annotations

import itertools
import json
import re
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloche.repl import looking, redaction
from cloche.repl.escaped_text import PlainText
from cloche.repl.redaction import Redactor, cut_out, redact
from cloche.repl.secret_kinds import LOOK_AHEAD
from cloche.repl.sources import Source, Sources

LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0fX"
HEX = "0123456789abcdef"


def random_looking(length: int, alphabet: str = LETTERS) -> str:
    return "".join(alphabet[(i * 7 + i // 5) % len(alphabet)] for i in range(length))


def pem(kind: str, lines: int = 20) -> str:
    body = "\n".join([random_looking(64)] * lines)
    return f"-----BEGIN {kind}-----\n{body}==\n-----END {kind}-----"


# Put together here, so that no scanner of repositories takes them for real ones.
SECRETS = {
    "Anthropic": "sk-" + "ant-api03-" + random_looking(90),
    "OpenAI project": "sk-" + "proj-" + random_looking(120),
    "OpenAI": "sk-" + random_looking(48),
    "OpenRouter": "sk-" + "or-v1-" + random_looking(64, HEX),
    "DeepSeek": "sk-" + random_looking(32, HEX),
    "GitHub": "ghp" + "_" + random_looking(36),
    "GitHub fine-grained": "github" + "_pat_" + random_looking(82),
    "GitLab": "glpat" + "-" + random_looking(20),
    "AWS": "AK" + "IA" + random_looking(16, "ABCDEFGH234567"),
    "Slack": "xox" + "b-1234567890-" + random_looking(24),
    "Slack app": "xapp" + "-1-A01-" + random_looking(40),
    "Google": "AI" + "za" + random_looking(35),
    "Google OAuth": "ya" + "29." + random_looking(60),
    "Google client": "GOC" + "SPX-" + random_looking(28),
    "Stripe": "sk" + "_live_" + random_looking(24),
    "Stripe restricted": "rk" + "_test_" + random_looking(24),
    "Stripe webhook": "wh" + "sec_" + random_looking(32),
    "Hugging Face": "h" + "f_" + random_looking(34),
    "npm": "np" + "m_" + random_looking(36),
    "PyPI": "py" + "pi-AgEIcHlwaS5vcmc" + random_looking(60),
    "SendGrid": "S" + "G." + random_looking(22) + "." + random_looking(43),
    "Twilio": "S" + "K" + random_looking(32, HEX),
    "DigitalOcean": "do" + "p_v1_" + random_looking(64, HEX),
    "Groq": "gs" + "k_" + random_looking(52),
    "xAI": "xa" + "i-" + random_looking(80),
    "Databricks": "da" + "pi" + random_looking(32, HEX),
    "Shopify": "shp" + "at_" + random_looking(32, HEX),
    "Vault": "hv" + "s." + random_looking(90),
    "age": "AGE-SECRET" + "-KEY-1" + random_looking(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "JWT": "ey" + "JhbGciOiJIUzI1NiJ9." + "ey" + "J" + random_looking(200) + "." + random_looking(43),
    "RSA key": pem("RSA PRIVATE KEY"),
    "PKCS 8 key": pem("PRIVATE KEY"),
    "OpenSSH key": pem("OPENSSH PRIVATE KEY", 200),
    "PGP key": pem("PGP PRIVATE KEY BLOCK"),
}


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_of_a_well_known_kind_is_masked(kind: str):
    for before, after in (("", ""), ('key = "', '"\n'), ("use ", " here"), ("(", ")"), ("\n", "\n"), ("é", "é")):
        masked = redact(before + SECRETS[kind] + after)
        assert masked.startswith(before + "[redacted: ")
        assert masked.endswith("]" + after)
        assert len(masked) < len(before + after) + 40


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://user:hunter2@host/path", "https://user:[redacted: password]@host/path"),
        ("postgres://u:p%40ss:w@[::1]:5432/db", "postgres://u:[redacted: password]@[::1]:5432/db"),
        ("redis://:pw@localhost", "redis://:[redacted: password]@localhost"),
        ("Authorization: Bearer abcdefgh", "Authorization: Bearer [redacted: credentials]"),
        ('"authorization": "Basic dXNlcjpwYXNz"', '"authorization": "Basic [redacted: credentials]"'),
        ("-H 'bearer abc.def-012345678'", "-H 'bearer [redacted: bearer token]'"),
        ('password = "correct-horse"', 'password = "[redacted: password or key]"'),
        ("PASSWORD='p@$$w0rd'", "PASSWORD='[redacted: password or key]'"),
        ('{"client_secret": "hunter22!"}', '{"client_secret": "[redacted: password or key]"}'),
        ("API_KEY=0123456789abcdef01", "API_KEY=[redacted: password or key]"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG+x1", "aws_secret_access_key = [redacted: password or key]"),
        ('"token": "aaaabbbbcccc1111"', '"token": "[redacted: password or key]"'),
        ("AccountKey=abcDEF0123456789==;x", "AccountKey=[redacted: password or key];x"),
        (
            "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXX",
            "https://hooks.slack.com/services/[redacted: Slack webhook]",
        ),
        ('"key": "-----BEGIN PRIVATE KEY-----\\nMIIE\\nabc=\\n"', '"key": "[redacted: private key]"'),
        ("bot 123456789:AA" + "x1" * 17, "bot 123456789[redacted: Telegram token]"),
        ('password  =  "correct-horse"', 'password  =  "[redacted: password or key]"'),
        ("secret \t :\n    'correct-horse'", "secret \t :\n    '[redacted: password or key]'"),
        ("password => 'correct-horse'", "password => '[redacted: password or key]'"),
        (r"{\"password\": \"correct-horse\", \"a\": 1}", r"{\"password\": \"[redacted: password or key]\", \"a\": 1}"),
        (r"\\\"pwd\\\":\\\"correct-horse\\\"", r"\\\"pwd\\\":\\\"[redacted: password or key]\\\""),
        (
            r"\u0022pwd\u0022\u003a\u0022correct-horse\u0022",
            r"\u0022pwd\u0022\u003a\u0022[redacted: password or key]\u0022",
        ),
        ("&quot;pwd&quot;: &quot;correct-horse&quot;", "&quot;pwd&quot;: &quot;[redacted: password or key]&quot;"),
        ("{'password': b'correct-horse'}", "{'password': b'[redacted: password or key]'}"),
        ('secret = """correct-horse"""', 'secret = """[redacted: password or key]"""'),
        ('password = "correct horse battery"; a', 'password = "[redacted: password or key]"; a'),
        ("https://u:p@ss@host/x", "https://u:[redacted: password]@host/x"),
        ("https://u:p@ss/w@rd@host:80/x", "https://u:[redacted: password]@host:80/x"),
        (r"https:\/\/u:pass@host\/x", r"https:\/\/u:[redacted: password]@host\/x"),
        ("postgres://u:pa/ss@host/db", "postgres://u:[redacted: password]@host/db"),
    ],
)
def test_a_secret_in_a_url_a_header_or_an_assignment_is_masked_and_the_rest_is_kept(text: str, masked: str):
    assert redact(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "token = tokenizer.next_token()",
        "max_tokens=4096, token_count: 1234567890123456",
        "password = getpass.getpass('Password: ')",
        "The password: see the manual. The secret: love.",
        'token = "identifier"; key = "some_name"; secret = ""',
        "http://localhost:8080/path@2 https://npm.example:443/@types/node https://example.org/@user ssh://host:22/x",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "class='sk-fading-circle sk-spinner-double-bounce-container'",
        "task-ant-something-very-long-indeed risk-1234567890ABCDEFGHIJKLMN",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "AKIA is a prefix, AKIASHORT too, and MAKIAIOSFODNN7EXAMPLE is none",
        "import sk_test_helpers, hf_transfer; eyJ is how they begin; bearer of bad news 1",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUA",
    ],
)
def test_what_only_resembles_a_secret_is_left_alone(text: str):
    assert redact(text) == text


def test_the_source_of_the_standard_library_raises_no_false_alarm():
    folder = Path(sysconfig.get_path("stdlib"))
    for path in sorted(folder.glob("[a-h]*.py")):
        redactor = Redactor()
        text = path.read_text("utf-8", "replace")
        assert redactor.feed(text) + redactor.finish() == text, path
        assert redactor.found == 0


def test_a_private_key_that_does_not_end_does_not_take_the_prose_behind_it():
    shown = redact("the line `-----BEGIN PRIVATE KEY-----` begins it. Then [the rest] follows")
    assert shown == "the line `[redacted: private key]` begins it. Then [the rest] follows"


@pytest.mark.parametrize(
    "write",
    [
        lambda key: repr(key.splitlines()),
        lambda key: repr(tuple(key.splitlines(keepends=True))),
        lambda key: repr([line.encode() for line in key.splitlines()]),
        lambda key: repr(dict(enumerate(key.splitlines()))),
        lambda key: repr(list(enumerate(key.splitlines()))),
        json.dumps,
        lambda key: json.dumps(json.dumps({"key": key})),
        lambda key: json.dumps(key.splitlines(), indent=8),
        lambda key: json.dumps(json.dumps(key.splitlines(), indent=2)),
        lambda key: "\n".join(f'    "{line}\\n"' for line in key.splitlines()),
        lambda key: " + ".join(f"'{line}'" for line in key.splitlines()),
        lambda key: "\n".join(f"{number:4}| {line}" for number, line in enumerate(key.splitlines())),
        lambda key: key.replace("\n", "\n> "),
    ],
    ids=[
        "list", "tuple", "bytes", "dict", "pairs", "json", "json in json", "json list", "json list in json", "source",
        "sum", "numbered", "quoted mail",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["RSA key", "PGP key"])
def test_a_private_key_is_masked_however_its_lines_are_written(kind: str, write: Callable[[str], str]):
    shown = redact(write(f"user: me\n{SECRETS[kind]}\nplace: here"))
    assert "[redacted: private key]" in shown
    assert "me" in shown
    assert "here" in shown
    body = SECRETS[kind].splitlines()[1]
    assert not [part for part in (body[at : at + 8] for at in range(len(body) - 8)) if part in shown]


@pytest.mark.parametrize("kind", ["GitHub", "OpenAI", "npm"])
@pytest.mark.parametrize("before", [r"line\n", r"line\\n", r"C:\ ".rstrip()])
def test_a_token_behind_an_escape_or_a_backslash_is_masked(kind: str, before: str):
    assert redact(f"{before}{SECRETS[kind]} rest").startswith(f"{before}[redacted: ")


def test_known_secrets_are_found_as_programs_print_them():
    value = 'open "sesame"\nor\tknock\\twice é'
    for text in (value, repr(value), json.dumps(value), json.dumps(json.dumps(value)), repr(repr(value))):
        shown = redact(f"it is {text}!", known=[value])
        assert "sesame" not in shown, text


def test_two_keys_in_a_row_are_two():
    redactor = Redactor()
    shown = redactor.feed(f"{pem('PRIVATE KEY')}\n{pem('EC PRIVATE KEY')}") + redactor.finish()
    assert shown == "[redacted: private key]\n[redacted: private key]"
    assert redactor.found == 2


def test_known_secrets_are_masked_by_their_values():
    assert redact("it is open sesame!", known=["open sesame", ""]) == "it is [redacted: secret]!"
    assert redact("abcabc", known=["ab"]) == "abcabc", "too short to be told from other text"
    with pytest.raises(ValueError, match="1024"):
        Redactor(known=["x" * 2000])


def test_a_redactor_can_be_used_for_another_text():
    redactor = Redactor()
    redactor.feed("sk-")
    assert redactor.finish() == "sk-"
    assert redactor.feed(SECRETS["OpenAI"][3:]) + redactor.finish() == SECRETS["OpenAI"][3:]


def test_what_is_kept_back_is_bounded_whatever_comes():
    redactor = Redactor()
    for chunk in (pem("PRIVATE KEY")[:500], random_looking(100_000), "x" * 100_000, "-" * 100_000, "=" * 10_000):
        redactor.feed(chunk)
        assert len(redactor._text) <= len(chunk) + 5 * LOOK_AHEAD
        redactor.feed(" " * (5 * LOOK_AHEAD))
        assert len(redactor._text) <= 3 * LOOK_AHEAD


def test_a_secret_longer_than_anything_that_is_kept_is_masked_whole():
    redactor = Redactor()
    secret = "sk-" + "ant-" + random_looking(1_000_000)
    shown = "".join(redactor.feed(secret[i : i + 1000]) for i in range(0, len(secret), 1000))
    assert shown + redactor.finish() == "[redacted: Anthropic key]"


@pytest.mark.parametrize("before", ["a", "password='", " "])
def test_what_stands_before_a_cut_counts_behind_it(before: str):
    text = "x" * 5000 + before + SECRETS["OpenAI"] + " " * 5000
    redactor = Redactor()
    place = 5000 + len(before)
    shown = redactor.feed(text[: place + LOOK_AHEAD]) + redactor.feed(text[place + LOOK_AHEAD :]) + redactor.finish()
    assert shown == redact(text)
    assert (shown == text) == (before == "a"), "in the middle of a word it is none"


# -- properties ----------------------------------------------------------------------------------

fillers = st.one_of(
    st.text(alphabet="ab1-_.:=/@ \n\"'é", max_size=30),
    st.sampled_from(["x" * 900, " " * 1100, "=" * 700, "-" * 1030, "word " * 300, "a" * 3000, "://a:" * 250]),
)
pieces = st.lists(
    st.one_of(fillers, st.sampled_from([*SECRETS.values(), "password='secret1'", "://u:pw@h"])), max_size=8
)


@given(pieces, st.lists(st.integers(0, 20_000), max_size=12))
@settings(max_examples=200)
@example(["x" * 1000, SECRETS["JWT"], " ", SECRETS["RSA key"]], [1000, 1001, 1003, 1200, 1300, 2000, 2600])
def test_chunking_never_changes_the_outcome(parts: list[str], cuts: list[int]):
    text = "".join(parts)
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for step in (LOOK_AHEAD + 1, 4 * LOOK_AHEAD):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(redaction, "_STEP", step)
            redactor = Redactor()
            shown = "".join(redactor.feed(text[a:b]) for a, b in itertools.pairwise(places))
            assert shown + redactor.finish() == redact(text)


written = st.sampled_from([
    str, repr, json.dumps, lambda text: json.dumps(json.dumps(text)), lambda text: repr(text.splitlines()),
    lambda text: text.replace('"', "&quot;").replace("'", "&#39;"),
])  # fmt: skip


@given(
    st.lists(st.one_of(fillers, st.sampled_from([*SECRETS.values(), 'pwd  = "secret1"', "://u:p@w@h"])), max_size=8),
    written,
    st.lists(st.integers(0, 20_000), max_size=12),
)
@settings(max_examples=200)
def test_chunking_never_changes_the_outcome_for_texts_inside_texts(
    parts: list[str], write: Callable[[str], str], cuts: list[int]
):
    text = write("".join(parts))
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_STEP", LOOK_AHEAD + 1)
        redactor = Redactor()
        shown = "".join(redactor.feed(text[a:b]) for a, b in itertools.pairwise(places))
        assert shown + redactor.finish() == redact(text)


@given(st.text(alphabet="ab \n", max_size=50), st.sampled_from(sorted(SECRETS)), written)
def test_no_eight_characters_of_a_secret_are_left_in_a_text_inside_a_text(
    before: str, kind: str, write: Callable[[str], str]
):
    secret = SECRETS[kind]
    shown = redact(write(f"{before} {secret} end"))
    lines = [line for line in secret.splitlines() if "-----" not in line]
    assert not [part for line in lines for at in range(8, len(line) - 8) if (part := line[at : at + 8]) in shown]


@given(st.text(alphabet="ab\\\"'/&quot;u0022x3=: \t", max_size=80))
def test_the_plain_form_leads_back_to_the_written_one(text: str):
    plain = PlainText(text)
    starts = [plain.written_index(place) for place in range(len(plain.text) + 1)]
    assert (starts[0], starts[-1]) == (0, len(text))
    assert starts == sorted(set(starts))
    for place, start in enumerate(starts[:-1]):
        rest = PlainText(text[start:]).text
        assert rest == plain.text[place:], "it may be cut before any of its characters"


@given(pieces)
def test_masking_twice_is_masking_once(parts: list[str]):
    once = redact("".join(parts))
    assert redact(once) == once


@given(st.text(alphabet="ab \n", max_size=50), st.sampled_from(sorted(SECRETS)), st.text(alphabet="ab \n", max_size=50))
def test_no_eight_characters_of_a_secret_are_left(before: str, kind: str, after: str):
    secret = SECRETS[kind]
    shown = redact(f"{before} {secret} {after}")
    lines = re.split(r"\s+", secret)
    secret_parts = {line[i : i + 8] for line in lines for i in range(len(line) - 8) if "-----" not in line}
    assert not any(part in shown for part in secret_parts if not re.fullmatch("[A-Z ]+", part))


@pytest.mark.parametrize(
    "piece",
    ["=", "n=", "token=", 'password:"', "eyJ", "sk-", "://a:", "-----BEGIN PRIVATE KEY-----", "-", "bearer ", "SG.a."],
)
def test_every_place_is_judged_a_bounded_number_of_times(piece: str, monkeypatch: pytest.MonkeyPatch):
    """Counted in searches begun, for a hostile text and for one of twice its length."""
    counts = []
    for size in (20_000, 40_000):
        calls = [0]
        rules = redaction._DEFAULT

        class Counted:
            def __getattr__(self, name: str, calls: list[int] = calls, rules: redaction._Rules = rules) -> object:
                calls[0] += name.startswith("next_")
                return getattr(rules, name)

        text = piece * (size // len(piece))
        redactor = Redactor()
        monkeypatch.setattr(redactor, "_rules", Counted())
        for start in range(0, len(text), 1000):
            redactor.feed(text[start : start + 1000])
        redactor.finish()
        counts.append(calls[0])
    assert counts[1] <= 2.2 * counts[0] + 10


@pytest.mark.parametrize("kind", SECRETS)
def test_no_window_on_a_text_shows_a_part_of_a_secret(kind: str):
    secret = SECRETS[kind]
    source = Source("context", f"some words before: {secret}\nand words behind it")
    start = source.text.index(secret)
    lines = [secret] if "\n" not in secret else secret.split("\n")[1:-1]
    parts = {line[at : at + 8] for line in lines for at in range(8, len(line) - 8)}
    for place in range(start - 20, start + len(secret) + 20, 7):
        seen = redact(source.piece(place, place + 50)) + redact(source.piece(max(place - 50, 0), place))
        assert not [part for part in parts if part in seen], seen


@given(st.text("ab \n", max_size=60), st.integers(0, 70), st.integers(0, 70))
def test_a_part_of_a_text_without_secrets_is_that_part(text: str, start: int, stop: int):
    assert cut_out(text, start, stop) == text[start:stop]
    assert Source("context", text).piece(start, stop) == text[start:stop]


def test_lines_of_a_private_key_are_not_shown_one_by_one():
    source = Source("context", f"one\n{SECRETS['PKCS 8 key']}\nlast: mN5p")
    sources = Sources([], lambda _: None)
    sources.set_context(source.text)
    hits = looking.grep(sources, 100, None, "mN5p", before=1, after=1)["hits"]
    shown = [line for hit in hits for line in (*hit["before"], hit["text"], *hit["after"])]
    assert set(shown) == {"[redacted: private key]", "last: mN5p"}
    assert source.lines(4, 99) == "[redacted: private key]\nlast: mN5p"
    assert source.lines(1, 2).startswith("one\n-----BEGIN")


def test_a_line_is_cut_behind_a_secret_and_not_in_it():
    secret = SECRETS["GitHub"]
    sources = Sources([], lambda _: None)
    for gap in range(60, 110, 3):
        sources.set_context(f"{'x' * 500} {secret} {'y' * gap} needle {'z' * 500}")
        (hit,) = looking.grep(sources, 100, None, "needle")["hits"]
        assert secret[12:20] not in redact(hit["text"])


def test_without_masking_pieces_are_as_they_are():
    sources = Sources([], lambda _: None, masked=False)
    sources.set_context(SECRETS["PKCS 8 key"])
    assert looking.peek(sources, None, 64, 100) == SECRETS["PKCS 8 key"][100:164]
