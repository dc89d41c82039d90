"""The handshake: the true offset lies within its uncertainty, whatever the network does."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from deployments.clock import handshake

SHIFT_S = -7_200.0  # the replica's clock, against the client's


def far(there_s: list[float], back_s: list[float]) -> Callable[[], Awaitable[float]]:
    """A replica two hours behind; each ping takes the next of both delays, then the last ones again."""
    calls = iter(range(10_000))

    async def ping() -> float:
        number = next(calls)
        await asyncio.sleep(there_s[min(number, len(there_s) - 1)])
        now_s = time.monotonic() + SHIFT_S
        await asyncio.sleep(back_s[min(number, len(back_s) - 1)])
        return now_s

    return ping


@pytest.mark.parametrize(
    ("there_s", "back_s"),
    [
        ([0.0], [0.0]),
        ([0.002], [0.0]),  # all of the delay on one way: the worst case for the midpoint
        ([0.0], [0.002]),
        ([0.02, 0.001], [0.0, 0.001]),
    ],
)
async def test_the_true_offset_is_within_the_uncertainty(there_s: list[float], back_s: list[float]):
    offset = await handshake(far(there_s, back_s), samples=5)
    assert offset.uncertainty_s > 0
    assert abs(offset.offset_s - SHIFT_S) <= offset.uncertainty_s + 1e-6


async def test_the_sample_with_the_least_round_trip_counts():
    slow_s = 0.05
    delays = [slow_s, slow_s, 0.0, slow_s]
    offset = await handshake(far(delays, [0.0]), samples=4)
    assert offset.uncertainty_s < slow_s / 2


async def test_it_pings_as_often_as_it_is_told_one_after_another():
    open_pings, most, count = 0, 0, 0

    async def ping() -> float:
        nonlocal open_pings, most, count
        open_pings, count = open_pings + 1, count + 1
        most = max(most, open_pings)
        await asyncio.sleep(0)
        open_pings -= 1
        return time.monotonic()

    await handshake(ping, samples=7)
    assert (most, count) == (1, 7)
