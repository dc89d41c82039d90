"""What the driver needs of an engine in virtual time.

An engine is passive. The driver tells it what joins, asks it to `begin` where it stands between two steps,
and comes back at `end_s`. One `begin` may cover many decode steps; what joins in their midst makes the
engine cut them short, at the end of the step under way.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deployments.virtual.occupancy import OccupancyLog
from deployments.virtual.outcomes import Outcomes
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.step_log import StepLog
from deployments.virtual.step_model import StepModel

NEVER_S = math.inf


@dataclass(slots=True, kw_only=True)
class Counters:
    """Sums over a run."""

    preemptions: int = 0
    recomputed_tokens: int = 0
    swapped_bytes: float = 0.0  # out and in
    peak_blocks: int = 0


class Engine(Protocol):
    """Requests go by their index. Invariants: `end_s` is inf exactly when nothing runs; what ended has all
    its stamps and its status in the outcomes, and holds no slot and no block any more.
    """

    end_s: float
    counters: Counters

    def join(self, indices: Sequence[int], now_s: float) -> list[int]:
        """Take a batch over; those that can never be run have failed, and are returned."""

    def begin(self, now_s: float) -> list[int]:
        """Start the next step if none is under way; returns those that failed instead. Ask until none does."""

    def end(self, now_s: float) -> list[int]:
        """Finish the steps that end now; returns the requests that ended."""

    def abort(self, now_s: float) -> None:
        """Cut everything where it stands: whole steps count."""


class EngineSettings(Protocol):
    """A value that engines are made of, one for each run."""

    @property
    def joinable(self) -> bool:
        """Whether a request may join while others run."""

    @property
    def step(self) -> StepModel:
        """What its steps take."""

    def engine(
        self, requests: RequestColumns, outcomes: Outcomes, log: StepLog, occupancy: OccupancyLog | None
    ) -> Engine:
        """An idle engine for these requests."""
