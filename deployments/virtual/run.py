"""What a run in virtual time leaves: everything in columns, no token by token."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deployments.virtual.engine import Counters, EngineSettings
from deployments.virtual.occupancy import Stretch
from deployments.virtual.request_columns import RequestColumns

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Columns by request index, by batch id, and by run of engine steps.

    Times in seconds, NaN where it did not happen; steps from 0 over the whole run, -1 likewise. Request i
    made a token in each of the steps `first_step[i]` … `last_step[i]` but those of its silences. `silences` has
    the dtype `outcomes.SILENCE`, by request and in order of time, `launches` that of `batch_log.LAUNCH`, `runs`
    that of `step_log.RUN`.
    """

    requests: RequestColumns
    settings: EngineSettings
    cap: int  # max_batch_size

    scheduled_s: Floats
    first_token_s: Floats
    last_token_s: Floats
    returned_s: Floats
    first_step: Ints
    last_step: Ints
    output_tokens: Ints  # made
    preemptions: npt.NDArray[np.int32]
    batch_id: Ints  # -1: it was never launched
    status: npt.NDArray[np.int32]  # codes of outcomes.STATUSES
    errors: dict[int, tuple[str | None, str]]  # cause and text of those that failed or were rejected

    silences: npt.NDArray[np.void]
    launches: npt.NDArray[np.void]
    runs: npt.NDArray[np.void]
    counters: Counters
    cut_off: bool  # at the drain limit
    ended_s: float
    stretches: tuple[Stretch, ...] | None  # where an occupancy log was asked for

    @property
    def passes(self) -> int:
        """Engine steps."""
        return int(self.runs["steps"].sum())

    @property
    def utilisation(self) -> float | None:
        """Useful slot-steps ÷ (cap × passes): output tokens, each of which took one slot for one step."""
        return float(self.output_tokens.sum()) / (self.cap * self.passes) if self.passes else None
