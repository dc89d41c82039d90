"""The forward passes of transformers' continuous batching: one row each, and each token's stamp.

Both methods are called in the engine's thread: `began` when a batch has been put together, `ended` when
its tokens are on the host, before the engine frees what has finished. So the share of the cache in use is
that of the pass itself. Stamps are taken here, because the engine forgets its own when it preempts: it
drops the request's cache and queues it again with the tokens so far as part of its prompt.
"""

import time
from collections import deque
from typing import Any

from deployments.backends.backend import EngineStep
from deployments.backends.joined_sequence import JoinedSequence


class PassRecorder:
    """`open`: what runs or waits, by the engine's id; the event loop adds to it and takes from it."""

    def __init__(self) -> None:
        self.open: dict[str, JoinedSequence] = {}
        self.peak_kv_use = 0.0  # share of the KV cache, 0..1
        self._steps: deque[EngineStep] = deque()  # filled by one thread and emptied by another
        self._resident: set[str] = set()
        self._preemptions = 0

    def take(self) -> list[EngineStep]:
        """The passes since the last call."""
        return [self._steps.popleft() for _ in range(len(self._steps))]

    def began(self, processor: Any) -> None:
        """Note who is in a batch for the first time, and who has been preempted to make room for it."""
        now_s = time.monotonic()
        for scheduled in processor.inputs_and_outputs.requests_in_batch:
            sequence = self.open.get(scheduled.state.request_id)
            if sequence is not None and sequence.scheduled_s is None:
                sequence.scheduled_s = now_s
        scheduler = processor.scheduler
        self._preemptions = 0
        for engine_id in self._resident & scheduler.waiting_requests.keys():
            sequence = self.open.get(engine_id)
            if sequence is not None:
                sequence.preemptions += 1
                self._preemptions += 1
        self._resident = set(scheduler.active_requests)

    def ended(self, processor: Any) -> None:
        """Stamp the tokens of the pass. What has been aborted meanwhile counts for nothing."""
        now_s = time.monotonic()
        batch, new_ids, _ = processor.inputs_and_outputs.prepare_batch_update()
        ids = iter(new_ids)
        running = tokens = prefill_tokens = 0
        for scheduled in batch:
            token_id = next(ids) if scheduled.has_new_token else None
            sequence = self.open.get(scheduled.state.request_id)
            if sequence is None:
                continue
            running += 1
            prefill_tokens += _prefill_tokens(scheduled)
            if token_id is not None:
                sequence.add(token_id, now_s)
                tokens += 1
        if not running:
            return
        scheduler = processor.scheduler
        resident_beside = len(scheduler.active_requests) - len(batch)  # no room for them in this pass
        waiting = len(scheduler.waiting_requests) + processor.input_queue.qsize() + resident_beside
        kv_use = 1.0 - processor.cache.compute_free_capacity()
        self.peak_kv_use = max(self.peak_kv_use, kv_use)
        step = EngineStep(
            end_s=now_s,
            running=running,
            waiting=waiting,
            tokens=tokens,
            prefill_tokens=prefill_tokens,
            kv_use=kv_use,
            preemptions=self._preemptions,
        )
        self._steps.append(step)


def _prefill_tokens(scheduled: Any) -> int:
    """How many of its tokens in this pass are prompt, or were computed before a preemption."""
    state = scheduled.state
    in_pass: int = scheduled.query_length
    left: int = len(state.initial_tokens) - (state.position_offset - in_pass)
    return max(0, min(in_pass, left))
