"""What one trial shows over time: how many requests wait, run and are held, and what its engine and device tell.

Of a measured trial that was sampled once a second the queue is that of the samples; of any other, how many requests
its stamps place there (results/report/trial_rows.py) at even moments. What runs and what is held are by the stamps of
both, and the engine's steps tell of the KV cache. The greatest values are over every moment, not over those taken.
"""

from dataclasses import dataclass

import numpy as np

from results.findings import TrialSummary
from results.metrics import Array, column
from results.report.series import Series
from results.report.trial_rows import PLACES, TrialRows, count_at, most_at_once

MOMENTS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Something that is counted over time; what is packed is value ÷ `unit`, rounded, plus 1: 0 is none."""

    name: str
    axis: str
    reaches: str  # how a heading begins to say its greatest value
    plain: str  # how it is counted, and what that means
    unit: float = 1.0
    percent: bool = False
    counts: str = "requests"  # what it is a number of


QUANTITIES: dict[str, Quantity] = {
    "waiting": Quantity(
        name="queue length",
        axis="requests waiting",
        reaches="the queue reaches",
        plain="Requests planned − requests begun: what stands in front of a new one.",
    ),
    "running": Quantity(
        name="running",
        axis="requests running",
        reaches="the requests running at once reach",
        plain="Requests begun − requests whose last token was made: who shares a step.",
    ),
    "held": Quantity(
        name="finished and held",
        axis="finished requests held by their batch",
        reaches="the finished requests held at once reach",
        plain="Requests whose last token was made − requests returned: answers that wait for the longest of their batch.",
    ),
    "kv_use": Quantity(
        name="KV cache in use",
        axis="KV cache in use (%)",
        reaches="the KV cache in use reaches",
        plain="Blocks in use ÷ all blocks: where it is full, requests are put off.",
        unit=0.001,
        percent=True,
    ),
    "preemptions": Quantity(
        name="preemptions so far",
        axis="preemptions so far",
        reaches="preemptions reach",
        counts="",
        plain="How often a request was put off so far because no block was left: its answer pauses, and is computed again or swapped back.",
    ),
    "device": Quantity(
        name="GPU utilisation",
        axis="GPU utilisation (%)",
        reaches="GPU utilisation reaches",
        plain="Share of the time in which the GPU computed anything, as its driver tells: not how much of it was used.",
        unit=0.001,
        percent=True,
    ),
    "cpu": Quantity(
        name="CPU of the replica",
        axis="CPU of the replica (cores)",
        reaches="the cores that the replica computes on reach",
        plain="Seconds of processor time of the replica ÷ seconds, between two samples: near its threads, it can go no faster.",
        unit=0.001,
        counts="cores",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One trial: values at moments, NaN where unknown, by quantity; and the greatest of each at any moment."""

    series: Series
    summary: TrialSummary
    sampled: bool
    at_s: Array
    values: dict[str, Array]
    greatest: dict[str, float | None]
    mean_waiting: float


def timeline(rows: TrialRows) -> Timeline:
    """Give what one trial shows over time."""
    stays = rows.stays()
    sampled = rows.samples.num_rows > 1
    thinned = rows.samples.slice(0)
    if sampled:
        every = -(-rows.samples.num_rows // MOMENTS)
        thinned = rows.samples.take(list(range(0, rows.samples.num_rows, every)))
    at_s = column(thinned, "at_s") if sampled else np.linspace(0.0, rows.end_s, MOMENTS)
    values = {place: count_at(stays[place], at_s) for place in PLACES}
    greatest: dict[str, float | None] = {place: float(most_at_once(stays[place])) for place in PLACES}
    values["running"], greatest["running"] = _running(rows, values["running"], greatest["running"], at_s)
    values |= _engine(rows, at_s)
    values |= dict.fromkeys(("device", "cpu"), np.full(len(at_s), np.nan))
    if sampled:
        values["waiting"] = column(thinned, "waiting")
        values["device"] = column(thinned, "device_utilisation")
        values["cpu"] = _rate(column(thinned, "replica_cpu_s"), at_s)
        if np.isnan(values["kv_use"]).all():
            values["kv_use"] = column(thinned, "kv_use")
    cut = at_s >= rows.cut_s
    values |= {place: np.where(cut, np.nan, values[place]) for place in PLACES}
    for key in ("device", "cpu"):
        greatest[key] = _most(values[key])
    steps = column(rows.batches, "kv_use")
    greatest["kv_use"] = _most(steps) if not np.isnan(steps).all() else _most(values["kv_use"])
    greatest["preemptions"] = rows.summary.metrics.get("kv_preemptions")
    begin, end = stays["waiting"]
    return Timeline(
        series=rows.series,
        summary=rows.summary,
        sampled=sampled,
        at_s=at_s,
        values=values,
        greatest=greatest,
        mean_waiting=float((end - begin).sum()) / rows.end_s if rows.end_s else 0.0,
    )


def _running(rows: TrialRows, stamped: Array, most: float | None, at_s: Array) -> tuple[Array, float | None]:
    """No more than the step that runs then has, where steps are told: stamps of one that ends and one that begins overlap."""
    steps = rows.told("step")
    if not steps.num_rows:
        return stamped, most
    ended, sizes = column(steps, "ended_s"), column(steps, "size")
    order = np.argsort(ended, kind="stable")
    then = np.append(sizes[order], np.inf)[np.searchsorted(ended[order], at_s, "right")]
    return np.minimum(stamped, then), float(sizes.max())


def _engine(rows: TrialRows, at_s: Array) -> dict[str, Array]:
    """KV cache in use at the last step that had ended, and preemptions up to it; of an engine that tells."""
    steps = rows.told("step")
    ended, use, put_off = (column(steps, name) for name in ("ended_s", "kv_use", "preemptions"))
    order = np.argsort(ended, kind="stable")
    place = np.searchsorted(ended[order], at_s, "right") - 1
    nothing = np.full(len(at_s), np.nan)
    found = {"kv_use": nothing, "preemptions": nothing}
    if not np.isnan(use).all():
        found["kv_use"] = np.where(place < 0, 0.0, use[order][place])
    if not np.isnan(put_off).all():
        found["preemptions"] = np.where(place < 0, 0.0, np.nancumsum(put_off[order])[place])
    return found


def _rate(total: Array, at_s: Array) -> Array:
    """Seconds of CPU per second, over the time since the sample before."""
    gaps = np.diff(at_s)
    return np.concatenate([[np.nan], np.diff(total) / np.where(gaps > 0, gaps, np.nan)])


def _most(values: Array) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else None
