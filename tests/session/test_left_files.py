"""A guest that leaves more files than a call may wait for: the call returns, and they go all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import cloche
from cloche.conformance.waiting import wait_until
from cloche.host import late_removal

MANY = "import os\nfor number in range(300): os.makedirs(f'{number}/inner')"


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were a million of them."""
    monkeypatch.setattr(late_removal, "MOMENT", -1.0)


def test_destroy_does_not_wait_for_all_of_them_to_go():
    sandbox = cloche.create_sandbox(backend="native")
    folder = Path(sandbox.execute(MANY).check().workspace_path or "")
    sandbox.destroy()
    wait_until(lambda: not folder.parent.exists())


def test_reset_has_an_empty_workspace_at_once():
    with cloche.create_sandbox(backend="native") as sandbox:
        folder = Path(sandbox.execute(MANY).check().workspace_path or "")
        sandbox.reset()
        assert sandbox.execute("import os; os.listdir()").value == "[]"
        wait_until(lambda: {path.name for path in folder.parent.glob(".work-*")} == set())
