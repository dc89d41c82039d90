"""The runs of a backend that have not returned yet, so that `abort` can cut them and wait for their end."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class OpenRuns:
    """Belongs to one event loop. A run is entered with what cuts it short."""

    def __init__(self) -> None:
        self._cuts: dict[asyncio.Future[None], Callable[[], None]] = {}

    def __bool__(self) -> bool:
        return bool(self._cuts)

    @contextmanager
    def entered(self, cut: Callable[[], None]) -> Iterator[None]:
        """Count as open inside; `cut` makes the run end early and is also called if it is left by an error."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._cuts[ended] = cut
        try:
            yield
        except BaseException:  # also what the caller's `done` raises: nobody waits for the rest any more
            cut()
            raise
        finally:
            del self._cuts[ended]
            ended.set_result(None)

    async def cut(self) -> None:
        """End every open run early and wait until each has delivered what it has."""
        for cut in self._cuts.values():
            cut()
        if self._cuts:
            await asyncio.wait(set(self._cuts))
