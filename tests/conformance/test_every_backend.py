"""Every behaviour of `cloche.conformance`, on the backends that the conftest names."""

from __future__ import annotations

from cloche.conformance import load_behaviours

globals().update(load_behaviours())
