"""The next step of the iteration engine, or a run of decode steps, is made up; compiled.

The order is that of iteration.py. While nothing can be admitted and no prompt is under way, the clock jumps to
the next end or shortage of blocks.
"""

from deployments.virtual.block_growth import steps_with
from deployments.virtual.compiled import compiled
from deployments.virtual.end_heap import INDEX_BITS
from deployments.virtual.iteration_memory import ON_HOST, Memory
from deployments.virtual.iteration_sequences import be_silent, blocks_of
from deployments.virtual.occupancy import DECODE, PREFILL, PUT_OFF
from deployments.virtual.preemption import make_room, swapped_in
from deployments.virtual.sequence_lists import AFTER, BEFORE, append, remove
from deployments.virtual.slots import hold
from deployments.virtual.step_times import decode_s, step_s


@compiled
def begin(m: Memory, now_s: float) -> bool:
    """Start what can be started; True if a request failed instead, and it is to be tried again."""
    s = m.state[0]
    s.preempted = 0
    if s.optimistic and s.decoding:
        residue = s.clock % s.block_tokens
        if m.due[residue] > s.free and make_room(m, residue, now_s):
            return True
        s.free -= m.due[residue]
    s.start_s = now_s
    may_admit = s.waiting > 0 and s.residents < s.slots and s.preempted == 0
    if not ((s.prefilling or may_admit) and _begin_prefill(m, may_admit)):
        _begin_jump(m)
    return False


@compiled
def _begin_prefill(m: Memory, may_admit: bool) -> bool:
    """Spend the budget of one step; False if no prompt gets any of it and nothing is admitted."""
    s, queue, prefilling = m.state[0], len(m.sequences), len(m.sequences) + 1
    s.queued = s.waiting
    s.prompts = s.prompt_tokens = s.prompt_squares = s.completing = 0
    left = s.budget if s.prefill_first else s.budget - s.decoding
    index = m.phases[prefilling, AFTER]
    while left > 0 and index != prefilling:
        left -= _compute(m, index, left)
        index = m.phases[index, AFTER]
    admitted = False
    while left > 0 and may_admit and s.waiting and _admit(m):
        admitted = True
        index = m.residents[queue, BEFORE]
        done = swapped_in(m, index) if m.sequences[index].on_host else 0
        if done == ON_HOST:
            left -= 0 if s.prefill_first else 1
            continue
        append(m.phases, prefilling, index)
        s.prefilling += 1
        left -= _compute(m, index, left)
    if not (admitted or s.prompts):
        return False
    s.decodes, s.context = s.decoding, s.origins + s.decoding * s.clock
    if s.prefill_first and left < s.decodes:
        _put_off(m, s.decodes - left)
    s.steps, s.jump = 1, 0
    took_s = step_s(m.costs, s.prompts + s.decodes, s.context, s.prompt_tokens, s.prompt_squares)
    _begin_step(m, took_s)
    return True


@compiled
def _begin_step(m: Memory, took_s: float) -> None:
    s = m.state[0]
    s.end_s = s.start_s + s.transfer_s + took_s
    s.transfer_s = 0.0
    if s.watched:
        _occupy(m)


@compiled
def _compute(m: Memory, index: int, left: int) -> int:
    """A part of its prompt, within what is left of the budget: how many tokens."""
    s, sequence = m.state[0], m.sequences[index]
    rest = sequence.prompt + m.outcomes[index].output_tokens - sequence.done
    chunk: int = min(rest, left, s.chunk)
    if chunk == rest:
        s.completing += 1
    s.prompts += 1
    s.prompt_tokens += chunk
    s.prompt_squares += chunk * (2 * sequence.done + chunk)
    sequence.done += chunk
    return chunk


@compiled
def _admit(m: Memory) -> bool:
    """Give the oldest in the queue a slot and its blocks; False if there is none for it."""
    s = m.state[0]
    if s.residents >= s.slots:
        return False
    index = m.phases[len(m.sequences), AFTER]
    if s.paged:
        blocks = blocks_of(m, index, m.sequences[index].prompt + m.outcomes[index].output_tokens)
        if blocks > s.free:
            return False
        s.free -= blocks
    remove(m.phases, index)
    s.waiting -= 1
    append(m.residents, len(m.sequences), index)
    s.residents += 1
    if m.outcomes[index].scheduled_s != m.outcomes[index].scheduled_s:  # NaN: the first time
        m.outcomes[index].scheduled_s = s.start_s
    return True


@compiled
def _put_off(m: Memory, count: int) -> None:
    """Those that began to decode last make no token in this step."""
    s = m.state[0]
    s.late, s.decodes = count, s.decodes - count
    due, index = s.clock % s.block_tokens, len(m.sequences) + 2
    for _ in range(count):
        index = m.phases[index, BEFORE]
        sequence = m.sequences[index]
        s.context -= sequence.prompt + s.clock - sequence.origin
        be_silent(m, index, s.passes, s.passes + 1)
        if s.optimistic and (sequence.origin + 1 - sequence.prompt) % s.block_tokens == due:
            s.free += 1


@compiled
def _begin_jump(m: Memory) -> None:
    """As many decode steps as nothing of ours can interrupt; with nobody there the engine is idle."""
    s = m.state[0]
    if s.decoding == 0:
        assert s.waiting == 0, "the engine stands still before a queue"
        assert s.residents == 0, "the engine stands still with requests in it"
        assert s.free == s.pool, "nothing runs, and blocks of the KV cache are in use"
        return
    steps = (m.ends[0] >> INDEX_BITS) - s.clock
    if s.preempted:
        steps = 1  # the queue is looked at again after it
    elif s.optimistic and steps > 1:
        steps = 1 + steps_with(m.due, s.decoding, s.free, s.clock + 1, steps - 1)
    s.steps, s.jump = steps, 1
    s.decodes, s.context = s.decoding, s.origins + s.decoding * s.clock
    s.prompts = s.prompt_tokens = s.completing = 0
    s.queued = s.waiting
    _begin_step(m, decode_s(m.costs, s.decoding, s.context, steps))


@compiled
def _occupy(m: Memory) -> None:
    """What the residents do in the steps that begin now."""
    s, prefilling = m.state[0], len(m.sequences) + 1
    _hold_all(m, prefilling, s.prompts, PREFILL)
    _hold_all(m, prefilling + 1, s.decodes, DECODE)


@compiled
def _hold_all(m: Memory, head: int, active: int, holding: int) -> None:
    """So many of a list do something, and the others wait."""
    s, index = m.state[0], m.phases[head, AFTER]
    while index != head:
        what = holding if active > 0 else PUT_OFF
        s.stretches = hold(m.slots, m.stretches, s.stretches, index, what, s.passes)
        index, active = m.phases[index, AFTER], active - 1
