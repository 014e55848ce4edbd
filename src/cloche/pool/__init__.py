"""Many sessions of many owners: who gets a place, for how long, and how much of it. What every door stands on."""

from __future__ import annotations

from cloche.pool.accounts import OwnerQuota
from cloche.pool.limits import PoolLimits
from cloche.pool.pool import Pool
from cloche.pool.session import PooledSession
from cloche.pool.sync import BlockingPool, BlockingSession

__all__ = ["BlockingPool", "BlockingSession", "OwnerQuota", "Pool", "PoolLimits", "PooledSession"]
