"""Which interpreters the guest is tested on here."""

from __future__ import annotations

import pytest
from tests.guest.every_python import FOUND, VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_the_guest_is_tested_on_every_supported_version(version: str) -> None:
    if version not in FOUND:
        pytest.skip(f"no CPython {version} on this machine: guest code is not tested there")
    assert version in FOUND
