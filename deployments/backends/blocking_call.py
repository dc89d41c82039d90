"""A blocking call beside the event loop, which neither a deadline nor the interpreter's exit waits for.

`asyncio.to_thread` would do for the waiting, but its threads outlive the call and exit joins them: a load
that hangs could then never be given up.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class BlockingCall(Generic[T]):
    """Runs once, in a daemon thread of its own. `discard` gets a result that nobody waits for any more."""

    def __init__(self, call: Callable[[], T], discard: Callable[[T], None] | None = None) -> None:
        self._call = call
        self._discard = discard
        self._future: Future[T] = Future()

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for the result any more; a long call may ask and stop."""
        return self._future.cancelled()

    async def result(self) -> T:
        """Start and wait. Cancelling this abandons the call; nothing can stop it."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        outcome = asyncio.wrap_future(self._future)
        try:
            return await outcome
        except asyncio.CancelledError:
            if not self._future.cancel() and self._future.exception() is None:
                self._give_back(self._future.result())  # it came while nobody waited any more
            raise
        finally:
            if not outcome.cancelled():
                thread.join()  # it has set the outcome and is about to end

    def _give_back(self, result: T) -> None:
        if self._discard is not None:
            threading.Thread(target=self._discard, args=(result,), daemon=True).start()

    def _run(self) -> None:
        try:
            result = self._call()
        except BaseException as exc:  # noqa: BLE001 - whoever waits must hear of it, whatever it is
            if self._future.set_running_or_notify_cancel():
                self._future.set_exception(exc)
            return
        if self._future.set_running_or_notify_cancel():
            self._future.set_result(result)
        elif self._discard:
            self._discard(result)
