"""The steps under way in the iteration engine end; compiled."""

import numpy as np

from deployments.virtual.block_growth import blocks_over
from deployments.virtual.compiled import compiled
from deployments.virtual.end_heap import INDEX_BITS, INDEX_MASK, delay
from deployments.virtual.iteration_memory import NEVER, Memory
from deployments.virtual.iteration_sequences import be_silent, finish, start_decoding, stop_decoding
from deployments.virtual.occupancy import DECODE
from deployments.virtual.sequence_lists import AFTER, BEFORE, remove
from deployments.virtual.slots import hold


@compiled
def end(m: Memory, now_s: float) -> None:
    """Count the steps; what has made all its tokens ends."""
    s = m.state[0]
    s.passes += s.steps
    if s.jump:
        s.clock += s.steps
        if s.optimistic and s.steps > 1:
            s.free -= blocks_over(m.due, s.decoding, s.clock - s.steps + 1, s.steps - 1)
    elif s.decodes:
        s.clock += 1
    if s.late:
        _make_up(m)
    _log(m, now_s)
    while s.decoding and m.ends[0] >> INDEX_BITS <= s.clock:
        index = m.ends[0] & INDEX_MASK
        stop_decoding(m, index)
        finish(m, index, now_s)
    if s.completing:
        _end_prompts(m, now_s)
    s.steps, s.end_s = 0, np.inf


@compiled
def _log(m: Memory, now_s: float) -> None:
    s = m.state[0]
    run = m.runs[s.runs]
    run.start_s, run.end_s = s.start_s, now_s
    run.context_tokens, run.steps = s.context, s.steps
    run.sequences, run.decoding, run.first_tokens = s.prompts + s.decodes, s.decodes, s.completing
    run.prefill_tokens, run.waiting = s.prompt_tokens, s.queued
    run.blocks, run.resident = s.pool - s.free, s.residents
    run.preemptions = s.unlogged_preemptions
    s.unlogged_preemptions = 0
    s.runs += 1


@compiled
def _make_up(m: Memory) -> None:
    """Those that were put off end one tick later, unless the clock stood still for everyone."""
    s, index = m.state[0], len(m.sequences) + 2
    for _ in range(s.late if s.decodes else 0):
        index = m.phases[index, BEFORE]
        sequence = m.sequences[index]
        if s.optimistic:
            m.due[(sequence.origin + 1 - sequence.prompt) % s.block_tokens] -= 1
            m.due[(sequence.origin + 2 - sequence.prompt) % s.block_tokens] += 1
        sequence.origin += 1
        s.origins -= 1
        delay(m.ends, m.places, s.decoding, index)
    s.late = 0


@compiled
def _end_prompts(m: Memory, now_s: float) -> None:
    """Prompts that are done make their first token, or the next one after a preemption."""
    s, step = m.state[0], m.state[0].passes - 1
    after = m.phases[len(m.sequences) + 1, AFTER]
    for _ in range(s.prompts):
        index, after = after, m.phases[after, AFTER]
        sequence, outcome = m.sequences[index], m.outcomes[index]
        if sequence.done < sequence.prompt + outcome.output_tokens:
            continue
        remove(m.phases, index)
        s.prefilling -= 1
        outcome.output_tokens += 1
        if outcome.output_tokens == 1:
            outcome.first_token_s, outcome.first_step = now_s, step
        else:
            be_silent(m, index, sequence.stopped, step)
            sequence.stopped = NEVER
        if outcome.output_tokens == sequence.output:
            finish(m, index, now_s)
            continue
        start_decoding(m, index, outcome.output_tokens)
        if s.watched:
            s.stretches = hold(m.slots, m.stretches, s.stretches, index, DECODE, s.passes)
