"""The stamps of one trial, read for the figures that show it over time; NaN for what does not exist.

A request is in one of three places from its planned arrival until it has left: waiting (until it is scheduled),
running (until its last token) and held (a finished answer that its batch keeps). What never got so far is in
the place that it reached until its reply, or else until the end of the trial.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.findings import TrialSummary
from results.metrics import Array, column
from results.report.series import Series
from results.store import Store

StoreOf: TypeAlias = Callable[[TrialSummary], Store]
PLACES = ("waiting", "running", "held")

_REQUESTS = (
    "planned_s",
    "scheduled_s",
    "first_token_s",
    "last_token_s",
    "returned_s",
    "received_s",
    "status",
    "prompt_tokens",
    "output_tokens",
    "batch_id",
)
_BATCHES = ("kind", "batch_id", "size", "trigger", "launched_s", "ended_s", "kv_use", "preemptions")
_SAMPLES = ("at_s", "waiting", "running", "kv_use", "device_utilisation", "replica_cpu_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRows:
    """One trial: its requests by place in the workload, its batches and steps, and what was sampled of it."""

    series: Series
    summary: TrialSummary
    requests: pa.Table
    batches: pa.Table
    samples: pa.Table

    @classmethod
    def read(cls, store: Store, series: Series, summary: TrialSummary) -> "TrialRows":
        """Read them from the store. StoreError as of `Store.requests`."""
        cell = {summary.trial.cell_id}
        return cls(
            series=series,
            summary=summary,
            requests=store.requests(cell, _REQUESTS),
            batches=store.batches(cell, _BATCHES),
            samples=store.samples(cell, _SAMPLES),
        )

    @property
    def end_s(self) -> float:
        """When the last of anything was seen."""
        stamps = [column(self.requests, name) for name in _REQUESTS[:6]]
        start_s = float(np.nanmin(stamps[0], initial=np.inf))
        return max(
            start_s + self.summary.trial.measured_s, *(float(np.nanmax(s, initial=0.0)) for s in stamps)
        )

    def left_s(self) -> Array:
        """When each request had left: its return, its reply if it was not returned, else the end."""
        returned, received = column(self.requests, "returned_s"), column(self.requests, "received_s")
        left = np.where(np.isnan(returned), received, returned)
        return np.where(np.isnan(left), self.end_s, left)

    @property
    def cut_s(self) -> float:
        """When what was left was cut off, which is no emptying of the queue; infinity where nothing was."""
        cut = pc.equal(self.requests.column("status"), "unfinished").to_numpy(zero_copy_only=False)
        return float(self.left_s()[cut].min(initial=np.inf))

    def stays(self) -> dict[str, tuple[Array, Array]]:
        """Give, for each of PLACES, from when until when each request was there; equal where it was not."""
        left = self.left_s()
        planned = column(self.requests, "planned_s")
        scheduled, last = (
            np.where(np.isnan(stamp), left, np.minimum(stamp, left))
            for stamp in (column(self.requests, name) for name in ("scheduled_s", "last_token_s"))
        )
        scheduled = np.maximum(scheduled, planned)
        last = np.maximum(last, scheduled)
        return {
            "waiting": (planned, scheduled),
            "running": (scheduled, last),
            "held": (last, np.maximum(left, last)),
        }

    def told(self, kind: str) -> pa.Table:
        """Give the rows of batches, or of steps."""
        return self.batches.filter(pc.equal(self.batches.column("kind"), kind))


def each(chosen: Sequence[tuple[Series, TrialSummary]], store_of: StoreOf) -> Iterator[TrialRows]:
    """Read trials one by one, so that memory holds one; one without a row left is passed over."""
    for series, summary in chosen:
        rows = TrialRows.read(store_of(summary), series, summary)
        if rows.requests.num_rows:
            yield rows


def count_at(stay: tuple[Array, Array], at_s: Array) -> Array:
    """How many are there at these times: they are from the first moment of their stay, and not at its last."""
    begin, end = stay
    came = np.searchsorted(np.sort(begin), at_s, "right")
    went = np.searchsorted(np.sort(end), at_s, "right")
    return np.asarray(came - went, dtype=np.float64)


def most_at_once(stay: tuple[Array, Array]) -> int:
    """Give the largest number that were there at once."""
    moments = np.unique(np.concatenate(stay))
    return int(count_at(stay, moments).max(initial=0))
