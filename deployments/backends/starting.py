"""The start of a backend, which may be closed before it is up."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from deployments.errors import BackendError


class Starting:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._given_up = False

    async def run(self, begin: Coroutine[Any, Any, None]) -> None:
        """Wait for `begin`. BackendError if it was given up meanwhile; cancelling this cancels it too."""
        self._task, self._given_up = asyncio.create_task(begin), False
        try:
            await self._task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not self._given_up or (caller is not None and caller.cancelling()):
                raise
            raise BackendError("it was closed while it loaded") from None

    async def give_up(self) -> None:
        """Cancel what `run` waits for, and wait until that has cleaned up; harmless when nothing starts."""
        if self._task is not None and not self._task.done():
            self._given_up = True
            self._task.cancel()
            await asyncio.wait({self._task})
