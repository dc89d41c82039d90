"""The iteration engine (iteration.py says what it does): its compiled loop, and the object around it.

Cost: O(log n) for each admission, first token, end and preemption, nothing for a token, and one call for all that
happens until the next event outside.
"""

from collections.abc import Sequence

import numpy as np

from deployments.virtual.batch_ending import end
from deployments.virtual.batch_forming import begin
from deployments.virtual.compiled import Entry, compiled
from deployments.virtual.engine import Counters, Record
from deployments.virtual.iteration import Iteration
from deployments.virtual.iteration_memory import Memory, memory_of
from deployments.virtual.iteration_sequences import leave_unfinished
from deployments.virtual.jump import cut, end_of, whole_steps
from deployments.virtual.occupancy import stretches_of
from deployments.virtual.outcomes import CANNOT_FIT, FAILED, Outcomes, in_order
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.sequence_lists import AFTER, append
from deployments.virtual.slots import leave


def _run(
    m: Memory, joins: int, now_s: float, last_s: float, pause_s: float, stop: bool
) -> tuple[float, int, bool]:
    """See the protocol; the last moment at which something happened, how many have ended so far, and whether it was
    interrupted for want of room in a log.
    """
    s = m.state[0]
    if joins:
        if s.steps > 1 and s.waiting == 0 and s.residents < s.slots:
            cut(m, now_s)
        for place in range(joins):
            append(m.phases, len(m.sequences), m.joins[place])
        s.waiting += joins
    ended = s.ended
    while not (stop and s.ended > ended):
        if s.steps == 0:
            if now_s >= pause_s:
                break
            if _full(m):
                return now_s, s.ended, True
            if begin(m, now_s):
                continue
            if s.steps == 0:
                break
        if s.end_s > last_s:
            break
        now_s = s.end_s
        end(m, now_s)
    return now_s, s.ended, False


def _abort(m: Memory, now_s: float) -> None:
    """See the protocol."""
    s, head = m.state[0], len(m.sequences)
    if s.steps and s.jump:
        whole = whole_steps(m, now_s)
        if whole:
            s.steps = whole
            end(m, end_of(m, whole))
    index = m.residents[head, AFTER]
    while index != head:
        leave_unfinished(m, index, now_s)
        if s.watched:
            s.stretches = leave(m.slots, m.stretches, s.stretches, index, s.passes)
        index = m.residents[index, AFTER]
    index = m.phases[head, AFTER]
    while index != head:
        leave_unfinished(m, index, now_s)
        index = m.phases[index, AFTER]
    s.steps, s.end_s = 0, np.inf


@compiled
def _full(m: Memory) -> bool:
    """Whether a log might have no room for what one step can add to it."""
    s, slots = m.state[0], len(m.ends)
    full: bool = s.runs + 2 > len(m.runs) or s.silences + 4 * slots > len(m.silences)
    return full or (s.watched > 0 and s.stretches + 8 * slots > len(m.stretches))


_RUN, _ABORT = Entry(_run), Entry(_abort)
_NOBODY: list[int] = []


class IterationEngine:
    """Engine (see the protocol)."""

    def __init__(
        self, settings: Iteration, requests: RequestColumns, outcomes: Outcomes, occupancy: bool
    ) -> None:
        self._settings, self._requests, self._outcomes = settings, requests, outcomes
        self.memory = memory_of(settings, requests, outcomes.rows, occupancy)
        self._misfits = self._larger_than_the_cache()
        self._call = _RUN.point(self.memory, 0, 0.0, 0.0, 0.0, True)
        self._ended = self.memory.ended["index"]
        self._told, self._joins = 0, 0
        self._join = self.memory.joins

    def join(self, indices: Sequence[int], now_s: float) -> list[int]:
        """Queue what can ever fit; it is looked at when the step under way ends."""
        failed: list[int] = []
        if self._misfits:
            failed = [index for index in indices if index in self._misfits]
            indices = [index for index in indices if index not in self._misfits]
            for index in failed:
                self._outcomes.end(index, FAILED, CANNOT_FIT, self._misfits[index], now_s)
        for index in indices:
            self._join[self._joins] = index
            self._joins += 1
        return failed

    def run(self, now_s: float, last_s: float, pause_s: float, stop: bool) -> tuple[float, list[int]]:
        """See the protocol."""
        joins, self._joins, told = self._joins, 0, self._told
        now_s, ended, full = self._call(self.memory, joins, now_s, last_s, pause_s, stop)
        while full:
            self._make_room()
            now_s, ended, full = self._call(self.memory, 0, now_s, last_s, pause_s, stop)
        if ended == told:
            return now_s, _NOBODY
        self._told = ended
        return now_s, self._ended[told:ended].tolist()

    def abort(self, now_s: float) -> None:
        """Keep what whole steps have made; nothing is left."""
        self._make_room()
        _ABORT.point(self.memory, 0.0)(self.memory, now_s)

    def close(self) -> Record:
        """See the protocol."""
        m = self.memory
        state = m.state[0]
        for name in ("runs", "silences", "stretches"):
            getattr(m, name).resize(int(state[name]), refcheck=False)
        for index in np.flatnonzero(
            (m.outcomes["status"] == FAILED) & (m.outcomes["output_tokens"] > 0)
        ).tolist():
            tokens = int(m.sequences["prompt"][index] + m.outcomes["output_tokens"][index])
            error = f"{tokens} tokens need more than the {state['pool']} blocks of the KV cache"
            self._outcomes.errors[index] = (CANNOT_FIT, error)
        return Record(
            runs=m.runs,
            silences=in_order(m.silences),
            stretches=stretches_of(m.stretches.tolist()) if state["watched"] else None,
            left_s=m.ended["at_s"][: state["ended"]],
            counters=Counters(
                preemptions=int(state["preemptions"]),
                recomputed_tokens=int(state["recomputed_tokens"]),
                swapped_bytes=float(state["swapped_bytes"]),
                peak_blocks=int(m.runs["blocks"].max(initial=0)),
            ),
        )

    def _make_room(self) -> None:
        """More room in each log that may be full: a third more, and what a step can need."""
        step = 8 * len(self.memory.ends) + 256
        for log in (self.memory.runs, self.memory.silences, self.memory.stretches):
            if len(log):
                log.resize(len(log) + max(len(log) // 3, step), refcheck=False)

    def _larger_than_the_cache(self) -> dict[int, str]:
        """Requests that can never be admitted, as they arrive or with their declared limit, and why."""
        kv = self._settings.kv
        if kv is None:
            return {}
        tokens = self._requests.prompt_tokens
        if kv.admission == "reserve":
            tokens = tokens + self._requests.max_new_tokens - 1
        return {
            index: f"{tokens[index]} tokens need {kv.blocks_for(int(tokens[index]))} blocks of the KV cache, "
            f"which has {kv.blocks}"
            for index in np.flatnonzero(tokens > kv.blocks * kv.block_tokens).tolist()
        }
