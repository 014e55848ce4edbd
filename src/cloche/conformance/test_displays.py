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


@pytest.mark.cloche_needs("site_packages")
def test_an_open_figure_is_displayed_at_the_end_of_the_cell(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("import matplotlib.pyplot as plt\nlines = plt.plot([1, 2])", timeout_ms=60_000)
    picture = result.displays[0].data["image/png"]
    assert isinstance(picture, bytes)
    assert picture.startswith(PNG_HEAD)
    assert sandbox.execute("plt.get_fignums()").value == "[]"
