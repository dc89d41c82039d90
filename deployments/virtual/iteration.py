"""The iteration engine: it forms its batch anew at each step, as vLLM does.

Between two steps, in this order:

1. Room is made for the next token of every decoding sequence. When blocks of the KV cache run out, the
   resident that joined last (the most recent arrival, unless the strategy's order is another) is preempted
   and goes to the front of the queue.
2. Unless something was preempted, the oldest in the queue are admitted while there is a free slot, room in
   the KV cache, and a part of the step's budget left.
3. The budget (`max_num_batched_tokens`) goes to decoding sequences first, one token each, and then to
   prompts, the oldest first, at most `prefill_chunk` tokens each; with `prefill-first` the other way
   round, and then those that began to decode last wait.

A sequence that computes something in a step counts in its B. The last chunk of a prompt makes the first
token. What ends frees its slot and its blocks for the next step. The KV cache holds a sequence's prompt
and all its tokens but the newest, which the next step writes.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from deployments.virtual.engine import Engine
from deployments.virtual.kv_cache import KVCache
from deployments.virtual.outcomes import Outcomes
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.step_model import StepModel

Order: TypeAlias = Literal["decode-first", "prefill-first"]


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

    @property
    def budget(self) -> None:
        """None: the cache is the engine's own."""
        return None

    def engine(self, requests: RequestColumns, outcomes: Outcomes, *, occupancy: bool) -> Engine:
        """An idle engine for these requests."""
        from deployments.virtual.iteration_engine import IterationEngine  # it loads a compiler

        return IterationEngine(self, requests, outcomes, occupancy)
