"""The paired change against arrival rate: how many times the base each other setting has, with interval.

Each change pairs the repeats by seed and so is far surer than two curves side by side. Shown are changes
of strategy on one backend, and of the backend with one strategy; both at once is what the split is for.
"""

import math
from collections.abc import Sequence
from html import escape
from textwrap import wrap

import plotly.graph_objects as go

from results.findings import Change, Findings
from results.report import amounts, change_headings, decisive, drawn, glossary, headlines, numbers, theme
from results.report.axes import log_axis, rate_axis
from results.report.decisive import Pair, most_throughput, quickest
from results.report.panel import SEPARATOR, Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.points import error_bars, symbol
from results.report.series import Series, main_place, rates_of, series_of, side_name, sides

_READING = (
    "A ratio on a logarithmic axis: half and double are equally far from no change. Grey: not shown to differ, because the "
    "interval contains 1× or there is none. Hollow: one side was overloaded, so its latency describes the "
    "drain limit, not the server; a throughput compared there stands."
)
_STATISTICS = ("p50", "p99")
_DODGE = 1.035  # neighbours at one rate are drawn side by side
_AXIS_LETTERS = 32  # in a line of an axis of 210 px
_MOST_DODGE = 1.1  # of the outermost of many: a point belongs to its rate
_HEADING = "How much one strategy changes over another"


def panel(findings: Findings) -> Panel | Absent:
    """One view for each base that the others are compared with, that of the answer first, and percentile."""
    series = series_of(findings)
    statistics = [s for s in _STATISTICS if any(c.metric.endswith(f"_{s}") for c in findings.changes)] or [
        "p50"
    ]
    by_base = {base.key: (base, _against(base, findings.changes)) for base in _bases(series)}
    said = most_throughput(findings) or quickest(findings, headlines.LATENCY)
    bases = [(base, changes) for base, changes in by_base.values() if changes]
    bases.sort(key=lambda one: said is None or one[0].key != said.base.key)  # as the answer has it
    if not bases:
        reason = "No two strategies have finished the same repeat at the same rate yet."
        return Absent(name="changes", heading=_HEADING, reason=reason)
    views = {
        f"{number}{SEPARATOR}{statistic}": View(
            heading=_heading(base, changes, _metrics(findings.changes, statistic), series, said),
            charts=tuple(
                _chart(base, changes, metric, series) for metric in _metrics(findings.changes, statistic)
            ),
            note=_note(changes),
        )
        for number, (base, changes) in enumerate(bases)
        for statistic in statistics
    }
    choices = tuple(
        Choice(value=str(number), label=base.name, mark=Mark(series=(base.key,)))
        for number, (base, _) in enumerate(bases)
    )
    return Panel(
        name="changes",
        controls=(
            Control(name="compared with", choices=choices),
            Control(name="percentile", choices=tuple(Choice(value=s, label=s) for s in statistics)),
        ),
        views=views,
        table=_table(findings.changes),
        notes=(_READING,),
    )


def _bases(series: Sequence[Series]) -> list[Series]:
    """Order the bases: naive where most strategies ran comes first."""
    main = main_place(series)
    return sorted(series, key=lambda one: (one.strategy != "naive", one.place != main))


def _metrics(changes: Sequence[Change], statistic: str) -> list[str]:
    """Give the metrics to draw: all that have no percentile, and the others at this one."""
    present = list(dict.fromkeys(change.metric for change in changes))
    return [name for name in present if glossary.metric_of(name)[1] in ("", statistic)]


def _against(base: Series, changes: Sequence[Change]) -> list[Change]:
    """Give the changes that involve the base, all seen from it."""
    seen = [
        change if change.base == base.key else decisive.flipped(change)
        for change in changes
        if base.key in (change.base, change.other)
    ]
    return [change for change in seen if _is_pure(change)]


def _is_pure(change: Change) -> bool:
    base, other = sides(change.base), sides(change.other)
    return base[0] == other[0] or base[1] == other[1]


def _chart(base: Series, changes: Sequence[Change], metric: str, series: Sequence[Series]) -> Chart:
    traces = []
    found = {one.key: one for one in series}
    of_metric = [change for change in changes if change.metric == metric and change.other in found]
    others = list(dict.fromkeys(change.other for change in of_metric))
    for position, other in enumerate(others):
        points = sorted((c for c in of_metric if c.other == other), key=lambda change: change.rate)
        shift = min(_DODGE, _MOST_DODGE ** (2 / len(others))) ** (position - (len(others) - 1) / 2)
        traces.append(_line(found[other], base, points, shift))
    rates = rates_of([one for one in series if one.sweep == base.sweep])  # those of another were not run here
    values = [v for c in of_metric for v in (c.ratio, c.low, c.high) if v is not None and v > 0] or [1.0]
    low, high = min(*values, 1 / 1.3), max(*values, 1.3)
    compared = {change.rate for change in of_metric}
    layout = theme.layout(
        height_px=300,
        xaxis=rate_axis(rates),
        yaxis=log_axis(_times(base), [low, high], numbers.ratio),
        shapes=[theme.no_change("y", 1)],
    )
    layout["annotations"] = [
        _blank(rate, metric, [base, *(found[other] for other in others)], layout["xaxis"]["type"])
        for rate in rates
        if others and rate not in compared
    ]
    figure = drawn.figure(traces, layout)
    explained = glossary.metric_of(metric)[0]
    title = f"{headlines.capital(glossary.label(metric))} ({explained.better} is better)"
    return Chart(
        figure=figure,
        title=title,
        meaning=explained.said,
        heading=change_headings.of_metric(base, changes, metric, found),
        summary=_summary(base, of_metric, title),
    )


def _times(base: Series) -> str:
    """Name the base on the axis, in lines that are no longer than it."""
    return "<br>".join(map(escape, wrap(f"times {base.setting} on\u00a0{base.place}", _AXIS_LETTERS)))


def _blank(rate: float, metric: str, sides: Sequence[Series], axis_type: str) -> dict[str, object]:
    """Say upright, where a rate has no change of a metric, why: no pair of repeats has it on both sides."""
    without = [cell for one in sides if (cell := one.at(rate)) is not None and cell.mean(metric) is None]
    why = "overloaded" if any(cell.overloaded for cell in without) else "cut off" if without else "not run"
    return {
        "text": f"{why}: none to compare",
        "x": math.log10(rate) if axis_type == "log" else rate,
        "y": 0.5,
        "yref": "paper",
        "textangle": -90,
        "showarrow": False,
        "font": {"size": 12, "color": theme.MUTED},
        "bgcolor": theme.PAPER,
    }


def _line(one: Series, base: Series, points: Sequence[Change], shift: float) -> go.Scatter:
    colour = one.style.colour
    marked = [colour if change.shown else theme.MUTED for change in points]
    return go.Scatter(
        x=[change.rate * shift for change in points],
        y=[change.ratio for change in points],
        mode="lines+markers",
        name=escape(one.name),
        meta={"series": one.key, "rates": [change.rate for change in points]},
        line={"color": colour, "dash": one.style.dash, "width": 1.5},
        marker={
            "color": marked,
            "size": 9,
            "symbol": [symbol(one, overloaded=_is_overloaded(change, one, base)) for change in points],
            "line": {"width": 2, "color": marked},
        },
        error_y=error_bars(
            [None if c.high is None else c.high - c.ratio for c in points],
            [None if c.low is None else c.ratio - c.low for c in points],
            color=colour,
            thickness=1.5,
            width=4,
        ),
        text=[_hover(change) for change in points],
        hovertemplate="%{text}<extra></extra>",
    )


def _is_overloaded(change: Change, *both: Series) -> bool:
    """Whether a side was, which is what hollow says in every figure: one that was only cut off says so on hover."""
    return any(cell.overloaded for one in both if (cell := one.at(change.rate)) is not None)


def _hover(change: Change) -> str:
    lines = [
        f"<b>{escape(side_name(change.other))}</b>",
        f"compared with {escape(side_name(change.base))}",
        f"{glossary.label(change.metric)} at {numbers.rate(change.rate)}: <b>{in_words(change)}</b>",
    ]
    if change.censored and glossary.metric_of(change.metric)[0].unit == "s":
        lines.append("a side was overloaded or cut off: its latency describes the drain limit")
    return "<br>".join(lines)


def in_words(change: Change) -> str:
    """Give ratio, interval and, where the interval contains 1, that no difference is shown."""
    text = headlines.times(change)
    return f"{text}: no difference shown" if change.low is not None and not change.shown else text


def _heading(
    base: Series,
    changes: Sequence[Change],
    metrics: Sequence[str],
    series: Sequence[Series],
    said: Pair | None,
) -> str:
    """State what the changes against a base show; those of the answer's own base as the answer states it, where it is drawn."""
    if said is not None and said.base.key == base.key and said.change.metric in metrics:
        return headlines.of_pair(said)
    return change_headings.of_all(base, changes, metrics, {one.key: one for one in series})


def _note(changes: Sequence[Change]) -> str:
    if all(change.low is None for change in changes):
        return "Fewer than three repeats so far: no intervals, so nothing here is shown to differ yet."
    bare = any(change.low is None for change in changes)
    return (
        f"Bars: 95 % intervals of the paired change{'; none below three pairs of repeats' if bare else ''}."
    )


def _summary(base: Series, changes: Sequence[Change], title: str) -> str:
    points = "; ".join(f"{side_name(c.other)} at {numbers.rate(c.rate)} {in_words(c)}" for c in changes)
    return f"{title}, times that of {base.name}. {points or 'Nothing to compare.'}"


def _table(changes: Sequence[Change]) -> Table:
    rows = [
        (
            glossary.label(change.metric),
            amounts.rate(change.rate),
            side_name(change.base),
            side_name(change.other),
            *map(amounts.ratio, (change.ratio, change.low, change.high)),
            amounts.count(change.pairs),
            "yes" if change.censored else "",
        )
        for change in changes
    ]
    columns = ("metric", "rate", "base", "other", "ratio", "low", "high", "pairs", "a side censored")
    marks = tuple(Mark(series=(change.base, change.other), rate=change.rate) for change in changes)
    return Table(columns=columns, rows=tuple(rows), marks=marks)
