"""The rows of a running trial: what the client and the replica tell is kept, and written while it goes on."""

import asyncio
import contextlib
from collections.abc import Callable

from deployments.client import Exchange
from deployments.replica import Account, Progress
from experiments.rows import Row, batch_rows, request_row, sample_row, step_rows
from results.attempt import Attempt

FLUSH_EVERY_S = 5.0


class TrialRows:
    """Those of one attempt, and how its requests have ended so far."""

    def __init__(self, attempt: Attempt, settings: Row, shift_s: Callable[[], float]) -> None:
        """`settings`: the columns of every row; `shift_s` is asked for the replica's clock at trial start."""
        self._attempt, self._settings, self._shift_s = attempt, settings, shift_s
        self._unwritten: list[Exchange] = []
        self._samples: list[Row] = []
        self.ended = self.failed = 0
        self.first_error = ""
        self.last_received_s = 0.0

    def take(self, exchange: Exchange) -> None:
        """A request has ended."""
        self._unwritten.append(exchange)
        self.ended += 1
        self.last_received_s = max(self.last_received_s, exchange.received_s)
        status = exchange.reply.output.status if exchange.reply else "failed"
        if status == "failed":
            self.failed += 1
            error = exchange.reply.output.error if exchange.reply else exchange.error
            self.first_error = self.first_error or error or "unknown"

    def sample(self, progress: Progress, *, sent: int, client_cpu_s: float) -> None:
        """How the trial stands; written at its end."""
        row = sample_row(
            self._settings,
            progress,
            self._shift_s(),
            sent=sent,
            ended=self.ended,
            client_cpu_s=client_cpu_s,
        )
        self._samples.append(row)

    async def flush(self, over: asyncio.Event) -> None:
        """Write the requests that have ended, again and again until the trial is over."""
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), FLUSH_EVERY_S)
            await self._write_requests()

    async def write_samples(self) -> None:
        """All of them."""
        await asyncio.to_thread(self._attempt.write_samples, self._samples)

    async def write_rest(self, account: Account) -> None:
        """The requests that were not written yet, and the batches and steps that the replica accounts for."""
        shift_s = self._shift_s()
        rows = [
            *batch_rows(self._settings, account.runs, shift_s, lockstep=not account.joinable),
            *step_rows(self._settings, account.steps, shift_s),
        ]
        await self._write_requests()
        await asyncio.to_thread(self._attempt.write_batches, rows)

    async def _write_requests(self) -> None:
        exchanges, self._unwritten = self._unwritten, []  # here, not in the thread: replies come in between
        shift_s = self._shift_s()

        def write() -> None:
            rows: list[Row] = [request_row(self._settings, exchange, shift_s) for exchange in exchanges]
            self._attempt.write_requests(rows)

        await asyncio.to_thread(write)
