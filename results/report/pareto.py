"""The Pareto front of settings: throughput against a tail latency at one arrival rate, each point with its knobs.

A setting is on the front of its backend if no other there has at least its throughput and at most its latency,
one of them better. Overloaded and cut-off settings have no latency to compare and are drawn hollow, off the front.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from results.comparisons import THROUGHPUT
from results.findings import Findings
from results.report import amounts, axes, glossary, numbers, points, theme
from results.report.amounts import Cell
from results.report.curve_parts import rate_control
from results.report.leaders import is_shown, listed
from results.report.panel import SEPARATOR, Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.series import Series, rates_of, series_of
from results.statistics import FEWEST_PAIRS

_HEIGHT_PX = 460
_HEADING = "Which settings are worth considering"
_LATENCIES = ("ttft_s_p99", "e2e_s_p99", "delivered_s_p99", "ttft_s_p50", "e2e_s_p50")
_NOTE = (
    "Lower and further right is better. The line joins the settings of one backend that no other of it betters in both; "
    "means over repeats, so neighbours on it may not differ (see the paired changes). Where all keep up, all deliver what "
    "is offered and the front is short. Hollow: overloaded or cut off, so without a latency of its own and off the front."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting at one rate; `compared` is False where its latency describes the drain limit."""

    series: Series
    throughput: float
    latency_s: float
    compared: bool


def panel(findings: Findings) -> Panel | Absent:
    """One view for each arrival rate, the highest that some setting keeps up with first, and latency."""
    series = series_of(findings)
    names = [name for name in _LATENCIES if points.all_values(series, name)]
    rates = [rate for rate in rates_of(series) if names and len(points_of(series, rate, names[0])) > 1]
    if not rates:
        reason = "Two settings have to finish at the same arrival rate."
        return Absent(name="pareto", heading=_HEADING, reason=reason)
    held = [rate for rate in rates if any(one.compared for one in points_of(series, rate, names[0]))]
    first = (held or rates)[-1]
    rates.sort(key=lambda rate: (rate != first, -rate))
    found = [[points_of(series, rate, name) for name in names] for rate in rates]
    heading = _heading(found[0][0], rates[0], names[0])
    chart = Chart(figure=go.Figure(layout={"height": _HEIGHT_PX}), summary=heading)
    return Panel(
        name="pareto",
        controls=(
            rate_control(rates),
            Control(
                name="latency",
                choices=tuple(
                    Choice(value=str(n), label=glossary.label(name), title=glossary.metric_of(name)[0].said)
                    for n, name in enumerate(names)
                ),
            ),
        ),
        views={f"0{SEPARATOR}0": View(heading=heading, charts=(chart,))},
        table=_table(series, rates, names),
        notes=(_NOTE,),
        live={
            "rates": [numbers.rate(rate) for rate in rates],
            "names": [glossary.label(name) for name in names],
            "series": {one.key: _look(one) for one in series},
            "muted": theme.MUTED,
            "views": [
                [_view(among, rate, name) for name, among in zip(names, of_rate, strict=True)]
                for rate, of_rate in zip(rates, found, strict=True)
            ],
        },
    )


def points_of(series: Sequence[Series], rate: float, name: str) -> list[Point]:
    """Give the settings that have both at this rate."""
    found = []
    for one in series:
        cell = one.at(rate)
        if cell is None:
            continue
        throughput, latency = cell.mean(THROUGHPUT), cell.mean(name)
        if throughput is not None and latency is not None:
            found.append(
                Point(series=one, throughput=throughput, latency_s=latency, compared=not cell.censored)
            )
    return found


def front(among: Sequence[Point]) -> list[Point]:
    """Give those that none betters, by throughput; of several that are equal, all."""
    compared = [one for one in among if one.compared]
    return sorted(
        (one for one in compared if not any(_betters(other, one) for other in compared)),
        key=lambda one: (one.throughput, one.latency_s),
    )


def _betters(other: Point, one: Point) -> bool:
    no_worse = other.throughput >= one.throughput and other.latency_s <= one.latency_s
    return no_worse and (other.throughput > one.throughput or other.latency_s < one.latency_s)


def _by_place(among: Sequence[Point]) -> list[list[Point]]:
    places: dict[str, list[Point]] = {}
    for one in among:
        places.setdefault(one.series.place, []).append(one)
    return sorted(places.values(), key=lambda group: -len(group))


def _look(one: Series) -> dict[str, str]:
    return {
        "name": one.name,
        "setting": one.setting,
        "place": one.place,
        "colour": one.style.colour,
        "dash": one.style.dash,
        "symbol": points.symbol(one, overloaded=False),
        "hollow": points.symbol(one, overloaded=True),
    }


def _view(among: Sequence[Point], rate: float, name: str) -> dict[str, object]:
    best = {id(one) for group in _by_place(among) for one in front(group)}
    return {
        "heading": _heading(among, rate, name),
        "layout": _layout(among, rate, name),
        "points": [
            {
                "series": one.series.key,
                "throughput": one.throughput,
                "latency": one.latency_s,
                "texts": [numbers.number(one.throughput), numbers.duration(one.latency_s)],
                "compared": one.compared,
                "front": id(one) in best,
            }
            for one in among
        ],
    }


def _heading(among: Sequence[Point], rate: float, name: str) -> str:
    group = _by_place(among)[0] if among else []
    if not group:
        return _HEADING
    where = f"At {numbers.rate(rate)} on {group[0].series.place}"
    best = front(group)
    if not best:
        return f"{where} every setting is overloaded or cut off: none has a {glossary.label(name)} of its own"
    if len(best) == 1:
        return f"{where} {_only(best[0], [one for one in group if one.compared], rate, name)}"
    low, high = best[0], best[-1]
    shown = (
        f"{where} {len(best)} of the {len(group)} settings that have both are on the front, from {low.series.setting} "
        f"({numbers.duration(low.latency_s)}) to {high.series.setting} ({numbers.number(high.throughput)} tokens/s)"
    )
    alike = [what for what, metric in _both_metrics(name) if not _differ(low, high, rate, metric)]
    return f"{shown}: no difference in {' or '.join(alike)} shown between the two" if alike else shown


def _only(best: Point, compared: Sequence[Point], rate: float, name: str) -> str:
    """Say of the only one on the front in what it is shown to be the best of those compared."""
    others = [one for one in compared if one is not best]
    label = glossary.label(name)
    if not others:
        return f"{best.series.setting} alone is neither overloaded nor cut off: no other has a {label} of its own"
    alike = {
        what: [one.series.setting for one in others if not _differ(best, one, rate, metric)]
        for what, metric in _both_metrics(name)
    }
    ends = {"throughput": "the most throughput", label: f"the lowest {label}"}
    among = f"of the {numbers.count(len(compared), 'setting')} that have both"
    shown = [ends[what] for what, settings in alike.items() if not settings]
    doubts = [f"{what} from that of {listed(settings)}" for what, settings in alike.items() if settings]
    has = f"{best.series.setting} has {' and '.join(shown or ['the best means'])} {among}"
    return f"{has}; not shown to differ: its {' and its '.join(doubts)}" if doubts else has


def _both_metrics(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Give what is compared on the front, in words and by name."""
    return ("throughput", THROUGHPUT), (glossary.label(name), name)


def _differ(base: Point, other: Point, rate: float, metric: str) -> bool:
    """Whether two are shown to differ; without an interval they are taken by their means, as everywhere."""
    before, after = base.series.at(rate), other.series.at(rate)
    assert before is not None
    assert after is not None
    return min(len(before.trials), len(after.trials)) < FEWEST_PAIRS or is_shown(metric, before, after)


def _layout(among: Sequence[Point], rate: float, name: str) -> dict[str, Any]:
    latencies = [one.latency_s for one in among]
    title = f"{glossary.label(name)} (s)"
    y = (
        axes.log_axis(title, latencies, numbers.duration)
        if latencies and min(latencies) > 0
        else theme.axis(title, rangemode="tozero")
    )
    return theme.layout(height_px=_HEIGHT_PX, xaxis=_throughputs(among, rate), yaxis=y)


def _throughputs(among: Sequence[Point], rate: float) -> dict[str, object]:
    """From the lowest repeat to the highest, so that noise is no distance; with room: points have their names beside them."""
    cells = [cell for one in among if (cell := one.series.at(rate)) is not None]
    values = [value for cell in cells for value in points.values_of(cell, THROUGHPUT)] or [1.0]
    room = max(max(values) - min(values), 0.05 * max(values)) * 0.18
    return theme.axis("throughput (tokens/s)", range=[max(0.0, min(values) - room), max(values) + room])


def _table(series: Sequence[Series], rates: Sequence[float], names: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    marks = []
    for rate in rates:
        by_name = {name: points_of(series, rate, name) for name in names}
        on = {
            name: {one.series.key for group in _by_place(found) for one in front(group)}
            for name, found in by_name.items()
        }
        for one in by_name[names[0]]:
            cell = one.series.at(rate)
            assert cell is not None
            marks.append(Mark(series=(one.series.key,), rate=rate))
            rows.append(
                (
                    one.series.setting,
                    one.series.place,
                    amounts.rate(rate),
                    amounts.number(one.throughput, "tokens/s"),
                    *(amounts.duration(cell.mean(name)) for name in names),
                    ", ".join(glossary.label(name) for name in names if one.series.key in on[name])
                    or ("none" if one.compared else "not compared: overloaded or cut off"),
                )
            )
    columns = ("strategy", "backend", "rate", "tokens/s", *map(glossary.label, names), "on the front of")
    return Table(columns=columns, rows=tuple(rows), marks=tuple(marks))
