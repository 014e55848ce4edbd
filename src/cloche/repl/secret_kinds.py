"""The kinds of secrets that are masked, and how each one looks.

A kind has a head, which decides and is of bounded length, and a tail: characters that go on belonging to it, however
many there are. With heads of bounded length a text can be judged piece by piece, with one outcome however it is cut.

Existing scanners (detect-secrets, gitleaks, trufflehog) look for secrets in files, line by line, to report them; they
neither mask nor take a stream, their rules have no bound on how far they look, which a stream needs, and their guesses
by entropy would mask hashes and identifiers that an agent needs. Texts are matched in their plain form
(`cloche.repl.escaped_text`): quotes and slashes are written without escapes here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LOOK_AHEAD = 1024
"""No head is longer; what it must see behind itself counts too."""
LOOK_BEHIND = 64
"""No head looks further back."""
LONGEST_END = 256
"""What a tail may end with, such as the last line of a private key, is not longer."""

NOTHING_MORE = ""
_WORD = r"[A-Za-z0-9_-]"
_TOKEN = rf"{_WORD}*+"
_VALUE = r"[A-Za-z0-9_\-+/=.~%]"
_MIXED = rf"(?={_WORD}{{0,48}}[0-9])(?={_WORD}{{0,48}}[A-Z])"
_PRIVATE_KEY = r"(?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?"
_ESCAPED_BLANK = r"\\{1,4}[nrt]"
_GAP = rf"\s{{0,12}}+(?:{_ESCAPED_BLANK}\s{{0,12}}+){{0,4}}+"
_SIGN = r"[:=][=>]?"
_OPENING = r"[bBrRuUfF]{0,2}(?:[\"']{3}|[\"'])"
"""Of a string, as Python writes it."""
# From one item of a list of lines to the next: '-----BEGIN ...', 'MII...', b'abc==', {3: "..."}, or "..." + "...".
_NEXT_ITEM = (
    rf"[\"'][ \t()\[\]{{}}+;]{{0,8}}(?:[,+\n]|{_ESCAPED_BLANK})(?:[\s()\[\]{{}}0-9:,+]|{_ESCAPED_BLANK}){{0,32}}"
    r"[bBrRuU]{0,2}[\"'](?=[A-Za-z0-9+/=]{0,80}+[\"'\\]|-----END |[A-Za-z-]{3,20}+: )"
)


def _not_behind(characters: str) -> str:
    """True where a word begins: behind none of `characters`, or behind an escape of a line end or another blank."""
    return rf"(?:(?<![{characters}])|(?<=\\[nrtfvab]))"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of secret."""

    name: str
    begins: tuple[str, ...]
    """What every one of them begins with: plain text, which is found quickly."""
    head: str
    """Matches what follows, as far as it takes to be sure."""
    tail: str = _TOKEN
    """Matches what else belongs to it."""
    kept: str = ""
    """Matches what is shown of the head."""
    edge: str = _not_behind("A-Za-z0-9")
    """What must be true before it."""


TOKENS: tuple[Kind, ...] = (
    Kind(
        "private key",
        ("-----BEGIN ",),
        rf"{_PRIVATE_KEY}-----",
        # Up to the line that ends it. Line ends may be written as \n in a string, or each line be a string.
        tail=rf"(?:[A-Za-z0-9+/=\s\\:,.()|>]|-(?!----)|{_NEXT_ITEM})*+(?:-----END {_PRIVATE_KEY}-----)?+",
        edge="",
    ),
    Kind("Anthropic key", ("sk-ant-",), rf"{_WORD}{{16}}", edge=_not_behind("A-Za-z0-9_-")),
    Kind("OpenRouter key", ("sk-or-v1-",), r"[0-9a-f]{32}", edge=_not_behind("A-Za-z0-9_-")),
    Kind("OpenAI key", ("sk-",), rf"(?:proj-|svcacct-|admin-)?{_MIXED}{_WORD}{{20}}", edge=_not_behind("A-Za-z0-9_-")),
    Kind("API key", ("sk-",), r"[0-9a-f]{32}", edge=_not_behind("A-Za-z0-9_-")),
    Kind("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{30}"),
    Kind("GitHub token", ("github_pat_",), r"[A-Za-z0-9_]{30}"),
    Kind("GitLab token", ("glpat-", "glptt-", "gldt-", "glrt-", "glsoat-"), rf"{_WORD}{{20}}"),
    Kind("AWS key id", ("AKIA", "ASIA", "ABIA", "ACCA"), r"[A-Z0-9]{16}(?![A-Za-z0-9])", NOTHING_MORE),
    Kind("Slack token", ("xox",), r"[abceoprs]-[A-Za-z0-9-]{10}"),
    Kind("Slack token", ("xapp-",), r"[0-9]-[A-Za-z0-9-]{10}"),
    Kind(
        "Slack webhook",
        ("hooks.slack.com/",),
        r"[a-z]{1,12}/[A-Za-z0-9/_-]{20}",
        tail=r"[A-Za-z0-9/_-]*+",
        kept=r"hooks\.slack\.com/[a-z]++/",
        edge="",
    ),
    Kind("Google key", ("AIza",), rf"{_WORD}{{35}}"),
    Kind("Google token", ("ya29.",), rf"{_WORD}{{20}}", tail=rf"(?:{_WORD}|\.)*+"),
    Kind("Google secret", ("GOCSPX-",), rf"{_WORD}{{20}}"),
    Kind("Stripe key", ("sk_", "rk_"), r"(?:live|test|prod)_[A-Za-z0-9]{16}"),
    Kind("Stripe secret", ("whsec_",), r"[A-Za-z0-9+/]{24}", tail=r"[A-Za-z0-9+/=]*+"),
    Kind("Hugging Face token", ("hf_", "api_org_"), r"[A-Za-z0-9]{30}"),
    Kind("npm token", ("npm_",), r"[A-Za-z0-9]{36}"),
    Kind("PyPI token", ("pypi-AgE",), rf"{_WORD}{{20}}"),
    Kind("SendGrid key", ("SG.",), rf"{_WORD}{{16,32}}\.{_WORD}{{16}}"),
    Kind("Twilio key", ("SK",), r"[0-9a-f]{32}(?![A-Za-z0-9])", NOTHING_MORE),
    Kind("DigitalOcean token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"[0-9a-f]{32}"),
    Kind("Telegram token", (":AA",), rf"{_WORD}{{30}}", edge=r"(?<=[0-9]{8})"),
    Kind("Groq key", ("gsk_",), r"[A-Za-z0-9]{30}"),
    Kind("xAI key", ("xai-",), r"[A-Za-z0-9]{40}"),
    Kind("Databricks token", ("dapi",), r"[0-9a-f]{32}"),
    Kind("Shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"[0-9a-fA-F]{32}"),
    Kind("Vault token", ("hvs.", "hvb.", "hvr."), rf"{_WORD}{{24}}"),
    Kind("age key", ("AGE-SECRET-KEY-1",), r"[A-Z0-9]{20}"),
    Kind("JWT", ("eyJ",), rf"{_WORD}{{10,512}}\.{_WORD}{{10}}", rf"(?:{_WORD}|\.)*+", edge=_not_behind("A-Za-z0-9_-")),
    Kind(
        "bearer token",
        ("bearer ", "Bearer ", "BEARER "),
        rf"\s{{0,2}}(?={_VALUE}{{0,64}}[0-9]){_VALUE}{{16}}",
        tail=rf"{_VALUE}*+",
        kept=r"(?i:bearer)\s++",
    ),
    Kind(
        "password",
        ("://",),
        # Up to the last @ of the word. Not behind a port, after which a path may have one.
        r"[^\s:/@\"'<>\[]{0,128}:(?!\[redacted|[0-9]{1,5}[/?#])[^\s\"'<>]{1,512}(?=@[A-Za-z0-9\[])",
        tail=NOTHING_MORE,
        kept=r"://[^:]*+:",
        edge="",
    ),
)


def _named(*names: str) -> str:
    """True right behind a `:` or `=` that follows one of `names`, quoted or not."""
    before = (f"{name}{quote}{blank}" for name in names for quote in ("", "[\"']") for blank in ("", r"\s"))
    return "(?i:" + "|".join(f"(?<={each}[:=])" for each in before) + ")"


_SURE = (
    "password", "passwd", "passphrase", "pwd", "secret", "secret[_-]key", "secretkey", "secret[_-]access[_-]key",
    "secretaccesskey", "account[_-]key", "accountkey", "private[_-]key", "privatekey",
)  # fmt: skip
_LIKELY = ("token", "api[_-]key", "apikey", "access[_-]key", "accesskey")

# NAME = "value". They begin with the sign between the two, which is not part of the head.
ASSIGNMENTS: tuple[Kind, ...] = (
    Kind(
        "credentials",
        (),
        rf"(?=[=>]?{_GAP}[\"']?[A-Za-z]{{5,6}}\s{{1,3}}{_VALUE}){_named('authorization')}"
        rf"[=>]?{_GAP}[\"']?(?i:bearer|basic|token|digest)\s{{1,3}}{_VALUE}{{8}}",
        tail=rf"{_VALUE}*+",
        kept=rf"{_SIGN}{_GAP}[\"']?[A-Za-z]++\s++",
    ),
    Kind(
        "password or key",
        (),
        rf"(?=[=>]?{_GAP}{_OPENING}[^\s\"']{{6}}){_named(*_SURE)}[=>]?{_GAP}{_OPENING}(?!\[redacted)[^\s\"']{{6}}",
        # Words of a phrase belong to it, where the quote that ends it is near.
        tail=r"(?:[^\s\"']|[ \t](?=[^\"'\n]{0,200}[\"']))*+",
        kept=rf"{_SIGN}{_GAP}{_OPENING}",
    ),
    Kind(
        "password or key",
        (),
        rf"(?=[=>]?{_GAP}[\"']?{_VALUE}{{16}}){_named(*_SURE, *_LIKELY)}[=>]?{_GAP}[\"']?"
        rf"(?={_VALUE}{{0,64}}[0-9])(?={_VALUE}{{0,64}}[A-Za-z]){_VALUE}{{16}}",
        tail=rf"{_VALUE}*+",
        kept=rf"{_SIGN}{_GAP}[\"']?",
    ),
)


PRIVATE_KEY = TOKENS[0]
"""The one kind that goes over several lines."""


def known_value(value: str) -> Kind:
    """A secret whose value is known, such as one that was handed to the host."""
    return Kind("secret", (value,), "", tail=NOTHING_MORE, edge="")


def whole_head(kind: Kind, *, edge: bool = True) -> str:
    """A pattern for the head of a token, with what it begins with, and with what must be true before it."""
    beginning = "|".join(re.escape(text) for text in kind.begins)
    return f"{kind.edge if edge else ''}(?:{beginning}){kind.head}"
