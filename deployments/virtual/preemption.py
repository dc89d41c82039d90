"""Room in the KV cache by preemption, compiled: the resident that joined last goes first."""

from deployments.virtual.compiled import compiled
from deployments.virtual.iteration_memory import NEVER, ON_HOST, Memory
from deployments.virtual.iteration_sequences import be_silent, fail, release, start_decoding, stop_decoding
from deployments.virtual.sequence_lists import BEFORE, prepend, remove


@compiled
def make_room(m: Memory, residue: int, now_s: float) -> bool:
    """Preempt until the next step's blocks are there; True if a request failed, which cannot go on alone."""
    s = m.state[0]
    while m.due[residue] > s.free:
        youngest = m.residents[len(m.sequences), BEFORE]
        if s.residents == 1:
            fail(m, youngest, now_s)
            return True
        _preempt(m, youngest)
    return False


@compiled
def swapped_in(m: Memory, index: int) -> int:
    """What it had comes back from the host: prompt tokens done, or ON_HOST and it decodes on."""
    s, sequence = m.state[0], m.sequences[index]
    done: int = sequence.done
    _move(m, sequence.on_host)
    sequence.on_host = 0
    if done == ON_HOST:
        start_decoding(m, index, m.outcomes[index].output_tokens)
        be_silent(m, index, sequence.stopped, s.passes)
        sequence.stopped = NEVER
    return done


@compiled
def _preempt(m: Memory, index: int) -> None:
    """Give its blocks back and put it in front of the queue."""
    s, sequence, outcome = m.state[0], m.sequences[index], m.outcomes[index]
    if m.places[index] >= 0:
        outcome.output_tokens = s.clock - sequence.origin
        stop_decoding(m, index)
        sequence.stopped = s.passes
        computed = sequence.prompt + outcome.output_tokens - 1
        release(m, index, computed)
        sequence.done = ON_HOST
    else:
        remove(m.phases, index)
        s.prefilling -= 1
        computed = sequence.done
        release(m, index, sequence.prompt + outcome.output_tokens)
    if not s.swaps:
        s.recomputed_tokens += computed
        sequence.done = 0
    elif computed:
        sequence.on_host = computed
        _move(m, computed)
    prepend(m.phases, len(m.sequences), index)
    s.waiting += 1
    outcome.preemptions += 1
    s.preempted += 1
    s.unlogged_preemptions += 1
    s.preemptions += 1


@compiled
def _move(m: Memory, tokens: int) -> None:
    """Blocks of so many tokens go to the host or come back: bytes, and time of the next step."""
    s = m.state[0]
    moved = -(-tokens // s.block_tokens) * s.block_tokens * s.bytes_per_token
    s.swapped_bytes += moved
    s.transfer_s += moved / s.swap_bytes_per_s
