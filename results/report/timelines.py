"""Queue length and its like over time, all settings of one rate and repeat in one figure.

Of a measured trial that was sampled once a second the samples are drawn; of any other, how many requests its
stamps place there (results/report/trial_rows.py) at even moments, and what its engine's steps tell of the KV
cache. The greatest values, in the heading and the table, are over every moment, not over those drawn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from results.findings import Findings, TrialSummary
from results.metrics import Array, column
from results.report import numbers, theme
from results.report.curve_parts import rate_control
from results.report.packed import Block, pack
from results.report.panel import SEPARATOR, Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.series import Series, series_of
from results.report.trial_rows import PLACES, StoreOf, TrialRows, count_at, each, most_at_once

MOST_TRIALS = 150
MOMENTS = 160
NAME = "timelines"
_HEADING = "What waits and what runs, over time"
_HEIGHT_PX = 420


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Something that is counted over time; what is packed is value ÷ `unit`, rounded, plus 1: 0 is none."""

    name: str
    axis: str
    reaches: str  # how a heading begins to say its greatest value
    unit: float = 1.0
    percent: bool = False


QUANTITIES: dict[str, Quantity] = {
    "waiting": Quantity(name="queue length", axis="requests waiting", reaches="the queue reaches"),
    "running": Quantity(
        name="running", axis="requests running", reaches="the requests running at once reach"
    ),
    "held": Quantity(
        name="finished and held",
        axis="finished requests held by their batch",
        reaches="the finished requests held at once reach",
    ),
    "kv_use": Quantity(
        name="KV cache in use",
        axis="KV cache in use (%)",
        reaches="the KV cache in use reaches",
        unit=0.001,
        percent=True,
    ),
    "preemptions": Quantity(
        name="preemptions so far", axis="preemptions so far", reaches="preemptions reach"
    ),
    "device": Quantity(
        name="GPU utilisation",
        axis="GPU utilisation (%)",
        reaches="GPU utilisation reaches",
        unit=0.001,
        percent=True,
    ),
    "cpu": Quantity(
        name="CPU of the replica",
        axis="CPU of the replica (cores)",
        reaches="the cores that the replica computes on reach",
        unit=0.001,
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


def panel(findings: Findings, store_of: StoreOf) -> tuple[Panel | Absent, tuple[Block, ...]]:
    """Draw them by scripts/timelines.js, from a block of columns."""
    series = series_of(findings)
    chosen = chosen_of(series)
    made = [timeline(rows) for rows in each(chosen, store_of)]
    if not made:
        return Absent(name=NAME, heading=_HEADING, reason="No trial has finished yet."), ()
    present = [key for key in QUANTITIES if any(not np.isnan(one.values[key]).all() for one in made)]
    rates = sorted({one.summary.trial.rate for one in made}, reverse=True)
    repeats = sorted({one.summary.trial.repeat for one in made})
    chart = Chart(figure=go.Figure(layout={"height": _HEIGHT_PX}), summary="Requests over time.")
    total = sum(len(cell.trials) for one in series for cell in one.cells)
    first = "first repeat" if len(repeats) == 1 else f"first {len(repeats)} repeats"
    left_out = "" if len(made) == total else f" Of each setting and rate the {first} can be chosen."
    made_panel = Panel(
        name=NAME,
        controls=(
            rate_control(rates),
            Control(name="repeat", choices=tuple(Choice(value=str(r), label=str(r + 1)) for r in repeats)),
            Control(
                name="show", choices=tuple(Choice(value=key, label=QUANTITIES[key].name) for key in present)
            ),
        ),
        views={SEPARATOR.join(("0", str(repeats[0]), present[0])): View(heading=_HEADING, charts=(chart,))},
        table=_table(made, present),
        notes=(
            (
                "Time counts from the start of the trial; where a line ends, nothing was left or the rest was cut off. The most "
                f"in heading and table is over every moment. {_source(made)}{left_out}"
            ),
        ),
        live={
            "rates": rates,
            "said": [numbers.rate(rate) for rate in rates],
            "quantities": {
                key: {
                    "axis": QUANTITIES[key].axis,
                    "reaches": QUANTITIES[key].reaches,
                    "unit": QUANTITIES[key].unit * (100 if QUANTITIES[key].percent else 1),
                    "percent": QUANTITIES[key].percent,
                }
                for key in present
            },
            "layout": theme.layout(
                height_px=_HEIGHT_PX,
                xaxis=theme.axis("time since the start of the trial (s)", rangemode="tozero"),
                yaxis=theme.axis("", rangemode="tozero"),
            ),
            "trials": [_described(one, present) for one in made],
        },
    )
    return made_panel, (_packed(made, present),)


def chosen_of(series: Sequence[Series]) -> list[tuple[Series, TrialSummary]]:
    """Give as many of the first repeats of all cells as stay within MOST_TRIALS; the first in any case."""
    by_repeat: dict[int, list[tuple[Series, TrialSummary]]] = {}
    for one in series:
        for cell in one.cells:
            for summary in cell.trials:
                by_repeat.setdefault(summary.trial.repeat, []).append((one, summary))
    chosen: list[tuple[Series, TrialSummary]] = []
    for repeat in sorted(by_repeat):
        if chosen and len(chosen) + len(by_repeat[repeat]) > MOST_TRIALS:
            break
        chosen += by_repeat[repeat]
    return chosen


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
    values |= _engine(rows, at_s)
    values |= dict.fromkeys(("device", "cpu"), np.full(len(at_s), np.nan))
    if sampled:
        values |= {name: column(thinned, name) for name in ("waiting", "running")}
        values["device"] = column(thinned, "device_utilisation")
        values["cpu"] = _rate(column(thinned, "replica_cpu_s"), at_s)
        if np.isnan(values["kv_use"]).all():
            values["kv_use"] = column(thinned, "kv_use")
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


def _described(one: Timeline, present: Iterable[str]) -> dict[str, object]:
    return {
        "series": one.series.key,
        "name": one.series.name,
        "colour": one.series.style.colour,
        "dash": one.series.style.dash,
        "rate": one.summary.trial.rate,
        "repeat": one.summary.trial.repeat,
        "length": len(one.at_s),
        "greatest": {key: _text(key, one.greatest[key]) for key in present},
        "order": {key: one.greatest[key] for key in present},
        "sampled": one.sampled,
    }


def _packed(made: Sequence[Timeline], present: Iterable[str]) -> Block:
    # The first sample is taken at the start, on the other side of a clock offset: it may be a millisecond early.
    at_ms = [np.rint(1000 * np.maximum(one.at_s, 0)) for one in made]
    columns = {"at_ms": np.concatenate(at_ms).astype(np.int64)}
    for key in present:
        values = np.concatenate([one.values[key] for one in made]) / QUANTITIES[key].unit
        columns[key] = np.where(np.isnan(values), 0, np.rint(np.maximum(values, 0)) + 1).astype(np.int64)
    return pack(NAME, columns, deltas=("at_ms",))


def _text(key: str, value: float | None) -> str:
    if value is None:
        return numbers.NOTHING
    return numbers.share(value) if QUANTITIES[key].percent else numbers.number(value)


def _source(made: Sequence[Timeline]) -> str:
    sampled = sum(one.sampled for one in made)
    stamped = "how many requests the trial's stamps place there, at even moments"
    if not sampled:
        return f"Drawn is {stamped}."
    seen = "what was seen once a second"
    return (
        f"Drawn is {seen}."
        if sampled == len(made)
        else f"Drawn is {seen}, where that was recorded, else {stamped}."
    )


def _table(made: Sequence[Timeline], present: Sequence[str]) -> Table:
    rows = [
        (
            one.series.setting,
            one.series.place,
            numbers.rate(one.summary.trial.rate),
            str(one.summary.trial.repeat + 1),
            numbers.number(one.mean_waiting),
            *(_text(key, one.greatest[key]) for key in present),
        )
        for one in made
    ]
    columns = (
        "strategy",
        "backend",
        "rate",
        "repeat",
        "mean queue length",
        *(f"most: {QUANTITIES[key].name}" for key in present),
    )
    marks = tuple(Mark(series=(one.series.key,), rate=one.summary.trial.rate) for one in made)
    return Table(columns=columns, rows=tuple(rows), marks=marks)
