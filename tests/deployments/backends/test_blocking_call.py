"""A call in a thread: whoever waits gets its result, and one that nobody waits for is given back."""

import asyncio
import threading

import pytest

from deployments.backends.blocking_call import BlockingCall

LONG_S = 30.0  # never waited for unless the test fails


async def test_a_result_that_comes_after_it_was_abandoned_is_given_back() -> None:
    go_on, given_back = threading.Event(), threading.Event()
    call = BlockingCall(lambda: go_on.wait(LONG_S), discard=lambda _: given_back.set())
    waiting = asyncio.create_task(call.result())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert call.abandoned
    go_on.set()
    assert given_back.wait(LONG_S)


async def test_a_result_that_comes_in_the_moment_it_is_abandoned_is_given_back() -> None:
    given_back = threading.Event()
    call = BlockingCall(lambda: "late", discard=lambda _: given_back.set())
    waiting = asyncio.create_task(call.result())
    await asyncio.sleep(0)
    assert call._future.result(LONG_S) == "late"  # the event loop has not heard of it yet
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert given_back.wait(LONG_S)


async def test_what_it_raises_comes_out() -> None:
    with pytest.raises(ZeroDivisionError):
        await BlockingCall(lambda: 1 // 0).result()
