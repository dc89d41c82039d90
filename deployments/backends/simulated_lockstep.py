"""A pretended engine that runs a padded batch to its longest row, as transformers' `generate` does.

The prompts are charged at B·P_max in the first step, whose end is the first token; every later step is
charged at B, also for rows that are done.
"""

import asyncio
import bisect
import time
from collections.abc import Callable, Sequence

from deployments.backends.backend import EngineStep, Output, Work
from deployments.backends.open_runs import OpenRuns
from deployments.backends.simulated_tokens import tokens
from deployments.virtual.step_model import StepModel


class SimulatedLockstep:
    """Sleeps once for the whole batch; stamps are the moments at which the steps were due."""

    def __init__(self, step_model: StepModel, vocabulary: int) -> None:
        self._step_model, self._vocabulary = step_model, vocabulary
        self._runs = OpenRuns()

    async def run(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        """Deliver every row at the end of the batch, or at the cut."""
        cut = asyncio.Event()
        with self._runs.entered(cut.set):
            scheduled_s = time.monotonic()
            due_s = self._due(batch, scheduled_s)
            await _until(due_s[-1], cut)
            returned_s = time.monotonic()
            for work in batch:
                made = bisect.bisect_right(due_s, returned_s, hi=work.output_tokens)
                done(
                    Output(
                        request_id=work.request_id,
                        status="finished" if made == work.output_tokens else "unfinished",
                        scheduled_s=scheduled_s,
                        token_s=tuple(due_s[:made]),
                        output_ids=tokens(work.prompt_ids, made, self._vocabulary),
                        returned_s=returned_s,
                    )
                )

    async def abort(self) -> None:
        """Cut the batch."""
        await self._runs.cut()

    def take_steps(self) -> list[EngineStep]:
        """Nothing: the batch does not change from step to step."""
        return []

    def _due(self, batch: Sequence[Work], scheduled_s: float) -> list[float]:
        """The end of each step: prefill with the first token, then decodes to the longest row."""
        padded_tokens = len(batch) * max(len(work.prompt_ids) for work in batch)
        first_s = scheduled_s + self._step_model.step_s(len(batch), prefill_tokens=padded_tokens)
        decode_s = self._step_model.step_s(len(batch))
        return [first_s + step * decode_s for step in range(max(work.output_tokens for work in batch))]


async def _until(deadline_s: float, cut: asyncio.Event) -> None:
    while not cut.is_set() and (left_s := deadline_s - time.monotonic()) > 0:
        try:
            await asyncio.wait_for(cut.wait(), left_s)
        except TimeoutError:
            continue
