"""Which part of a trial is steady: the measured period less its first part.

The measured period runs from the first to the last planned arrival. The cut is MSER-5 (White, "An
effective truncation heuristic for bias reduction in simulation output", Simulation 69(6), 1997): over
means of 5 consecutive values z_1 … z_m, cut the first d that minimise

    Σ_{i>d} (z_i − mean of those)² ÷ (m − d)²,   d ≤ m/2

Requests are selected by their planned time, tokens by their own. A cut that reaches half the period has found
no steady part: verdict `not-stationary`.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.metrics import Array, column
from results.token_steps import Steps, TokenRuns, in_steps

GROUP = 5
FEWEST_GROUPS = 4


def measured_period(requests: pa.Table) -> tuple[float, float]:
    """Give the first and the last planned arrival, in seconds."""
    planned = column(requests, "planned_s")
    return float(planned.min()), float(planned.max())


def mser_cut(values: Array) -> int:
    """Give how many of the first values to leave out: a multiple of 5, at most half of them.

    0 with fewer than 4 groups of 5, in which nothing can be seen.
    """
    groups = len(values) // GROUP
    if groups < FEWEST_GROUPS:
        return 0
    means = values[: groups * GROUP].reshape(groups, GROUP).mean(axis=1)
    means -= means[-1]  # what is level at the end then has scores of exactly 0, not of rounding errors
    kept = np.arange(groups, 0, -1)
    sums, squares = np.cumsum(means[::-1])[::-1], np.cumsum(means[::-1] ** 2)[::-1]
    scores = np.maximum(squares - sums**2 / kept, 0) / kept**2
    return GROUP * int(np.argmin(scores[: groups // 2 + 1]))


def settles(measured: pa.Table) -> bool:
    """Whether the cut stops short of half the period; a trial too short for a cut is not said to drift."""
    ttft = column(_in_order(measured), "ttft_s")
    groups = len(ttft) // GROUP
    return groups < FEWEST_GROUPS or mser_cut(ttft) < GROUP * (groups // 2)


def steady_start(measured: pa.Table) -> float:
    """Give the planned time (s) at which the steady window of this trial begins.

    MSER-5 on the TTFT of finished requests in order of planned arrival; the start of the measured period
    if there is nothing to cut. `measured` as `results.metrics.with_metrics` gives it.
    """
    first_s, _ = measured_period(measured)
    rows = _in_order(measured)
    cut = mser_cut(column(rows, "ttft_s"))
    return first_s if cut == 0 else float(column(rows, "planned_s")[cut])


def _in_order(measured: pa.Table) -> pa.Table:
    """What finished and has a first token, by planned arrival."""
    kept = pc.and_(pc.equal(measured.column("status"), "finished"), pc.is_valid(measured.column("ttft_s")))
    return measured.filter(kept).sort_by([("planned_s", "ascending"), ("index", "ascending")])


def common_start(starts: Iterable[float]) -> float:
    """Give one start for all strategies of one rate and repeat: the latest, so that all are steady."""
    return max(starts)


def planned_in(requests: pa.Table, start_s: float, end_s: float) -> pa.Table:
    """Select the requests planned in [start, end]."""
    planned = requests.column("planned_s")
    return requests.filter(pc.and_(pc.greater_equal(planned, start_s), pc.less_equal(planned, end_s)))


def steady_throughput(
    requests: pa.Table, start_s: float, end_s: float, batches: pa.Table | None = None
) -> float | None:
    """Give output tokens/s in the window, tokens by their own time, whoever they belong to.

    None for an empty window, or if a request that made tokens has no stamps for them. `batches`: rows of
    the same trial that say when steps ended, where token times are steps.
    """
    if end_s <= start_s:
        return None
    if batches is not None and in_steps(requests):
        steps = Steps.of_rows(batches)
        edges = np.array([steps.ended_before(start_s), steps.ended_by(end_s)])
        before, by_the_end = TokenRuns.of_rows(requests).tokens_before(edges)
        return float(by_the_end - before) / (end_s - start_s)
    stamps = pc.list_flatten(requests.column("token_s").combine_chunks())
    if len(stamps) < column(requests, "output_tokens").sum():
        return None
    inside = pc.and_(pc.greater_equal(stamps, start_s), pc.less_equal(stamps, end_s))
    return float(pc.sum(inside).as_py() or 0) / (end_s - start_s)


def steady_completions(requests: pa.Table, start_s: float, end_s: float) -> float | None:
    """Give finished requests/s in the window, each at its last token; None for an empty window."""
    if end_s <= start_s:
        return None
    last_s = column(requests, "last_token_s")
    ended = np.asarray(pc.equal(requests.column("status"), "finished").to_numpy(zero_copy_only=False))
    return float((ended & (last_s >= start_s) & (last_s <= end_s)).sum()) / (end_s - start_s)
