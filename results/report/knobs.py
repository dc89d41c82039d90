"""Heatmaps of any metric over a strategy's knobs at one arrival rate: a figure for each backend.

A row is a strategy with all its knobs but max_batch_size, a column a max_batch_size, so that strategies share
one scale of colour. A cell is the mean over repeats; the scale runs from the lowest repeat to the highest of all
figures of a view, so that means that differ by less than repeats do look alike; in the logarithm where the metric is a
time. The best of each backend and what is not shown to differ from it are bold (results/report/leaders.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

from results.findings import CellSummary, Findings
from results.report import amounts, glossary, headlines, numbers, points, theme
from results.report.amounts import Cell
from results.report.curve_parts import rate_control
from results.report.leaders import Lead, lead, said
from results.report.panel import SEPARATOR, Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.series import Series, main_place, rates_of, series_of

_HEADING = "What the knobs do"
_OF_TRIALS = (
    "steady_throughput_tokens_per_s",
    "steady_throughput_requests_per_s",
    "batch_size_mean",
    "padding_waste",
    "lockstep_waste",
    "bandwidth_utilisation",
    "kv_use_peak",
    "kv_preemptions",
)
_STATISTICS = ("p50", "p99")
_ROW_PX = 46
_NOTE = (
    "The stronger the colour, the more, from the lowest repeat to the highest. A cell is the mean over repeats; bold: the best of its "
    "backend, and what is not shown to differ from it. An overloaded one's latency describes the drain limit, not the server. An empty cell was not in the sweep, is filtered out, or has no such value because it was cut off before."
)
_WITHOUT = "No heatmap of {}: each strategy ran there with one setting, so no knob varies."


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One series with its place in the heatmap: the knobs without max_batch_size, and that."""

    series: Series
    row: str
    size: int


def settings_of(series: Sequence[Series]) -> list[Setting]:
    """Give those that have a max_batch_size, by strategy and the other knobs."""
    found = []
    for one in series:
        size = one.cells[0].trials[0].trial.knobs.get("max_batch_size")
        if isinstance(size, int):
            row = " · ".join(part for part in one.setting.split(" · ") if part != str(size))
            found.append(Setting(series=one, row=row or one.setting, size=size))
    return found


def panel(findings: Findings) -> Panel | Absent:
    """Draw them by scripts/knobs.js: a view for each arrival rate, the highest first, and metric."""
    series = series_of(findings)
    places = _places(settings_of(series), main_place(series))
    groups = [group for group in places if _varies(group)]
    alone = [group[0].series.place for group in places if group not in groups]
    if not groups:
        reason = (
            "No backend of this sweep has a strategy with two values of a knob: there is nothing to compare."
        )
        return Absent(name="knobs", heading=_HEADING, reason=reason)
    shown = [one for group in groups for one in group]
    rates = list(reversed(rates_of([one.series for one in shown])))
    names = _names(findings, [one.series for one in shown])
    headings = [[_heading(_known(groups, rate, name), rate, name) for name in names] for rate in rates]
    charts = tuple(
        Chart(
            figure=go.Figure(layout={"height": _layout(group)["height"]}),
            title=group[0].series.place,
            summary=f"A heatmap over the knobs on {group[0].series.place}.",
        )
        for group in groups
    )
    return Panel(
        name="knobs",
        controls=(
            rate_control(rates),
            Control(name="metric", choices=tuple(_choice(n, name) for n, name in enumerate(names))),
        ),
        views={f"0{SEPARATOR}0": View(heading=headings[0][0], charts=charts)},
        table=_table(shown, names),
        notes=(_NOTE, *([_WITHOUT.format(" and ".join(alone))] if alone else ())),
        live={
            "rates": rates,
            "said": [numbers.rate(rate) for rate in rates],
            "headings": headings,
            "metrics": [_metric(name) for name in names],
            "spans": [[_span(shown, rate, name) for name in names] for rate in rates],
            "ink": theme.INK,
            "scale": [[0, theme.SCALE[0]], [1, theme.SCALE[1]]],
            "groups": [
                _group(group, rates, names) | {"headings": _headings(group, rates, names)} for group in groups
            ],
        },
    )


def lead_at(settings: Sequence[Setting], rate: float, name: str) -> Lead[Setting] | None:
    """Give the best setting at a rate and who is not shown to differ from it."""
    return lead([(one, cell) for one in settings if (cell := one.series.at(rate)) is not None], name)


def _places(settings: Sequence[Setting], main: str) -> list[list[Setting]]:
    """Give the settings of each backend, that of the headings first."""
    places: dict[str, list[Setting]] = {}
    for one in settings:
        places.setdefault(one.series.place, []).append(one)
    return sorted(places.values(), key=lambda group: (group[0].series.place != main, -len(group)))


def _varies(group: Sequence[Setting]) -> bool:
    """Whether one strategy of the backend has two settings."""
    strategies = [one.series.strategy for one in group]
    return len(set(strategies)) < len(strategies)


def _names(findings: Findings, series: Sequence[Series]) -> list[str]:
    """Give the metrics of trials, goodput, and those of requests at two percentiles, of what was measured."""
    of_requests = [m.of(s) for m in glossary.METRICS if m.has_percentiles for s in _STATISTICS]
    goodput = [metric.key for metric in glossary.goodputs(findings.slos)]
    wanted = [_OF_TRIALS[0], *goodput, *of_requests, *_OF_TRIALS[1:]]
    return [
        name for name in wanted if any(cell.mean(name) is not None for one in series for cell in one.cells)
    ]


def _choice(number: int, name: str) -> Choice:
    metric, _ = glossary.metric_of(name)
    unit = f" ({metric.unit})" if metric.unit else ""
    return Choice(value=str(number), label=f"{glossary.label(name)}{unit}", title=metric.said)


def _metric(name: str) -> dict[str, object]:
    metric, _ = glossary.metric_of(name)
    return {"label": headlines.capital(glossary.label(name)), "logarithmic": metric.unit == "s"}


def _group(group: Sequence[Setting], rates: Sequence[float], names: Sequence[str]) -> dict[str, object]:
    """Give the figure of one backend: its settings, each with a value and its text by metric and rate."""
    rows, sizes = _rows(group), _sizes(group)
    leading = [[_leading(group, rate, name) for rate in rates] for name in names]
    return {
        "place": group[0].series.place,
        "rows": [escape(row) for row in rows],
        "sizes": [str(size) for size in sizes],
        "layout": _layout(group),
        "ran": [any(one.series.at(rate) for one in group) for rate in rates],
        "settings": [
            {
                "series": one.series.key,
                "setting": one.series.setting,
                "row": rows.index(one.row),
                "column": sizes.index(one.size),
                "states": [state_of(cell) if cell else "" for cell in cells],
                "values": [[cell.mean(name) if cell else None for cell in cells] for name in names],
                "texts": [[_text(cell, name) for cell in cells] for name in names],
                "leads": [[int(one.series.key in of_rate) for of_rate in of_metric] for of_metric in leading],
            }
            for one in group
            for cells in [[one.series.at(rate) for rate in rates]]
        ],
    }


def _leading(group: Sequence[Setting], rate: float, name: str) -> frozenset[str]:
    """Give the keys of the best and of those not shown to differ from it; nobody's without an interval."""
    found = lead_at(group, rate, name)
    told = () if found is None or found.unsure else (found.best, *found.alike)
    return frozenset(one.series.key for one in told)


def _span(settings: Sequence[Setting], rate: float, name: str) -> list[float] | None:
    """Give the lowest and the highest repeat of the cells that have a mean; None without any."""
    cells = [cell for one in settings if (cell := one.series.at(rate)) is not None]
    values = [v for cell in cells if cell.mean(name) is not None for v in points.values_of(cell, name)]
    return [min(values), max(values)] if values else None


def _rows(group: Sequence[Setting]) -> list[str]:
    return list(dict.fromkeys(one.row for one in group))


def _sizes(group: Sequence[Setting]) -> list[int]:
    return sorted({one.size for one in group})


def _layout(group: Sequence[Setting]) -> dict[str, Any]:
    return theme.layout(
        height_px=118 + _ROW_PX * len(_rows(group)),
        xaxis=theme.axis("max_batch_size (requests)", type="category", showgrid=False),
        yaxis=theme.axis("", type="category", autorange="reversed", showgrid=False),
    )


def _known(groups: Sequence[Sequence[Setting]], rate: float, name: str) -> Sequence[Setting]:
    """Give the first backend of which the metric is known at a rate: of several sweeps not all have it."""
    return next((group for group in groups if _is_known(group, rate, name)), groups[0])


def _headings(group: Sequence[Setting], rates: Sequence[float], names: Sequence[str]) -> list[list[str]]:
    """Give the heading of one backend by rate and metric; "" where it does not have the metric."""
    return [
        [_heading(group, rate, name) if _is_known(group, rate, name) else "" for name in names]
        for rate in rates
    ]


def _is_known(group: Sequence[Setting], rate: float, name: str) -> bool:
    return any((cell := one.series.at(rate)) and cell.mean(name) is not None for one in group)


def _heading(group: Sequence[Setting], rate: float, name: str) -> str:
    where = f"at {numbers.rate(rate)} on {group[0].series.place}"
    found = lead_at(group, rate, name)
    if found is None:
        known = _is_known(group, rate, name)
        why = "every setting is overloaded or cut off" if known else "no setting has it"
        return f"{headlines.capital(glossary.label(name))} {where}: {why}"
    return said(found, name, where, lambda one: one.series.setting)


def _text(cell: CellSummary | None, name: str) -> str:
    value = None if cell is None else cell.mean(name)
    return "" if value is None else glossary.metric_of(name)[0].text(value)


def state_of(cell: CellSummary) -> str:
    """Say what a cell's latency may not be used for; "" without a reservation."""
    if cell.overloaded:
        return "overloaded"
    if cell.censored:
        return "cut off"
    return cell.standing


def _table(settings: Sequence[Setting], names: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            one.series.setting,
            one.series.place,
            amounts.count(one.size),
            amounts.rate(cell.rate),
            state_of(cell),
            *(amounts.metric(name, cell.mean(name)) for name in names),
        )
        for one in settings
        for cell in one.series.cells
    ]
    columns = ("strategy", "backend", "max_batch_size", "rate", "state", *map(glossary.label, names))
    marks = [Mark(series=(one.series.key,), rate=cell.rate) for one in settings for cell in one.series.cells]
    return Table(columns=columns, rows=tuple(rows), marks=tuple(marks))
