"""What the driver needs of an engine in virtual time.

An engine is passive. The driver tells it what joins, and lets it run until something outside happens; a call may
cover many steps and the ends of many requests. What joins in the midst of decode steps makes the engine look at
its queue at the end of the step under way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from deployments.virtual.occupancy import Stretch
from deployments.virtual.outcomes import Outcomes
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.step_model import StepModel
from strategies.kv_budget import KVBudget


@dataclass(slots=True, kw_only=True)
class Counters:
    """Sums over a run."""

    preemptions: int = 0
    recomputed_tokens: int = 0
    swapped_bytes: float = 0.0  # out and in
    peak_blocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What an engine did."""

    runs: npt.NDArray[np.void]  # steps, in order of time (dtype step_log.RUN)
    silences: npt.NDArray[np.void]  # by request and in order of time (dtype outcomes.SILENCE)
    stretches: tuple[Stretch, ...] | None  # where occupancy was asked for
    left_s: npt.NDArray[np.float64]  # when those that it ran to an end left it, in order
    counters: Counters


class Engine(Protocol):
    """Requests go by their index. Invariants: what ended has all its stamps and its status in the outcomes once
    the engine is closed, and holds no slot and no block any more; nothing is held when nothing runs.
    """

    def join(self, indices: Sequence[int], now_s: float) -> list[int]:
        """Take a batch over; those that can never be run have failed, and are returned."""

    def run(self, now_s: float, last_s: float, pause_s: float, stop: bool) -> tuple[float, list[int]]:
        """Take the steps that end at `last_s` or before, from `now_s` on; none begins at `pause_s` or later.

        With `stop` not beyond the moment at which a request ends, in whatever way. Returns the last moment at which
        something happened, and the requests that ended.
        """

    def abort(self, now_s: float) -> None:
        """Cut everything where it stands: whole steps count."""

    def close(self) -> Record:
        """Nothing comes any more."""


class EngineSettings(Protocol):
    """A value that engines are made of, one for each run."""

    @property
    def joinable(self) -> bool:
        """Whether a request may join while others run."""

    @property
    def step(self) -> StepModel:
        """What its steps take."""

    @property
    def budget(self) -> KVBudget | None:
        """What keys and values of a padded batch may take; None: no limit, or it does not pad."""

    def engine(self, requests: RequestColumns, outcomes: Outcomes, *, occupancy: bool) -> Engine:
        """An idle engine for these requests."""
