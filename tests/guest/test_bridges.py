"""Stubs of host functions, in a process of ours."""

from __future__ import annotations

from typing import Any

import pytest

from cloche_guest import signals
from cloche_guest.bridges import BridgeError, Bridges


def test_a_last_word_that_comes_when_its_cell_is_over_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals.state, "user", True)

    def answer_late(method: str, params: dict[str, Any]) -> None:
        signals.begin_call()  # the next cell

    with pytest.raises(BridgeError, match="FINAL came when its cell was over"):
        Bridges(answer_late, lambda: None, lambda: (True, None)).end_cell("FINAL", ("x",), {})
    assert (signals.state.concluded, signals.state.sticky) == (False, None)
