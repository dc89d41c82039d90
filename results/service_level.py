"""A service level as a percentile of a trial: "ttft_p99=500ms,e2e_p95=5s", and whether a trial kept it.

p99 of a metric within a limit means: at least 99 % of the requests that were offered have it within the limit.
What failed, was rejected or was cut off was offered and never had it; a request whose metric does not exist (TPOT
of one token) is not counted. Over the requests planned in the steady window (results/windows.py). An overloaded
trial has kept nothing, because what it delays most comes after its end.
"""

import math
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.metrics import column, with_metrics
from results.records import Trial
from results.report import numbers
from results.trial_summary import summarise
from results.windows import measured_period, planned_in, steady_start

METRICS = {  # name → metric of a request, as a person reads it
    "ttft": ("ttft_s", "TTFT"),
    "tpot": ("tpot_s", "TPOT"),
    "itl": ("itl_p99_s", "ITL p99 of a request"),
    "e2e": ("e2e_s", "E2E"),
    "queue_wait": ("queue_wait_s", "queue wait"),
    "delivered": ("delivered_s", "delivered"),
}
_TARGET = re.compile(
    r"(?P<metric>[a-z0-9_]+)_p(?P<percentile>\d+(\.\d+)?)=(?P<limit>\d+(\.\d+)?)(?P<unit>ms|s)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One limit on one percentile."""

    metric: str  # a key of METRICS
    percentile: float
    limit_s: float

    @property
    def text(self) -> str:
        """As a person reads it: p99 TTFT ≤ 500 ms."""
        return f"p{self.percentile:g} {METRICS[self.metric][1]} ≤ {duration(self.limit_s)}"

    @property
    def key(self) -> str:
        """As `parse` reads it."""
        return f"{self.metric}_p{self.percentile:g}={self.limit_s * 1000:g}ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether a trial kept a service level; `why` says what it did not keep, or how near it came."""

    within: bool
    why: str


def parse(text: str) -> tuple[Target, ...]:
    """Read "ttft_p99=500ms,e2e_p95=5s". ValueError, in words, if it is not that."""
    targets: list[Target] = []
    for part in text.split(","):
        found = _TARGET.fullmatch(part.strip())
        if found is None:
            raise ValueError(f"must read like ttft_p99=500ms,e2e_p95=5s, got {part.strip() or 'nothing'}")
        metric, percentile = found["metric"], float(found["percentile"])
        limit_s = float(found["limit"]) / (1000 if found["unit"] == "ms" else 1)
        if metric not in METRICS:
            raise ValueError(f"must limit one of {', '.join(METRICS)}, got {metric}")
        if not 0 < percentile <= 100 or limit_s <= 0:
            raise ValueError(f"must have a percentile in 0..100 and a limit above 0, got {part.strip()}")
        if any((metric, percentile) == (one.metric, one.percentile) for one in targets):
            raise ValueError(f"must limit {metric}_p{percentile:g} once, got it twice")
        targets.append(Target(metric=metric, percentile=percentile, limit_s=limit_s))
    return tuple(targets)


def judge(trial: Trial, requests: pa.Table, batches: pa.Table, targets: tuple[Target, ...]) -> Judgement:
    """Judge one trial, with at least one request row, from its rows."""
    measured = with_metrics(requests, batches)
    start_s, (_, end_s) = steady_start(measured), measured_period(measured)
    summary = summarise(trial, measured, batches, start_s)
    for verdict in summary.verdicts:
        if verdict.name == "overloaded":
            return Judgement(within=False, why=f"overloaded: {verdict.detail}")
    window = planned_in(measured, start_s, end_s)
    reached = {target: percentile(window, target) for target in targets}
    missed = [target for target, value_s in reached.items() if value_s > target.limit_s]
    said = ", ".join(f"{target.text}: {duration(reached[target])}" for target in missed or targets)
    return Judgement(within=not missed, why=said)


def percentile(measured: pa.Table, target: Target) -> float:
    """The least value (s) that its share of the requests does not exceed; infinite if too few ended, nan if none counts."""
    finished = pc.equal(measured.column("status"), "finished").to_numpy(zero_copy_only=False)
    values = np.where(finished, column(measured, METRICS[target.metric][0]), math.inf)
    values = np.sort(values[~np.isnan(values)])
    if not len(values):
        return math.nan
    return float(values[max(0, math.ceil(target.percentile / 100 * len(values) - 1e-9) - 1)])


def duration(seconds: float) -> str:
    """A length of time for a person, three digits."""
    if math.isinf(seconds):
        return "never"
    return numbers.duration(seconds)
