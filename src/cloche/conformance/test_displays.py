"""Rich output: MIME bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox

PNG_HEAD = b"\x89PNG\r\n\x1a\n"


def test_a_value_with_a_rich_form_is_displayed(sandbox: SessionSandbox) -> None:
    sandbox.execute(
        "class Table:\n    def _repr_html_(self): return '<b>table</b>'\n    __repr__ = lambda self: 'plain'"
    )
    result = sandbox.execute("Table()")
    assert result.value == "plain"
    assert [dict(display.data) for display in result.displays] == [{"text/html": "<b>table</b>", "text/plain": "plain"}]


def test_display_shows_any_object(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("display({'a': 1})\ndisplay('b', 'c');")
    assert [display.data["text/plain"] for display in result.displays] == ["{'a': 1}", "'b'", "'c'"]


def test_binary_forms_arrive_as_bytes(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("class Picture:\n    def _repr_png_(self): return b'\\x89PNG'\ndisplay(Picture())")
    assert result.displays[0].data["image/png"] == b"\x89PNG"


def test_a_rich_form_that_raises_is_passed_over(sandbox: SessionSandbox) -> None:
    result = sandbox.execute(
        "class Bad:\n    def _repr_html_(self): 1 / 0\n    def __repr__(self): return 'bad'\nBad()"
    )
    assert (result.outcome, result.value, result.displays) == ("ok", "bad", ())


def test_displays_of_one_cell_are_not_in_the_next(sandbox: SessionSandbox) -> None:
    sandbox.execute("display(1)")
    assert sandbox.execute("1").displays == ()


def test_displays_over_the_limit_are_left_out_and_said_to_be(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(display_max_bytes=10_000)
    result = sandbox.execute("class Big:\n    def _repr_html_(self): return 'x' * 20_000\ndisplay(Big())")
    assert result.outcome == "ok"
    assert "left out" in str(result.displays[0].data["text/plain"])


def test_a_flood_of_displays_is_bounded(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("for n in range(3000): display(n)")
    assert result.outcome == "ok"
    assert 0 < len(result.displays) <= 200


def test_displays_made_before_an_exception_are_kept(sandbox: SessionSandbox) -> None:
    assert len(sandbox.execute("display(1)\n1 / 0").displays) == 1


BUNDLE = """
class Chart:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"application/vnd.vegalite.v5+json": {"mark": "bar"}, "image/png": b"\\x89PNG", "broken": object()}
    __repr__ = lambda self: "chart"
"""


def test_a_mime_bundle_of_an_object_is_shown_whole(sandbox: SessionSandbox) -> None:
    sandbox.execute(BUNDLE).check()
    for cell in ("Chart()", "display(Chart())"):
        (shown,) = sandbox.execute(cell).displays
        assert dict(shown.data) == {
            "application/vnd.vegalite.v5+json": '{"mark": "bar"}',
            "image/png": b"\x89PNG",
            "text/plain": "chart",
        }


def test_an_object_that_shows_itself_is_not_shown_again(sandbox: SessionSandbox) -> None:
    sandbox.execute("class Bar:\n    def _ipython_display_(self): display('half full')").check()
    result = sandbox.execute("Bar()")
    assert [shown.data["text/plain"] for shown in result.displays] == ["'half full'"]


def test_a_display_can_be_updated_by_its_handle(sandbox: SessionSandbox) -> None:
    result = sandbox.execute(
        "bar = display('1 %', display_id=True)\nother = display(2, display_id='two')\nbar.update('99 %')"
    )
    assert [shown.data["text/plain"] for shown in result.displays] == ["'99 %'", "2"]
    assert result.displays[1].id == "two"
    later = sandbox.execute("other.update(3)\nother")
    assert [(shown.data["text/plain"], shown.id) for shown in later.displays] == [("3", "two")]
    assert later.value == "<DisplayHandle display_id=two>"


def test_code_for_notebooks_finds_the_displays_of_ipython(sandbox: SessionSandbox) -> None:
    code = (
        "from IPython.display import HTML, Image, Markdown, clear_output, display, update_display\n"
        "display('gone')\nclear_output()\n"
        "display(HTML('<b>x</b>'), Markdown('*y*'), Image(data=b'\\x89PNG\\r\\n\\x1a\\n'))\n"
        "shown = display('first', display_id='name')\nupdate_display('second', display_id='name')"
    )
    result = sandbox.execute(code).check()
    html, markdown, image, text = result.displays
    assert (html.data["text/html"], markdown.data["text/markdown"]) == ("<b>x</b>", "*y*")
    assert image.data["image/png"] == b"\x89PNG\r\n\x1a\n"
    assert text.data["text/plain"] == "'second'"
    assert result.stdout == ""


def test_a_picture_that_is_no_base64_does_not_end_the_session(sandbox: SessionSandbox) -> None:
    sandbox.execute(
        "kept = 1\nclass Bad:\n    def _repr_png_(self): return 'no picture: \u00e4'\ndisplay(Bad())"
    ).check()
    assert sandbox.get_variable("kept") == 1


@pytest.mark.cloche_needs("site_packages")
def test_a_figure_that_is_the_value_is_shown_once(sandbox: SessionSandbox) -> None:
    pytest.importorskip("matplotlib")
    code = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nlines = ax.plot([1, 2])\nfig"
    assert len(sandbox.execute(code, timeout_ms=60_000).check().displays) == 1
    changed = "fig, ax = plt.subplots()\ndisplay(fig)\nlines = ax.plot([1, 2])"
    assert len(sandbox.execute(changed, timeout_ms=60_000).check().displays) == 2


@pytest.mark.cloche_needs("site_packages")
def test_an_open_figure_is_displayed_at_the_end_of_the_cell(sandbox: SessionSandbox) -> None:
    pytest.importorskip("matplotlib")
    result = sandbox.execute("import matplotlib.pyplot as plt\nlines = plt.plot([1, 2])", timeout_ms=60_000)
    picture = result.displays[0].data["image/png"]
    assert isinstance(picture, bytes)
    assert picture.startswith(PNG_HEAD)
    assert sandbox.execute("plt.get_fignums()").value == "[]"
