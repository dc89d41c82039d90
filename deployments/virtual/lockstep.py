"""The lockstep engine: a padded batch runs to its longest row, as Hugging Face's generate does.

With B rows, P the longest prompt and O the longest output: ⌈P ÷ prefill_chunk⌉ prefill steps charged at
B·P tokens, the last of which makes the first token of every row, then O − 1 decode steps of B rows. Rows
that are done and padding are charged to the end, and every row is returned at the end.
"""

from dataclasses import dataclass

from deployments.virtual.engine import Engine
from deployments.virtual.outcomes import Outcomes
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.step_model import StepModel
from strategies.kv_budget import KVBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class Lockstep:
    """Settings. `prefill_chunk`: prompt tokens of a row in one step; None: the whole prompt.

    `budget`: what keys and values of a batch may take; the dispatcher keeps to it, not the engine.
    """

    step: StepModel
    prefill_chunk: int | None = None
    budget: KVBudget | None = None

    def __post_init__(self) -> None:
        """ValueError for a chunk of nothing."""
        if self.prefill_chunk is not None and self.prefill_chunk < 1:
            raise ValueError(f"prefill_chunk must be at least 1, got {self.prefill_chunk}")

    @property
    def joinable(self) -> bool:
        """Never."""
        return False

    def engine(self, requests: RequestColumns, outcomes: Outcomes, *, occupancy: bool) -> Engine:
        """An idle engine for these requests."""
        from deployments.virtual.lockstep_engine import LockstepEngine  # it loads a compiler

        return LockstepEngine(self, requests, outcomes, occupancy)
