"""The one event loop of a process that calls replicas.

Serve binds every handle of a process to the loop that it was first used in, and hears nothing more of its
replicas from a moment on at which that loop stands still. So it runs in a thread that never ends.
"""

import asyncio
import functools
import threading
from collections.abc import Coroutine
from typing import TypeVar

from deployments.exact_timers import exact_timers

_END_DEADLINE_S = 10.0
_T = TypeVar("_T")


def run(main: Coroutine[object, object, _T]) -> _T:
    """Run it there and wait for it, from outside. What interrupts the wait cancels it first."""
    ended = threading.Event()

    async def until_ended() -> _T:
        try:
            return await main
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(until_ended(), _loop())
    try:
        return future.result()
    except BaseException:
        if future.cancel():
            ended.wait(_END_DEADLINE_S)
        raise


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = exact_timers()
    threading.Thread(target=loop.run_forever, name="serve-loop", daemon=True).start()
    return loop
