"""The iteration engine: it forms its batch anew at each step, as vLLM does.

Between two steps, in this order:

1. Room is made for the next token of every decoding sequence. When blocks of the KV cache run out, the
   most recent arrival among the residents is preempted and goes to the front of the queue.
2. Unless something was preempted, the oldest in the queue are admitted while there is a free slot, room in
   the KV cache, and a part of the step's budget left.
3. The budget (`max_num_batched_tokens`) goes to decoding sequences first, one token each, and then to
   prompts, the oldest first, at most `prefill_chunk` tokens each; with `prefill-first` the other way
   round, and then those that began to decode last wait.

A sequence that computes something in a step counts in its B. The last chunk of a prompt makes the first
token. What ends frees its slot and its blocks for the next step. The KV cache holds a sequence's prompt
and all its tokens but the newest, which the next step writes.

Cost: O(log n) for each admission, first token, end and preemption, nothing for a token. A decoding
sequence is known by the tick of a decode clock at which it ends (in a heap); while nothing can be admitted
and no prompt is under way, the clock jumps to the next end or shortage of blocks, and what joins in between
cuts the jump short.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from math import ceil, isnan
from typing import Literal, TypeAlias

import numpy as np

from deployments.virtual.engine import NEVER_S, Counters
from deployments.virtual.kv_cache import BlockGrowth, KVCache
from deployments.virtual.occupancy import OccupancyLog
from deployments.virtual.outcomes import CANNOT_FIT, FINISHED, Outcomes
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.step_log import PACK, StepLog
from deployments.virtual.step_model import StepModel

Order: TypeAlias = Literal["decode-first", "prefill-first"]
UNLIMITED = 1 << 60
DECODING = -1
NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """Settings. None is no limit: of tokens a step, of a prompt's tokens in one step, of the KV cache."""

    step: StepModel
    max_num_seqs: int = 256
    max_num_batched_tokens: int | None = 512
    prefill_chunk: int | None = None
    order: Order = "decode-first"
    kv: KVCache | None = None

    def __post_init__(self) -> None:
        """ValueError for an engine that could not move."""
        if self.max_num_seqs < 1:
            raise ValueError(f"max_num_seqs must be at least 1, got {self.max_num_seqs}")
        if self.prefill_chunk is not None and self.prefill_chunk < 1:
            raise ValueError(f"prefill_chunk must be at least 1, got {self.prefill_chunk}")
        if self.max_num_batched_tokens is not None and self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens must be at least max_num_seqs ({self.max_num_seqs}), "
                f"got {self.max_num_batched_tokens}"
            )

    @property
    def joinable(self) -> bool:
        """Always."""
        return True

    def engine(
        self, requests: RequestColumns, outcomes: Outcomes, log: StepLog, occupancy: OccupancyLog | None
    ) -> "IterationEngine":
        """An idle engine for these requests."""
        return IterationEngine(self, requests, outcomes, log, occupancy)


def _misfits(kv: KVCache | None, requests: RequestColumns) -> frozenset[int]:
    """Requests that are larger than the whole cache: as they arrive, or with their declared limit."""
    if kv is None:
        return frozenset()
    tokens = requests.prompt_tokens
    if kv.admission == "reserve":
        tokens = tokens + requests.max_new_tokens - 1
    return frozenset(np.flatnonzero(tokens > kv.blocks * kv.block_tokens).tolist())


class IterationEngine:
    """Engine (see the protocol).

    A decoding sequence has made `clock − origin` tokens, so it ends when the clock reaches `origin` + its
    output, and the contexts of all are Σ(prompt − origin) + n·clock.
    """

    def __init__(
        self,
        settings: Iteration,
        requests: RequestColumns,
        outcomes: Outcomes,
        log: StepLog,
        occupancy: OccupancyLog | None,
    ) -> None:
        self.end_s = NEVER_S
        self.counters = Counters()
        self._model = settings.step
        self._slots = settings.max_num_seqs
        self._budget = settings.max_num_batched_tokens or UNLIMITED
        self._chunk = settings.prefill_chunk or UNLIMITED
        self._prefill_first = settings.order == "prefill-first"
        self._kv = settings.kv
        self._optimistic = settings.kv is not None and settings.kv.admission == "optimistic"
        self._swaps = settings.kv is not None and settings.kv.preemption == "swap"
        self._growth = BlockGrowth(settings.kv.block_tokens if settings.kv else 1)
        self._due = self._growth.due
        self._block_tokens = settings.kv.block_tokens if settings.kv else 1
        self._pool = settings.kv.blocks if settings.kv else 0
        self._free = self._pool
        self._misfits = _misfits(settings.kv, requests)  # they can never be admitted
        self._prompts: list[int] = requests.prompt_tokens.tolist()
        self._outputs: list[int] = requests.output_tokens.tolist()
        self._limits: list[int] = requests.max_new_tokens.tolist() if settings.kv else []
        self._count = max(1, len(requests))
        self._outcomes, self._packed, self._occupancy = outcomes, log.packed, occupancy
        self._made, self._scheduled_s = outcomes.output_tokens, outcomes.scheduled_s
        self._last_token_s, self._returned_s = outcomes.last_token_s, outcomes.returned_s
        self._last_step, self._status = outcomes.last_step, outcomes.status

        self._queue: deque[int] = deque()
        self._residents: dict[int, None] = {}  # in order of arrival: the queue is first in, first out
        self._prefilling: dict[int, int] = {}  # prompt tokens done
        self._decoding: dict[int, int] = {}  # origin, in order of the first decode step
        self._ends: list[int] = []  # heap of (tick of the end) · count + index; some are out of date
        self._swapped: dict[int, tuple[int, int]] = {}  # prompt tokens done (or DECODING), and tokens held
        self._stopped: dict[int, int] = {}  # since which step a preempted sequence has made no token
        self._clock = 0
        self._passes = 0
        self._origins = 0  # Σ(prompt − origin) over the decoding sequences

        self._start_s = 0.0  # of what is under way
        self._steps = 0
        self._step_decodes = 0  # sequences that make a token by decoding in each of these steps
        self._step_context = 0
        self._step_prefill = 0
        self._step_sequences = 0
        self._step_waiting = 0
        self._step_preempted = 0
        self._unlogged_preemptions = 0
        self._completing: list[int] = []  # prompts that are done at the end of the step
        self._late: list[int] = []  # decoding sequences that are put off in this step
        self._jump = False
        self._ragged = False  # some ends in the heap are out of date
        self._transfer_s = 0.0  # of what is swapped out or in, added to the next step

    def join(self, indices: Sequence[int], now_s: float) -> list[int]:
        """Queue what can ever fit; it is looked at when the step under way ends."""
        failed: list[int] = []
        if self._misfits:
            failed = [index for index in indices if index in self._misfits]
            indices = [index for index in indices if index not in self._misfits]
            for index in failed:
                self._refuse(index, now_s)
        opens = not self._queue and len(self._residents) < self._slots
        self._queue.extend(indices)
        if opens and self._steps > 1:
            self._cut(now_s)
        return failed

    def begin(self, now_s: float) -> list[int]:
        """See the protocol, and the order above."""
        if self._steps:
            return []
        self._step_preempted = 0
        if self._optimistic and self._decoding:
            residue = self._clock % self._block_tokens
            if self._due[residue] > self._free and (failed := self._make_room(residue, now_s)) is not None:
                return [failed]
            self._free -= self._due[residue]
        self._start_s = now_s
        may_admit = self._queue and len(self._residents) < self._slots and not self._step_preempted
        if not ((self._prefilling or may_admit) and self._begin_prefill(bool(may_admit))):
            self._begin_jump()
        return []

    def end(self, now_s: float) -> list[int]:
        """Count the steps that end now; what has made all its tokens ends."""
        steps = self._steps
        self._passes += steps
        if self._jump:
            self._clock += steps
            if self._optimistic and steps > 1:
                self._free -= self._growth.over(self._clock - steps + 1, steps - 1)
        elif self._step_decodes:
            self._clock += 1
        if self._late:
            self._make_up()
        blocks, resident = self._pool - self._free, len(self._residents)
        ended: list[int] = []
        if self._ends and self._ends[0] < (self._clock + 1) * self._count:
            self._end_decoding(ended, now_s)
        first_tokens = 0
        if self._completing:
            first_tokens = len(self._completing)
            self._end_prefill(ended, now_s)
        self._packed += PACK(
            self._start_s,
            now_s,
            self._step_context,
            steps,
            self._step_sequences,
            self._step_decodes,
            first_tokens,
            self._step_prefill,
            self._step_waiting,
            blocks,
            self._unlogged_preemptions,
            resident,
        )
        self._unlogged_preemptions = 0
        self._steps, self.end_s = 0, NEVER_S
        return ended

    def abort(self, now_s: float) -> None:
        """Keep what whole steps have made; nothing is left."""
        if self._steps and self._jump and (whole := self._whole_steps(now_s)):
            self._steps = whole
            self.end(self._start_s + self._model.decode_s(self._step_decodes, self._step_context, whole))
        for index in [*self._residents, *self._queue]:
            self._leave_unfinished(index, now_s)
        if self._occupancy is not None:
            self._occupancy.leave_all(self._passes)
        self._steps, self.end_s = 0, NEVER_S

    def _make_room(self, residue: int, now_s: float) -> int | None:
        """Preempt until the next step's blocks are there. A request that cannot go on alone fails: its index."""
        while self._due[residue] > self._free:
            index = next(reversed(self._residents))
            if len(self._residents) == 1:
                tokens = self._prompts[index] + self._clock - self._decoding[index]
                error = f"{tokens} tokens need more than the {self._pool} blocks of the KV cache"
                self._outcomes.fail(index, CANNOT_FIT, error, now_s)
                self._leave_unfinished(index, now_s)
                self._stop_decoding(index)
                self._release(index, self._prompts[index] + self._outcomes.output_tokens[index] - 1)
                return index
            self._preempt(index)
        return None

    def _preempt(self, index: int) -> None:
        """Give its blocks back and put it in front of the queue."""
        made = self._outcomes.output_tokens
        if index in self._decoding:
            made[index] = self._clock - self._decoding[index]
            self._stop_decoding(index)
            self._stopped[index] = self._passes
            done, computed = DECODING, self._prompts[index] + made[index] - 1
            self._release(index, computed)
        else:
            done = computed = self._prefilling.pop(index)
            self._release(index, self._prompts[index] + made[index])
        if not self._swaps:
            self.counters.recomputed_tokens += computed
        elif computed:
            self._swapped[index] = (done, self._move(computed))
        self._queue.appendleft(index)
        self._outcomes.preemptions[index] += 1
        self._step_preempted += 1
        self._unlogged_preemptions += 1
        self.counters.preemptions += 1

    def _move(self, tokens: int) -> int:
        """Blocks of so many tokens go to the host or come back: bytes and time of the next step."""
        assert self._kv is not None
        blocks = self._kv.blocks_for(tokens)
        moved = blocks * self._block_tokens * self._kv.bytes_per_token
        self.counters.swapped_bytes += moved
        self._transfer_s += moved / self._kv.swap_bytes_per_s
        return tokens

    def _release(self, index: int, tokens: int) -> None:
        """Leave the slot and the blocks that hold so many tokens."""
        del self._residents[index]
        if self._kv is not None:
            self._free += -(-(tokens if self._optimistic else self._reserved(index)) // self._block_tokens)
        if self._occupancy is not None:
            self._occupancy.leave(index, self._passes)

    def _reserved(self, index: int) -> int:
        """Tokens of the declared limit: the newest of them is never written."""
        return self._prompts[index] + self._limits[index] - 1

    def _refuse(self, index: int, now_s: float) -> None:
        tokens = self._prompts[index] if self._optimistic else self._reserved(index)
        needed = -(-tokens // self._block_tokens)
        error = f"{tokens} tokens need {needed} blocks of the KV cache, which has {self._pool}"
        self._outcomes.fail(index, CANNOT_FIT, error, now_s)

    def _begin_prefill(self, may_admit: bool) -> bool:
        """Spend the budget of one step; False if no prompt gets any of it and nothing is admitted."""
        self._step_waiting = len(self._queue)
        decoding, prompts, made = self._decoding, self._prompts, self._made
        left = self._budget if self._prefill_first else self._budget - len(decoding)
        tokens = squares = sequences = 0
        residents = [*reversed(self._prefilling.items())] if self._prefilling else []
        admitted = False
        while left > 0:
            if residents:
                index, done = residents.pop()
            else:
                if not (may_admit and self._queue):
                    break
                index = self._admit()
                if index == NOBODY:
                    break
                admitted = True
                done = self._swapped_in(index) if index in self._swapped else 0
                if done == DECODING:
                    left -= 0 if self._prefill_first else 1
                    continue
            rest = prompts[index] + made[index] - done
            chunk = min(rest, left, self._chunk)
            if chunk == rest:
                self._completing.append(index)
            self._prefilling[index] = done + chunk
            tokens += chunk
            squares += chunk * (2 * done + chunk)
            sequences += 1
            left -= chunk
        if not (admitted or tokens):
            return False
        decodes = len(decoding)
        context_tokens = self._origins + decodes * self._clock
        if self._prefill_first and left < decodes:
            context_tokens -= self._put_off(decodes - left)
            decodes = left
        self._step_prefill, self._step_sequences = tokens, sequences + decodes
        self._step_decodes, self._step_context = decodes, context_tokens
        self._steps, self._jump = 1, False
        self.end_s = (
            self._start_s
            + self._transfer_s
            + self._model.step_s(self._step_sequences, context_tokens, tokens, squares)
        )
        self._transfer_s = 0.0
        if self._occupancy is not None:
            self._occupy(self._occupancy)
        return True

    def _admit(self) -> int:
        """Give the oldest in the queue a slot and its blocks; NOBODY if there is none for it."""
        if len(self._residents) >= self._slots:
            return NOBODY
        index = self._queue[0]
        if self._kv is not None:
            tokens = self._prompts[index] + self._made[index] if self._optimistic else self._reserved(index)
            blocks = -(-tokens // self._block_tokens)
            if blocks > self._free:
                return NOBODY
            self._free -= blocks
        self._queue.popleft()
        self._residents[index] = None
        if isnan(self._scheduled_s[index]):
            self._scheduled_s[index] = self._start_s
        return index

    def _swapped_in(self, index: int) -> int:
        """What it had comes back from the host: prompt tokens done, or DECODING and it goes on with that."""
        done, computed = self._swapped.pop(index)
        self._move(computed)
        if done == DECODING:
            self._start_decoding(index, self._made[index])
            self._outcomes.silence(index, self._stopped.pop(index), self._passes)
        return done

    def _put_off(self, count: int) -> int:
        """Those that began to decode last make no token in this step; the sum of their contexts."""
        self._late = [*islice(reversed(self._decoding), count)]
        due = self._clock % self._block_tokens
        context_tokens = 0
        for index in self._late:
            prompt, origin = self._prompts[index], self._decoding[index]
            context_tokens += prompt + self._clock - origin
            self._outcomes.silence(index, self._passes, self._passes + 1)
            if self._optimistic and (origin + 1 - prompt) % self._block_tokens == due:
                self._free += 1
        return context_tokens

    def _make_up(self) -> None:
        """Those that were put off end one tick later, unless the clock stood still for everyone."""
        if self._step_decodes:
            self._ragged = True
            for index in self._late:
                origin = self._decoding[index]
                self._decoding[index] = origin + 1
                self._origins -= 1
                if self._optimistic:
                    residue = (origin + 1 - self._prompts[index]) % self._block_tokens
                    self._growth.remove(residue)
                    self._growth.add((residue + 1) % self._block_tokens)
        self._late = []

    def _end_prefill(self, ended: list[int], now_s: float) -> None:
        """Prompts that are done make their first token, or the next one after a preemption."""
        outcomes, step = self._outcomes, self._passes - 1
        for index in self._completing:
            del self._prefilling[index]
            made = outcomes.output_tokens[index] + 1
            if made == 1:
                outcomes.first_token_s[index] = now_s
                outcomes.first_step[index] = step
            else:
                outcomes.silence(index, self._stopped.pop(index), step)
            if made == self._outputs[index]:
                self._finish(index, now_s)
                ended.append(index)
            else:
                self._start_decoding(index, made)
                if self._occupancy is not None:
                    self._occupancy.hold(index, "decode", self._passes)
        self._completing.clear()

    def _begin_jump(self) -> None:
        """As many decode steps as nothing of ours can interrupt."""
        decodes = len(self._decoding)
        if not decodes:
            assert not self._queue, "the engine stands still before a queue"
            assert not self._residents, "the engine stands still with requests in it"
            return
        if self._ragged:
            self._drop_outdated_ends()
        steps = self._ends[0] // self._count - self._clock
        if self._step_preempted:
            steps = 1  # the queue is looked at again after it
        elif self._optimistic and steps > 1:
            steps = 1 + self._growth.steps_with(self._free, self._clock + 1, steps - 1)
        self._steps, self._jump = steps, True
        self._step_decodes = self._step_sequences = decodes
        self._step_context = self._origins + decodes * self._clock
        self._step_prefill, self._step_waiting = 0, len(self._queue)
        self.end_s = self._start_s + self._model.decode_s(decodes, self._step_context, steps)
        if self._transfer_s:
            self.end_s += self._transfer_s
            self._transfer_s = 0.0
        if self._occupancy is not None:
            self._occupy(self._occupancy)

    def _cut(self, now_s: float) -> None:
        """End the jump with the first step that ends at `now_s` or later."""
        count, context_tokens, start_s = self._step_decodes, self._step_context, self._start_s
        decode_s = self._model.decode_s
        steps = max(1, ceil((now_s - start_s) / decode_s(count, context_tokens, 1)))  # or fewer: steps grow
        if steps > 1 and start_s + decode_s(count, context_tokens, steps - 1) >= now_s:
            steps = 1 + bisect_left(
                range(1, steps), now_s, key=lambda some: start_s + decode_s(count, context_tokens, some)
            )
        while steps < self._steps and start_s + decode_s(count, context_tokens, steps) < now_s:
            steps += 1  # rounding
        if steps < self._steps:
            self._steps = steps
            self.end_s = start_s + decode_s(count, context_tokens, steps)

    def _whole_steps(self, now_s: float) -> int:
        """How many steps of the jump have ended by then."""
        count, context_tokens = self._step_decodes, self._step_context
        return bisect_right(
            range(1, self._steps),  # the last one has not
            now_s,
            key=lambda some: self._start_s + self._model.decode_s(count, context_tokens, some),
        )

    def _start_decoding(self, index: int, made: int) -> None:
        """The next step makes token number `made` + 1."""
        prompt, origin = self._prompts[index], self._clock - made
        self._decoding[index] = origin
        self._origins += prompt - origin
        heappush(self._ends, (origin + self._outputs[index]) * self._count + index)
        if self._optimistic:
            self._growth.add((origin + 1 - prompt) % self._block_tokens)

    def _stop_decoding(self, index: int) -> None:
        """Its end in the heap is out of date from now on, unless it is the end."""
        prompt, origin = self._prompts[index], self._decoding.pop(index)
        self._origins -= prompt - origin
        self._ragged = True
        if self._optimistic:
            self._growth.remove((origin + 1 - prompt) % self._block_tokens)

    def _end_decoding(self, ended: list[int], now_s: float) -> None:
        """Everything whose last token the clock has reached."""
        ends, count, clock = self._ends, self._count, self._clock
        decoding, outputs = self._decoding, self._outputs
        first_later = (clock + 1) * count
        while ends and ends[0] < first_later:
            index = heappop(ends) % count
            origin = decoding.get(index)
            if origin is None:
                continue  # out of date
            end = origin + outputs[index]
            if end > clock:
                heappush(ends, end * count + index)  # it was put off
                continue
            prompt = self._prompts[index]
            del decoding[index]
            self._origins -= prompt - origin
            if self._optimistic:
                self._growth.remove((origin + 1 - prompt) % self._block_tokens)
            self._finish(index, now_s)
            ended.append(index)

    def _drop_outdated_ends(self) -> None:
        """Leave a true end on top of the heap."""
        while True:
            tick, index = divmod(self._ends[0], self._count)
            origin = self._decoding.get(index)
            if origin is not None and origin + self._outputs[index] == tick:
                return
            heappop(self._ends)
            if origin is not None and origin + self._outputs[index] > tick:
                heappush(self._ends, (origin + self._outputs[index]) * self._count + index)

    def _finish(self, index: int, now_s: float) -> None:
        """All its tokens are made, the last of them in the step that ends now."""
        output = self._outputs[index]
        self._last_token_s[index] = self._returned_s[index] = now_s
        self._last_step[index] = self._passes - 1
        self._made[index] = output
        self._status[index] = FINISHED
        self._release(index, self._prompts[index] + output - 1)

    def _leave_unfinished(self, index: int, now_s: float) -> None:
        """Stamp what it has made; trailing steps without a token are no silence."""
        outcomes = self._outcomes
        if index in self._decoding:
            outcomes.output_tokens[index] = self._clock - self._decoding[index]
        outcomes.returned_s[index] = now_s
        if not outcomes.output_tokens[index]:
            return
        after = self._stopped.get(index, self._passes)
        pairs = outcomes.silences.get(index, [])
        if pairs and pairs[-1] >= after:
            after = pairs[-2]
            del pairs[-2:]
        outcomes.last_step[index] = after - 1

    def _occupy(self, occupancy: OccupancyLog) -> None:
        """What the residents do in the steps that begin now."""
        computing = self._step_sequences - self._step_decodes
        for place, index in enumerate(self._prefilling):
            occupancy.hold(index, "prefill" if place < computing else "waiting", self._passes)
        for place, index in enumerate(self._decoding):
            occupancy.hold(index, "decode" if place < self._step_decodes else "waiting", self._passes)
