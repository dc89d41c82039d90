"""The loop that a process keeps: one, running, and left in order by whatever interrupts a wait."""

import asyncio
import os
import signal
import threading

import pytest

from deployments import serve_loop


async def here() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    return asyncio.get_running_loop(), threading.current_thread()


async def fail() -> None:
    raise ValueError("why")


def test_all_calls_share_one_loop_that_goes_on_between_them():
    loop, thread = serve_loop.run(here())
    assert serve_loop.run(here()) == (loop, thread)
    assert loop.is_running()
    assert thread is not threading.current_thread()
    with pytest.raises(ValueError, match="why"):
        serve_loop.run(fail())
    assert serve_loop.run(here()) == (loop, thread)


def test_an_interrupt_ends_what_runs_before_it_goes_on():
    ended = []

    async def until_cancelled() -> None:
        try:
            await asyncio.sleep(0.2)  # before the wait for it begins there is nothing to cancel
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append(True)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            serve_loop.run(until_cancelled())
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [True]
