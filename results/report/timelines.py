"""Queue length and its like over time (results/report/timeline.py), all settings of one rate and repeat in one figure."""

from collections.abc import Iterable, Sequence

import numpy as np
import plotly.graph_objects as go

from results.findings import Findings, TrialSummary
from results.report import amounts, numbers, theme
from results.report.amounts import Cell
from results.report.curve_parts import rate_control
from results.report.packed import Block, pack
from results.report.panel import SEPARATOR, Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.series import Series, series_of
from results.report.timeline import QUANTITIES, Timeline, timeline
from results.report.trial_rows import StoreOf, each

MOST_TRIALS = 150
NAME = "timelines"
_HEADING = "What waits and what runs, over time"
_HEIGHT_PX = 420


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
                name="show",
                choices=tuple(
                    Choice(value=key, label=QUANTITIES[key].name, title=QUANTITIES[key].plain)
                    for key in present
                ),
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


def _described(one: Timeline, present: Iterable[str]) -> dict[str, object]:
    return {
        "series": one.series.key,
        "name": one.series.name,
        "setting": one.series.setting,
        "place": one.series.place,
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


def _value(key: str, value: float | None) -> amounts.Value:
    of = QUANTITIES[key]
    return amounts.share(value) if of.percent else amounts.number(value, of.counts)


def _source(made: Sequence[Timeline]) -> str:
    sampled = sum(one.sampled for one in made)
    stamped = "how many requests the trial's stamps place there"
    if not sampled:
        return f"Drawn is {stamped}, at even moments."
    recorded = "" if sampled == len(made) else ", where that was recorded"
    return f"The queue is as it was seen once a second{recorded}; what runs and what is held is {stamped}."


def _table(made: Sequence[Timeline], present: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            one.series.setting,
            one.series.place,
            amounts.rate(one.summary.trial.rate),
            amounts.count(one.summary.trial.repeat + 1),
            amounts.number(one.mean_waiting, "requests"),
            *(_value(key, one.greatest[key]) for key in present),
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
