"""Walls for workbenches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from cloche.backends.daemon.link import links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.daemon import lifecycle

Walls = Callable[[str], AbstractContextManager[dict[str, Any]]]


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Walls:
    """Options for an environment behind the wall of that name, which is there as long as the block lasts."""

    @contextmanager
    def wall(name: str) -> Iterator[dict[str, Any]]:
        if name != "daemon":
            yield {"backend": name}
            return
        places = Places(tmp_path_factory.mktemp("house") / "daemon.sock")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SOCKET_VARIABLE, str(places.socket))
            lifecycle.start(places, [])
            try:
                yield {"backend": "daemon"}
            finally:
                links.close()
                lifecycle.stop(places, force=True)

    return wall
