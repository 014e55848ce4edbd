"""Every behaviour of `cloche.conformance`, behind guard-rails; see the conftest and `cloche.conformance.guarded`."""

from __future__ import annotations

from cloche.conformance import load_behaviours

globals().update(load_behaviours())
