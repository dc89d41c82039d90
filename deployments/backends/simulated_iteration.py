"""A pretended engine that forms its batch anew at each step, as vLLM does, in the simplest form.

Each step admits from the waiting list, first come first served, into the free slots. An admitted request
has its whole prompt in that step and its first token at the step's end; the others decode one token. A
finished request frees its slot for the next step.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deployments.backends.backend import EngineStep, Output, Status, Work
from deployments.backends.open_runs import OpenRuns
from deployments.backends.simulated_tokens import tokens
from deployments.virtual.step_model import StepModel


@dataclass(slots=True, eq=False)
class _Sequence:
    work: Work
    ended: "asyncio.Future[Output]"
    scheduled_s: float | None = None
    token_s: list[float] = field(default_factory=list)


class SimulatedIteration:
    """Steps while there is work; each step is due one step time after the one before was due."""

    def __init__(self, step_model: StepModel, vocabulary: int, slots: int) -> None:
        self._step_model, self._vocabulary, self._slots = step_model, vocabulary, slots
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._steps: list[EngineStep] = []
        self._loop: asyncio.Task[None] | None = None
        self._runs = OpenRuns()

    async def run(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        """Queue the batch and deliver each request as it ends."""
        loop = asyncio.get_running_loop()
        sequences = [_Sequence(work, loop.create_future()) for work in batch]
        with self._runs.entered(lambda: self._cut(sequences)):
            self._waiting.extend(sequences)
            if self._loop is None or self._loop.done():
                self._loop = asyncio.create_task(self._step_while_busy())
            for ended in asyncio.as_completed([sequence.ended for sequence in sequences]):
                done(await ended)

    async def abort(self) -> None:
        """Cut every run and end the loop in mid-step."""
        stepping, self._loop = self._loop, None  # before any await: a run may begin during them
        self._waiting.clear()
        self._running.clear()
        if stepping is not None:
            stepping.cancel()
        await self._runs.cut()
        if stepping is not None:
            await asyncio.wait({stepping})

    def take_steps(self) -> list[EngineStep]:
        """The steps since the last call."""
        steps, self._steps = self._steps, []
        return steps

    async def _step_while_busy(self) -> None:
        due_s = time.monotonic()
        while self._waiting or self._running:
            prefill_tokens = self._admit()
            due_s += self._step_model.step_s(len(self._running), prefill_tokens=prefill_tokens)
            await asyncio.sleep(due_s - time.monotonic())
            self._end_step(prefill_tokens)

    def _admit(self) -> int:
        """Fill the free slots; the prompt tokens that come in with them."""
        now_s, prefill_tokens = time.monotonic(), 0
        while self._waiting and len(self._running) < self._slots:
            sequence = self._waiting.popleft()
            if sequence.ended.done():  # its run was cancelled
                continue
            sequence.scheduled_s = now_s
            self._running.append(sequence)
            prefill_tokens += len(sequence.work.prompt_ids)
        return prefill_tokens

    def _end_step(self, prefill_tokens: int) -> None:
        """One token for each running sequence; those that have all theirs leave."""
        end_s = time.monotonic()
        step = EngineStep(
            end_s=end_s,
            running=len(self._running),
            waiting=len(self._waiting),
            tokens=len(self._running),
            prefill_tokens=prefill_tokens,
            kv_use=None,
            preemptions=0,
        )
        self._steps.append(step)
        for sequence in self._running:
            sequence.token_s.append(end_s)
            if len(sequence.token_s) == sequence.work.output_tokens:
                self._end(sequence, "finished", end_s)
        self._running = [sequence for sequence in self._running if not sequence.ended.done()]

    def _cut(self, sequences: list[_Sequence]) -> None:
        now_s = time.monotonic()
        for sequence in sequences:
            self._end(sequence, "unfinished", now_s)

    def _end(self, sequence: _Sequence, status: Status, now_s: float) -> None:
        if sequence.ended.done():
            return
        output = Output(
            request_id=sequence.work.request_id,
            status=status,
            scheduled_s=sequence.scheduled_s,
            token_s=tuple(sequence.token_s),
            output_ids=tokens(sequence.work.prompt_ids, len(sequence.token_s), self._vocabulary),
            returned_s=now_s,
            preemptions=0,
        )
        sequence.ended.set_result(output)
