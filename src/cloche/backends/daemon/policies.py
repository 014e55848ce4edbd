"""Policies on their way between a client and the daemon."""

from __future__ import annotations

import dataclasses
from typing import Any

from cloche.policy import ExecutionPolicy

KNOWN = 64
SHORT = 4096
_known: dict[str, ExecutionPolicy] = {}
"""Policies that were read, by their text: most clients send the same ones over and over."""


def plain_policy(policy: ExecutionPolicy) -> dict[str, Any]:
    """As plain data; `read_policy` makes the same policy of it."""
    plain = {item.name: getattr(policy, item.name) for item in dataclasses.fields(policy)}
    plain["environment"] = dict(policy.environment)
    if policy.minimum_isolation is not None:
        plain["minimum_isolation"] = policy.minimum_isolation.name
    return plain


def read_policy(said: Any) -> ExecutionPolicy:
    """A policy as it was sent; what is wrong in it is named."""
    if not isinstance(said, dict):
        return ExecutionPolicy()
    text = repr(said)
    policy = _known.get(text)
    if policy is None:
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
        policy = ExecutionPolicy().replace(**plain)
        if len(text) <= SHORT:
            if len(_known) >= KNOWN:
                _known.clear()
            _known[text] = policy
    return policy
