"""What a sweep costs: the price of an hour of a GPU, times the hours for which lanes were held.

    cost                    = price × GPU hours, with GPU hours = Σ over attempts  GPUs of the lane × seconds held ÷ 3600
    per million tokens      = price × GPUs of the lane ÷ 3600 ÷ throughput × 10⁶

over every attempt, also those that failed, with what was cleared away and loaded for it, over the saturation runs of
a search, and over the timing of engines that `auto` asked for. A lane without GPU counts as one. An attempt that was
killed could not say how long it had its lane: it counts until the last that it wrote, so the cost is the least then.
Not in it: a machine that comes up, a lane that waits. Throughput: of the trial's steady window, so that a
price per token is that of a server which goes on as it did there, without loading.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from results.findings import TrialSummary
from results.price import HOUR_S, Price, Spent, timed, total
from results.records import VIRTUAL, LaneTime
from results.store import Store
from results.sweep_folder import AT_ONCE

PER_MILLION = "cost_per_million_tokens"
THROUGHPUT = "steady_throughput_tokens_per_s"


def spent(store: Store, sweep: Mapping[str, Any], price: Price | None) -> Spent:
    """By all attempts in the store, and by the timing of engines before them. Nothing in virtual time."""
    if "simulated" in sweep:
        return Spent()
    return total((time for _, time in lane_times(store)), price, timed(sweep))


def lane_times(store: Store) -> list[tuple[str, LaneTime | None]]:
    """Of each attempt its cell's id and what `Store.lane_times` says, the saturation runs of a search among them."""
    both = (store, Store(store.place / AT_ONCE))
    return [(cell_id, time) for one in both for (cell_id, _), time in one.lane_times().items()]


def with_cost(summary: TrialSummary, price: Price | None) -> TrialSummary:
    """With what a million output tokens cost at its throughput; without a price as it was."""
    if price is None:
        return summary
    return replace(summary, metrics={**summary.metrics, PER_MILLION: _per_million(summary, price)})


def _per_million(summary: TrialSummary, price: Price) -> float | None:
    trial, throughput = summary.trial, summary.metrics.get(THROUGHPUT)
    lane = trial.lane_time or LaneTime(held_s=0.0)
    each = price.of(lane.kind or ("" if trial.device == VIRTUAL else trial.device))
    if each is None or not throughput:
        return None
    return each * lane.gpus / HOUR_S / throughput * 1e6
