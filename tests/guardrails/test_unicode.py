"""Unicode Sanitizer: characters of prose in code, replaced where they cannot be meant otherwise."""

from __future__ import annotations

import ast
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cloche
from cloche.guardrails.characters import PLAIN, SINGLE_QUOTES
from cloche.guardrails.unicode import Replacement, Scanner, sanitize_code_unicode

TABLE = {
    # the characters of the specification
    "theta = 47°": "theta = 47",
    "x = 5 × 3": "x = 5 * 3",
    "x = 6 ÷ 3": "x = 6 / 3",
    "x = 5 − 3": "x = 5 - 3",
    "x = 5 – 3 — 1": "x = 5 - 3 - 1",
    "x = 5 ± 3": "x = 5 +- 3",
    "a ≤ b ≥ c ≠ d": "a <= b >= c != d",
    "y = x² + x³": "y = x**2 + x**3",
    "x⁰ + x¹ + x⁴ + x⁹": "x**0 + x**1 + x**4 + x**9",
    "x₀ = y₁₂ × 2": "x0 = y12 * 2",
    "def f() → int: ...": "def f() -> int: ...",
    "a ← b": "a <- b",
    "a\u00a0=\u20031\u2002+ 2": "a = 1 + 2",
    "a\u200b = 1\u200c\u200d\ufeff": "a = 1",
    "print(“hello”)": 'print("hello")',
    "print(‘hello’)": "print('hello')",
    "print(´hello´) × 2": "print('hello') * 2",
    "print(`hello`) × 2": "print('hello') * 2",
    # those that it lacks
    "x¹²": "x**12",
    "10⁻³": "10**-3",
    "10ⁿ": "10**n",
    "x²⁺¹": "x**(2+1)",
    "√2": "(2**0.5)",
    "2√(x + 1)": "2*((x + 1)**0.5)",
    "√f(x)²": "(f(x)**0.5)**2",
    "∛8": "(8**(1/3))",
    "½": "(1/2)",
    "2½": "(2+1/2)",
    "¾x": "(3/4)*x",
    "2·3": "2*3",
    "2⋅a": "2*a",
    "5′": "5",
    "x′ = 1": "x_prime = 1",
    "5′ × 3″": "5 * 3",
    "x = …": "x = ...",
    "a\u2009=\u202f1\u3000+\u205f2": "a = 1 + 2",
    "ｆ（ｘ，１）＋２": "ｆ(ｘ,1)+2",
    "x ＝ １  ＃ “note” ×": "x = 1  # “note” ×",
    "a[０：２] ＜ ｛３｝": "a[0:2] < {3}",
    "x ∈ y": "x in y",
    "a ∧ ¬b": "a and not b",
    "x = ∞": 'x = float("inf")',
    "a = 1\u2028b = 2": "a = 1\nb = 2",
    "if a:\n\u00a0\u00a0b": "if a:\n  b",
    "¬a\n¬b ∧ c": "not a\nnot b and c",
    # quotes that delimit
    "f(“a”, ‘b’)": "f(\"a\", 'b')",
    "x = „deutsch“": 'x = "deutsch"',
    'print("hello”)': 'print("hello")',
    'print(“hello")': 'print("hello")',
    'f(“a", “b”)': 'f("a", "b")',
    'print(“say "hi"”)': 'print("say \\"hi\\"")',
    "print(“it’s × 2”)": 'print("it’s × 2")',
    "print(‘it’s’)": "print('it’s')",
    "x = “““two\nlines × 2”””": 'x = """two\nlines × 2"""',
    "p = “C:\\”": 'p = "C:\\\\"',
    # strings and comments stay
    's = "25° → “x”"; y = 3×2  # 5 × 5': 's = "25° → “x”"; y = 3*2  # 5 × 5',
    "s = '''a × b\n√2'''; y = 3×2": "s = '''a × b\n√2'''; y = 3*2",
    "s = r'\\' × 2'; y = 3×2": "s = r'\\' × 2'; y = 3*2",
    'f"{row["25°"]:>{w["½"]}} ×"; y = 3×2': 'f"{row["25°"]:>{w["½"]}} ×"; y = 3*2',
    'rf"""{f"{a["×"]}"} ×\\n"""; y = 3×2': 'rf"""{f"{a["×"]}"} ×\\n"""; y = 3*2',
    "f'{{×}} \\' ½'; y = 3×2": "f'{{×}} \\' ½'; y = 3*2",
    "f'{x:\">9}' × 2": "f'{x:\">9}' * 2",
    'f"" × f\'\' × f""""""': 'f"" * f\'\' * f""""""',
    "π = 3; été = π²": "π = 3; été = π**2",
}


@pytest.mark.parametrize("code", TABLE)
def test_a_character_of_prose_becomes_what_python_knows(code: str):
    assert sanitize_code_unicode(code) == TABLE[code]


@pytest.mark.parametrize(
    "code",
    [code for code in TABLE if ("→" not in code or '"' in code) and (sys.version_info >= (3, 12) or "f" not in code)],
)
def test_what_comes_out_compiles(code: str):
    ast.parse(sanitize_code_unicode(code))


def test_every_plain_replacement_is_ascii():
    assert all(plain.isascii() for plain in PLAIN.values())
    assert len(PLAIN) > 100


def test_fast_path_ascii_comes_back_as_it_is_whether_it_compiles_or_not():
    for code in ("x = 1", "x = = 1", "`a`", ""):
        assert sanitize_code_unicode(code) == code
        assert sanitize_code_unicode(code).replacements == ()


@pytest.mark.parametrize(
    "code",
    [
        's = "“quoted” 25° → ½"',
        "# 5 × 3\nx = 1",
        "café = 'naïve'; xⁿ = 2; a·b = 3",
        "f'{x}°'",
        "return 1  # ×",
        "await f()  # ½",
        "'\\d°'",
    ],
)
def test_code_that_compiles_is_never_changed(code: str):
    assert sanitize_code_unicode(code) == code
    assert sanitize_code_unicode(code).replacements == ()


def test_it_says_what_it_replaced_and_where():
    done = sanitize_code_unicode("x = 'é'\ny = 5 × 3 × 2\nz =\u00a047°")
    assert done.replacements == (
        Replacement(2, 7, "×", "*"), Replacement(2, 11, "×", "*"), Replacement(3, 4, "\u00a0", " "),
        Replacement(3, 7, "°", ""),
    )  # fmt: skip
    expected = "replaced outside of strings and comments: × by * (2 times), U+00A0 by a space, ° removed"
    assert done.note == expected


def test_the_note_stays_short():
    assert len(sanitize_code_unicode("".join(PLAIN) + "=").note) < 500


def test_it_is_a_string_and_gives_a_plain_one():
    done = cloche.sanitize_code_unicode("x = 5 × 3")
    assert isinstance(done, str)
    assert type(done.code) is str
    assert done.code == done == "x = 5 * 3"


def test_a_character_without_a_meaning_in_python_is_left_for_the_error_message():
    assert sanitize_code_unicode("x = ☃ √") == "x = ☃ √"


# -- properties ----------------------------------------------------------------------------------

SIGNS = "".join(PLAIN) + SINGLE_QUOTES + "“”„″√∛½¾⁰¹²⁻⁽⁾ⁿ☃éπ"
texts = st.text(alphabet=SIGNS + "ab1 ()[]{}\"'#\\\n\r=+.,:f", max_size=80)


@given(texts)
@example("“\\")
@example('"“')
@example("√(((")
@example(")½")
def test_any_text_is_read_to_its_end_without_a_loop(text: str):
    scanner = Scanner(text)
    scanner.run()
    kept = len("".join(scanner.written))
    assert kept <= 20 * len(text)
    assert scanner.examined <= 20 * len(text) + 20


@given(texts)
def test_compiling_code_never_becomes_other_code(text: str):
    """Neither as it is, nor by being cleaned twice."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        cleaned = sanitize_code_unicode(text)
        try:
            ast.parse(cleaned)
        except (SyntaxError, ValueError):
            return
        assert sanitize_code_unicode(cleaned) == cleaned
    else:
        assert sanitize_code_unicode(text) == text


@given(
    st.lists(st.text(alphabet=SIGNS + "ab1 \"'\\\n", max_size=20), min_size=1, max_size=4), st.text(SIGNS, max_size=20)
)
def test_strings_and_comments_keep_every_character(strings: list[str], comment: str):
    comment = "".join(comment.split()).replace("\u0085", "")
    code = "\n".join(f"x = {ascii_or_not!r} × 2 # {comment}" for ascii_or_not in strings)
    done = sanitize_code_unicode(code)
    assert [node.value for node in ast.walk(ast.parse(done)) if isinstance(node, ast.Constant)][0::2] == strings
    assert done.count("# " + comment) >= len(strings)


@pytest.mark.parametrize(
    "pattern",
    [
        "“a”",
        "“a",
        '“a"',
        "“a”b",
        "‘a’b ",
        "\"a”'",
        "√(",
        "√a",
        "½",
        "x′",
        "´",
        "“““",
        "`",
        "²a",
        "(",
        "'\\",
        "“\\",
        "f'{'",
        "f'{f'{",
        'f"""{"""',
    ],
)
def test_time_grows_with_the_size_of_the_code_and_no_faster(pattern: str):
    """Counted in characters looked at, on one long line."""
    counts = []
    for repeat in (500, 4000):
        scanner = Scanner(pattern * repeat)
        scanner.run()
        counts.append(scanner.examined / (len(pattern) * repeat))
    assert counts[1] < 20
    assert counts[1] <= counts[0] * 1.5
