"""What happens to one sequence in the iteration engine, compiled.

A decoding sequence has made `clock − origin` tokens, so it ends when the clock reaches `origin` + its output, and
the contexts of all of them are Σ(prompt − origin) + n·clock.
"""

from deployments.virtual.compiled import compiled
from deployments.virtual.end_heap import pop, push
from deployments.virtual.iteration_memory import NEVER, Memory
from deployments.virtual.outcomes import FAILED, FINISHED
from deployments.virtual.sequence_lists import append, remove
from deployments.virtual.slots import leave


@compiled
def start_decoding(m: Memory, index: int, made: int) -> None:
    """The next step makes token number `made` + 1."""
    s, sequence = m.state[0], m.sequences[index]
    sequence.origin = s.clock - made
    s.origins += sequence.prompt - sequence.origin
    append(m.phases, len(m.sequences) + 2, index)
    push(m.ends, m.places, s.decoding, sequence.origin + sequence.output, index)
    s.decoding += 1
    if s.optimistic:
        m.due[(sequence.origin + 1 - sequence.prompt) % s.block_tokens] += 1


@compiled
def stop_decoding(m: Memory, index: int) -> None:
    """It makes no further token, at least for now."""
    s, sequence = m.state[0], m.sequences[index]
    s.origins -= sequence.prompt - sequence.origin
    remove(m.phases, index)
    pop(m.ends, m.places, s.decoding, index)
    s.decoding -= 1
    if s.optimistic:
        m.due[(sequence.origin + 1 - sequence.prompt) % s.block_tokens] -= 1


@compiled
def blocks_of(m: Memory, index: int, tokens: int) -> int:
    """Blocks that it holds with so many tokens: with `reserve` those of its declared limit, whose newest token is
    never written.
    """
    s = m.state[0]
    if not s.optimistic:
        tokens = m.sequences[index].prompt + m.sequences[index].limit - 1
    blocks: int = -(-tokens // s.block_tokens)
    return blocks


@compiled
def release(m: Memory, index: int, tokens: int) -> None:
    """Leave the slot and the blocks that hold so many tokens."""
    s = m.state[0]
    remove(m.residents, index)
    s.residents -= 1
    if s.paged:
        s.free += blocks_of(m, index, tokens)
    if s.watched:
        s.stretches = leave(m.slots, m.stretches, s.stretches, index, s.passes)


@compiled
def be_silent(m: Memory, index: int, from_step: int, to_step: int) -> None:
    """No token in these steps; a silence that goes on is one silence."""
    s, last = m.state[0], m.sequences[index].silence
    if last != NEVER and m.silences[last].to_step == from_step:
        m.silences[last].to_step = to_step
        return
    one = m.silences[s.silences]
    one.index, one.from_step, one.to_step = index, from_step, to_step
    m.sequences[index].silence = s.silences
    s.silences += 1


@compiled
def finish(m: Memory, index: int, now_s: float) -> None:
    """All its tokens are made, the last of them in the step that ends now."""
    s, sequence, outcome = m.state[0], m.sequences[index], m.outcomes[index]
    outcome.last_token_s = outcome.returned_s = now_s
    outcome.last_step = s.passes - 1
    outcome.output_tokens = sequence.output
    outcome.status = FINISHED
    release(m, index, sequence.prompt + sequence.output - 1)
    _has_ended(m, index, now_s)


@compiled
def fail(m: Memory, index: int, now_s: float) -> None:
    """It decodes, and cannot go on: the cache is too small for it alone."""
    leave_unfinished(m, index, now_s)
    m.outcomes[index].status = FAILED
    stop_decoding(m, index)
    release(m, index, m.sequences[index].prompt + m.outcomes[index].output_tokens - 1)
    _has_ended(m, index, now_s)


@compiled
def leave_unfinished(m: Memory, index: int, now_s: float) -> None:
    """Stamp what it has made; trailing steps without a token are no silence."""
    s, sequence, outcome = m.state[0], m.sequences[index], m.outcomes[index]
    if m.places[index] >= 0:
        outcome.output_tokens = s.clock - sequence.origin
    outcome.returned_s = now_s
    if outcome.output_tokens == 0:
        return
    after = s.passes if sequence.stopped == NEVER else sequence.stopped
    if sequence.silence != NEVER:
        last = m.silences[sequence.silence]
        if last.to_step >= after:
            after = last.to_step = last.from_step
    outcome.last_step = after - 1


@compiled
def _has_ended(m: Memory, index: int, now_s: float) -> None:
    s = m.state[0]
    m.ended[s.ended].index, m.ended[s.ended].at_s = index, now_s
    s.ended += 1
