"""Batches of the lockstep engine (lockstep.py says what it does), compiled.

Nothing changes between launch and end, so a batch is one event, and what it did is written down when all have run.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deployments.virtual.compiled import Entry, compiled
from deployments.virtual.outcomes import FINISHED, Records
from deployments.virtual.step_times import Costs, decode_s, step_s

BATCH = np.dtype(
    [
        ("first", "<i8"),  # of its rows, in the order of launch
        ("rows", "<i8"),
        ("longest_prompt", "<i8"),
        ("longest_output", "<i8"),
        ("chunk", "<i8"),  # prompt tokens of a row in one step
        ("start_s", "<f8"),
        ("decode_start_s", "<f8"),
        ("returned_s", "<f8"),
        ("prefilled", "<i8"),  # steps that ran to their end
        ("decoded", "<i8"),
    ]
)


class Memory(NamedTuple):
    """All of one engine. Requests go by their index."""

    prompts: npt.NDArray[np.int64]
    outputs: npt.NDArray[np.int64]
    costs: Costs
    rows: npt.NDArray[np.int64]  # in the order of launch
    batches: Records
    outcomes: Records


def _launch(m: Memory, number: int, first: int, rows: int, chunk: int, now_s: float) -> float:
    """Begin a batch; when it will end."""
    batch = m.batches[number]
    batch.first, batch.rows, batch.start_s = first, rows, now_s
    batch.longest_prompt = batch.longest_output = 1
    for place in range(first, first + rows):
        batch.longest_prompt = max(batch.longest_prompt, m.prompts[m.rows[place]])
        batch.longest_output = max(batch.longest_output, m.outputs[m.rows[place]])
    batch.chunk = chunk if chunk else batch.longest_prompt
    batch.prefilled, batch.decoded = _chunks(batch), batch.longest_output - 1
    batch.decode_start_s = now_s
    for step in range(batch.prefilled):
        batch.decode_start_s += _prefill_s(m, batch, step)
    batch.returned_s = batch.decode_start_s + _decoding_s(m, batch, batch.decoded)
    end_s: float = batch.returned_s
    return end_s


def _cut(m: Memory, number: int, now_s: float) -> None:
    """Only whole steps count that have ended by then."""
    batch, end_s = m.batches[number], m.batches[number].start_s
    batch.returned_s, batch.decoded = now_s, 0
    for step in range(batch.prefilled):
        end_s += _prefill_s(m, batch, step)
        if end_s > now_s:
            batch.prefilled = step
            return
    low, high = 0, batch.longest_output - 1
    while low < high:
        middle = (low + high + 1) // 2
        if batch.decode_start_s + _decoding_s(m, batch, middle) <= now_s:
            low = middle
        else:
            high = middle - 1
    batch.decoded = low


def _write(m: Memory, count: int, runs: Records) -> None:
    """What became of the rows of all batches, and their steps: one run for each chunk of prompts, one for decoding."""
    passes, logged = 0, 0
    for number in range(count):
        batch = m.batches[number]
        _stamp(m, batch, passes)
        end_s = batch.start_s
        for step in range(batch.prefilled):
            start_s, end_s = end_s, end_s + _prefill_s(m, batch, step)
            run = runs[logged]
            run.start_s, run.end_s, run.steps = start_s, end_s, 1
            run.sequences = run.resident = batch.rows
            run.prefill_tokens = batch.rows * _chunk(batch, step)
            run.first_tokens = batch.rows if step + 1 == _chunks(batch) else 0
            logged += 1
        if batch.decoded:
            run = runs[logged]
            run.start_s, run.steps = batch.decode_start_s, batch.decoded
            run.end_s = batch.decode_start_s + _decoding_s(m, batch, batch.decoded)
            run.sequences = run.resident = run.decoding = batch.rows
            run.context_tokens = batch.rows * (batch.longest_prompt + 1)
            logged += 1
        passes += batch.prefilled + batch.decoded


@compiled
def _stamp(m: Memory, batch: Records, passes: int) -> None:
    first_step = passes + batch.prefilled - 1
    at_most = batch.decoded + 1 if batch.prefilled == _chunks(batch) else 0
    for place in range(batch.first, batch.first + batch.rows):
        index = m.rows[place]
        outcome, made = m.outcomes[index], min(m.outputs[index], at_most)
        outcome.scheduled_s, outcome.returned_s = batch.start_s, batch.returned_s
        outcome.output_tokens = made
        if made:
            outcome.first_token_s = batch.decode_start_s
            outcome.last_token_s = batch.decode_start_s + _decoding_s(m, batch, made - 1)
            outcome.first_step, outcome.last_step = first_step, first_step + made - 1
        if made == m.outputs[index]:
            outcome.status = FINISHED


@compiled
def _chunks(batch: Records) -> int:
    chunks: int = -(-batch.longest_prompt // batch.chunk)
    return chunks


@compiled
def _chunk(batch: Records, step: int) -> int:
    tokens: int = min(batch.chunk, batch.longest_prompt - step * batch.chunk)
    return tokens


@compiled
def _prefill_s(m: Memory, batch: Records, step: int) -> float:
    """Attention of c tokens after a is (a + c)² − a²."""
    before, tokens = step * batch.chunk, _chunk(batch, step)
    squares = (before + tokens) * (before + tokens) - before * before
    return step_s(m.costs, batch.rows, 0, batch.rows * tokens, batch.rows * squares)


@compiled
def _decoding_s(m: Memory, batch: Records, steps: int) -> float:
    """The first decode step reads every prompt and one token a row, padding included."""
    return decode_s(m.costs, batch.rows, batch.rows * (batch.longest_prompt + 1), steps)


LAUNCH, CUT, WRITE = Entry(_launch), Entry(_cut), Entry(_write)
