"""Policies on their way between a client and the daemon."""

from __future__ import annotations

import dataclasses
from typing import Any

from cloche.policy import ExecutionPolicy


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
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    return ExecutionPolicy().replace(**plain)
