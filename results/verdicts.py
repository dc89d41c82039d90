"""What a trial may not be used for: its verdicts, each with the numbers behind it.

    overloaded      slope of the backlog per arrival > max(0.02, 2 ÷ √n), and the means of its quarters rise;
                    or at the last arrival more is left than 25 % of the requests and two full batches
    too-short       not overloaded, and fewer than 200 arrivals or 10 batches
    not-stationary  the MSER-5 cut reaches half of the arrivals (results/windows.py)
    unfinished      any request was cut off at the drain limit
    failures        any request failed or was rejected; counts by cause
    client-bound    p99 of the dispatch lag > max(10 ms, 1 % of mean E2E)
    clock-vague     uncertainty or drift of the clock offset > 5 % of p50 TTFT
    drifted         |step probe ÷ median of the lane − 1| > 5 % (results/drift.py)
    shared-gpu      another process was on the GPU at the beginning or the end
    cap-fell        a batch of naive ran out of memory: those after it are smaller than N
    replica-changed replica or engine at the end is not that of the beginning, or is dead

The overload rule looks at the backlog (planned but not finished) sampled at each arrival. It is a size,
not a p-value: the backlog of a stable queue is so strongly correlated that a test of its slope calls
39 % of stable runs overloaded (ρ = 0.9, 500 arrivals).

Below 200 arrivals its growth cannot be told. A trial is then overloaded only if more is left at the last
arrival than its strategy leaves by itself: over a quarter of its requests, and over two full batches, one that
runs and one that gathers. Share of trials of size 8 so judged, the range over naive, dynamic and continuous
(`pytest tests/results/test_overload_rule.py` runs them in virtual time):

    arrivals  ρ = 0.5  ρ = 0.9   ρ = 1.3    ρ = 3
    10              0        0         0        0
    20              0   ≤ 0.01     ≤ 0.03  0.1-0.4
    40              0  0.04-0.09  0.5-0.6  ≥ 0.99
    100             0  0.02-0.05  0.7      1
    200             0  ≤ 0.04     ≥ 0.8    1

A quarter alone calls 66-87 % of trials with 10 arrivals overloaded at ρ = 0.5, and 20-34 % of those with 20.
"""

import itertools
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.conservation import left_s
from results.findings import Verdict
from results.metrics import Array, column, finished
from results.records import Trial
from results.windows import settles

FEWEST_ARRIVALS = 200
FEWEST_BATCHES = 10
UNFINISHED_SHARE = 0.25
OWN_BATCHES = 2  # of requests that a strategy may leave by itself: one runs, one gathers


def verdicts(trial: Trial, measured: pa.Table, batches: int) -> tuple[Verdict, ...]:
    """Judge one trial from its request rows with metrics and its number of batches (or engine steps)."""
    found = (
        _replica_changed(trial),
        _load(measured, batches, int(trial.knobs.get("max_batch_size") or 1)),
        _not_stationary(measured),
        _unfinished(measured),
        _failures(measured),
        _client_bound(measured),
        _clock_vague(trial, measured),
        _shared_gpu(trial),
        _cap_fell(trial),
    )
    return tuple(verdict for verdict in found if verdict is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Requests planned but not finished, at each arrival."""

    arrivals_s: Array
    waiting: Array

    @property
    def slope(self) -> float | None:
        """Growth ÷ offered rate: requests left behind per arrival. None without a spread of arrivals."""
        count = len(self.arrivals_s)
        span_s = float(np.ptp(self.arrivals_s)) if count else 0.0
        if count < 2 or span_s == 0:
            return None
        since = self.arrivals_s - self.arrivals_s.mean()
        per_second = float((since * (self.waiting - self.waiting.mean())).sum() / (since**2).sum())
        return per_second * span_s / (count - 1)

    @property
    def grows(self) -> bool:
        """Whether slope ÷ λ > max(0.02, 2 ÷ √n) and the quartile means rise monotonically."""
        count, slope = len(self.arrivals_s), self.slope
        if slope is None or count < 4 or slope <= max(0.02, 2 / math.sqrt(count)):
            return False
        means = [float(quarter.mean()) for quarter in np.array_split(self.waiting, 4)]
        return all(earlier < later for earlier, later in itertools.pairwise(means))

    @property
    def left(self) -> int:
        """Requests that were not finished when the last one arrived, itself included."""
        return int(self.waiting[-1]) if len(self.waiting) else 0

    @property
    def left_share(self) -> float:
        """Their share of all requests."""
        return self.left / len(self.waiting) if len(self.waiting) else 0.0


def backlog(requests: pa.Table) -> Backlog:
    """Sample the backlog at each planned arrival, that arrival included.

    A finished request leaves it at its last token, a failed or rejected one when it came back, an
    unfinished one never.
    """
    arrivals = np.sort(column(requests, "planned_s"))
    ends = left_s(requests)
    ends[pc.equal(requests.column("status"), "unfinished").to_numpy(zero_copy_only=False)] = np.inf
    ends = np.sort(np.where(np.isnan(ends), np.inf, ends))
    arrived = np.searchsorted(arrivals, arrivals, side="right")
    left = np.searchsorted(ends, arrivals, side="right")
    return Backlog(arrivals_s=arrivals, waiting=(arrived - left).astype(np.float64))


def _load(requests: pa.Table, batches: int, batch_size: int) -> Verdict | None:
    seen = backlog(requests)
    count = len(seen.arrivals_s)
    if seen.left_share > UNFINISHED_SHARE and seen.left > OWN_BATCHES * batch_size:
        detail = f"{seen.left} of {count} requests were not finished when the last one arrived"
        if seen.slope is not None:
            detail += f", backlog grows {seen.slope:.2f} requests per arrival"
        return Verdict(name="overloaded", detail=detail)
    if count < FEWEST_ARRIVALS or batches < FEWEST_BATCHES:
        detail = (
            f"{count} arrivals and {batches} batches, "
            f"a steady state is judged from {FEWEST_ARRIVALS} and {FEWEST_BATCHES}"
        )
        return Verdict(name="too-short", detail=detail)
    if seen.grows:
        return Verdict(name="overloaded", detail=f"backlog grows {seen.slope:.2f} requests per arrival")
    return None


def _not_stationary(measured: pa.Table) -> Verdict | None:
    if settles(measured):
        return None
    return Verdict(name="not-stationary", detail="the time to first token had not settled in half the period")


def _unfinished(requests: pa.Table) -> Verdict | None:
    count = int(pc.sum(pc.equal(requests.column("status"), "unfinished")).as_py() or 0)
    if not count:
        return None
    return Verdict(
        name="unfinished", detail=f"{count} of {requests.num_rows} requests cut off at the drain limit"
    )


def _failures(requests: pa.Table) -> Verdict | None:
    rows = requests.filter(pc.is_in(requests.column("status"), pa.array(["failed", "rejected"])))
    if not rows.num_rows:
        return None
    causes = Counter(cause or "unknown" for cause in rows.column("cause").to_pylist())
    listed = ", ".join(f"{count} × {cause}" for cause, count in sorted(causes.items()))
    return Verdict(
        name="failures", detail=f"{rows.num_rows} of {requests.num_rows} requests failed: {listed}"
    )


def _client_bound(measured: pa.Table) -> Verdict | None:
    lag = column(measured, "dispatch_lag_s")
    lag = lag[~np.isnan(lag)]
    if not len(lag):
        return None
    e2e = column(finished(measured), "e2e_s")
    e2e = e2e[~np.isnan(e2e)]
    limit = max(0.010, 0.01 * float(e2e.mean()) if len(e2e) else 0.0)
    p99 = float(np.percentile(lag, 99))
    if p99 <= limit:
        return None
    detail = (
        f"requests were sent late: of the whole trial p99 {p99 * 1000:.1f} ms, limit {limit * 1000:.1f} ms"
    )
    return Verdict(name="client-bound", detail=detail)


def _clock_vague(trial: Trial, measured: pa.Table) -> Verdict | None:
    ttft = column(finished(measured), "ttft_s")
    ttft = ttft[~np.isnan(ttft)]
    if not len(ttft):
        return None
    doubt = max(trial.clock.uncertainty_s, abs(trial.clock.drift_s or 0.0))
    median = float(np.percentile(ttft, 50))
    if doubt <= 0.05 * median:
        return None
    detail = f"clocks agree within {doubt * 1000:.1f} ms, p50 TTFT is {median * 1000:.1f} ms"
    return Verdict(name="clock-vague", detail=detail)


def _shared_gpu(trial: Trial) -> Verdict | None:
    if not trial.gpu_strangers:
        return None
    return Verdict(name="shared-gpu", detail=f"others computed on it: {'; '.join(trial.gpu_strangers)}")


def _replica_changed(trial: Trial) -> Verdict | None:
    if trial.incarnation_end == trial.incarnation:
        return None
    detail = "the replica or its engine is not the one that began the trial, or is dead"
    return Verdict(name="replica-changed", detail=detail)


def _cap_fell(trial: Trial) -> Verdict | None:
    if trial.strategy != "naive" or trial.min_cap is None:
        return None
    asked = trial.knobs.get("max_batch_size")
    detail = f"out of memory: batches were of at most {trial.min_cap} for a while, not of {asked}"
    return Verdict(name="cap-fell", detail=detail)
