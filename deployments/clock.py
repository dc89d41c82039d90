"""Two clock domains, joined on purpose: a replica's monotonic clock mapped to the client's.

Each sample is (client before, replica, client after). The one with the least round trip bounds the offset
best: offset = replica − midpoint, uncertainty = half that round trip (Cristian, 1989).
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """replica clock − client clock, seconds, and how far off it can be."""

    offset_s: float
    uncertainty_s: float


async def handshake(ping: Callable[[], Awaitable[float]], samples: int = 20) -> Offset:
    """Measure the offset with `samples` pings, one after another."""
    best: Offset | None = None
    for _ in range(samples):
        before_s = time.monotonic()
        replica_s = await ping()
        after_s = time.monotonic()
        uncertainty_s = (after_s - before_s) / 2
        if best is None or uncertainty_s < best.uncertainty_s:
            best = Offset(offset_s=replica_s - (before_s + after_s) / 2, uncertainty_s=uncertainty_s)
    assert best is not None, "samples must be at least 1"
    return best
