"""A backend whose every run waits for the test to say how it goes."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deployments.backends.backend import EngineStep, Limits, Memory, Output, Work
from deployments.errors import EngineDead

WORD_DEADLINE_S = 20.0  # for a test that would wait for ever


class FakeRun:
    """One open `run`: deliver outputs one by one or all, then return or raise."""

    def __init__(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        self.ids = [work.request_id for work in batch]
        self._works = {work.request_id: work for work in batch}
        self._done = done
        self.delivered: set[str] = set()
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def deliver(self, request_id: str, *, tokens: int | None = None, status: Any = "finished") -> None:
        """One request ends, by default with the tokens that it asked for."""
        count = self._works[request_id].output_tokens if tokens is None else tokens
        now_s = time.monotonic()
        self.delivered.add(request_id)
        self._done(
            Output(
                request_id=request_id,
                status=status,
                scheduled_s=now_s,
                token_s=(now_s,) * count,
                output_ids=tuple(range(count)),
                returned_s=now_s,
            )
        )

    def returns(self) -> None:
        """The run returns, whatever it has delivered."""
        self.outcome.set_result(None)

    def finishes(self) -> None:
        """All that is left is delivered, and the run returns."""
        for request_id in self.ids:
            if request_id not in self.delivered:
                self.deliver(request_id)
        self.returns()

    def raises(self, error: Exception) -> None:
        """The run raises."""
        self.outcome.set_exception(error)


class FakeBackend:
    """Backend (see the protocol)."""

    setup: Mapping[str, Any] = {"device": "fake"}
    limits = Limits(vocabulary=100, context_tokens=64)

    def __init__(self, *, joinable: bool = False) -> None:
        self.joinable = joinable
        self.runs: list[FakeRun] = []
        self.open: list[FakeRun] = []
        self.most_open = 0
        self.aborts = 0
        self.abort_error: Exception | None = None
        self.dead = False
        self.closed = False
        self._began = asyncio.Event()

    async def start(self) -> None:
        """Nothing to load."""

    async def run(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        """Open a run and wait for the test's word."""
        run = FakeRun(batch, done)
        self.runs.append(run)
        self.open.append(run)
        self.most_open = max(self.most_open, len(self.open))
        self._began.set()
        try:
            await run.outcome
        finally:
            self.open.remove(run)

    async def began(self, count: int) -> FakeRun:
        """Wait until `count` runs have begun in all; the last of them."""
        async with asyncio.timeout(WORD_DEADLINE_S):
            while len(self.runs) < count:
                self._began.clear()
                await self._began.wait()
        return self.runs[count - 1]

    async def abort(self) -> None:
        """Every open run delivers its rest as unfinished and returns."""
        self.aborts += 1
        if self.abort_error is not None:
            raise self.abort_error
        for run in self.open:
            if run.outcome.done():
                continue
            for request_id in run.ids:
                if request_id not in run.delivered:
                    run.deliver(request_id, tokens=0, status="unfinished")
            run.returns()

    async def check(self) -> None:
        """EngineDead if the test says so."""
        if self.dead:
            raise EngineDead("the fake engine is gone")

    def take_steps(self) -> list[EngineStep]:
        """None."""
        return []

    def reset_memory(self) -> None:
        """Nothing to measure."""

    def memory(self) -> Memory:
        """None of any kind."""
        return Memory(peak_bytes=None, kind="none")

    async def close(self) -> None:
        """Remember it."""
        self.closed = True
