"""A daemon keeps from its clients' guests what the clients run code from."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloche import create_sandbox
from cloche.backends.daemon.places import Places


def test_places_of_the_client_are_covered_by_the_daemon(
    house: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_STATE_DIR", str(tmp_path / "project/own/state"))  # the daemon has another
    (tmp_path / "project/own").mkdir(parents=True)
    with create_sandbox(backend="daemon", workspace=tmp_path / "project", preload=()) as sandbox:
        sandbox.execute("open('mine', 'w').close()").check()
        for attack in ("open('own/state/planted', 'w')", "import os; os.rename('own', 'other')"):
            assert sandbox.execute(attack).outcome == "error"
    assert (tmp_path / "project/mine").exists()
    assert list((tmp_path / "project/own/state").iterdir()) == []
