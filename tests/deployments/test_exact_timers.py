"""The client's loop ends a wait between two milliseconds, where the default loop cannot."""

import asyncio
import time
from collections.abc import Callable

from deployments.exact_timers import exact_timers

WAIT_S = 0.0002


def least_overshoot_s(loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> float:
    async def overshoot_s() -> float:
        begun_s = time.monotonic()
        await asyncio.sleep(WAIT_S)
        return time.monotonic() - begun_s - WAIT_S

    with asyncio.Runner(loop_factory=loop_factory) as loop:
        return min(loop.run(overshoot_s()) for _ in range(200))


def test_a_wait_may_end_well_within_a_millisecond():
    assert least_overshoot_s(exact_timers) < least_overshoot_s(None) / 2
