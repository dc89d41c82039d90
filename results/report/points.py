"""How one series is drawn: its line, its markers with what may be said of each, and what the pointer shows.

A point is the mean over repeats (for a percentile: of each repeat's percentile). From three repeats on a
bar spans the lowest to the highest repeat; how sure a *difference* is, is in the paired changes, because
repeats share their arrivals and so vary together. Hollow = overloaded; hollow with a dot = too short to
judge; crossed = a trial that does not count; faint = a percentile with fewer than ten requests beyond it.
"""

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from results.findings import CellSummary, TrialSummary
from results.report import glossary, numbers
from results.report.series import Series

MARKS = (
    "Hollow: most repeats overloaded, throughput stands but latency describes the drain limit. Hollow with a dot: too "
    "short to judge, or fewer repeats overloaded. Crossed: a trial that does not count, because its replica or "
    "engine changed; no mean has it. Faint: fewer than ten requests beyond the percentile. Bars: lowest to highest repeat, from three "
    "repeats on."
)
CROSS = "x-thin-open"  # the marker of a trial that does not count
_THIN = 10  # requests beyond a percentile
_FAINT = 0.45


def line(one: Series, x: Sequence[float | None], name: str, *, bars: bool = True) -> go.Scatter:
    """Give the line of one series, with a marker for each cell; `x` has a value for each of its cells."""
    y = [cell.mean(name) for cell in one.cells]
    spans = [values_of(cell, name) for cell in one.cells]
    has = [bars and m is not None and len(s) >= 3 for s, m in zip(spans, y, strict=True)]
    up = [max(s) - m if h and m is not None else None for h, s, m in zip(has, spans, y, strict=True)]
    down = [m - min(s) if h and m is not None else None for h, s, m in zip(has, spans, y, strict=True)]
    colour = one.style.colour
    return go.Scatter(
        x=list(x),
        y=y,
        mode="lines+markers",
        name=escape(one.name),
        meta={"series": one.key, "rates": [cell.rate for cell in one.cells]},
        line={"color": colour, "dash": one.style.dash, "width": 2},
        marker={
            "color": colour,
            "size": 9,
            "symbol": [
                symbol(one, overloaded=cell.overloaded, undecided=cell.undecided) for cell in one.cells
            ],
            "opacity": [_FAINT if is_thin(cell, name) else 1.0 for cell in one.cells],
            "line": {"width": 2, "color": colour},
        },
        error_y=error_bars(up, down, color=colour, thickness=1.2, width=3),
        text=[hover(cell, one, name) for cell in one.cells],
        hovertemplate="%{text}<extra></extra>",
    )


def crosses(series: Sequence[Series], name: str, x_name: str = "") -> list[go.Scatter]:
    """Give the trials of each series that do not count, a cross each, against rate or against the metric `x_name`."""
    return [one for one in (_crosses(each, name, x_name) for each in series) if one is not None]


def _crosses(one: Series, name: str, x_name: str) -> go.Scatter | None:
    found = [
        (trial.metrics.get(x_name) if x_name else trial.trial.rate, trial.metrics.get(name), trial)
        for cell in one.invalid
        for trial in cell.trials
    ]
    known = [(x, y, trial) for x, y, trial in found if x is not None and y is not None]
    if not known:
        return None
    return go.Scatter(
        x=[x for x, *_ in known],
        y=[y for _, y, _ in known],
        mode="markers",
        name=f"does not count: {escape(one.name)}",
        showlegend=False,
        meta={"series": one.key, "rates": [trial.trial.rate for *_, trial in known]},
        marker={
            "symbol": CROSS,
            "size": 11,
            "color": one.style.colour,
            "line": {"width": 2, "color": one.style.colour},
        },
        text=[invalid_hover(trial, one, name) for *_, trial in known],
        hovertemplate="%{text}<extra></extra>",
    )


def invalid_hover(trial: TrialSummary, series: Series, name: str = "") -> str:
    """Say why a trial does not count, and its value of the metric `name`, escaped."""
    lines = [
        f"<b>{escape(series.setting)}</b> on {escape(series.place)}",
        f"{numbers.rate(trial.trial.rate)}, repeat {trial.trial.repeat + 1}: <b>does not count</b>",
        *(f"{one.name}: {escape(one.detail)}" for one in trial.verdicts if one.name == "replica-changed"),
    ]
    if name:
        metric, _ = glossary.metric_of(name)
        lines.append(f"{glossary.label(name)}: {metric.text(trial.metrics.get(name))}")
    return "<br>".join(lines)


def hover(cell: CellSummary, series: Series, name: str) -> str:
    """Say everything about one point, escaped: Plotly reads hover text as HTML."""
    metric, statistic = glossary.metric_of(name)
    repeats = ", ".join(metric.text(value) for value in values_of(cell, name))
    lines = [
        f"<b>{escape(series.setting)}</b> on {escape(series.place)}",
        f"{numbers.rate(cell.rate)}, {numbers.count(len(cell.trials), 'repeat')}",
        f"{glossary.label(name)}: <b>{metric.text(cell.mean(name))}</b>",
    ]
    if len(cell.trials) > 1:
        lines.append(f"repeats: {repeats}")
    if metric.formula:
        lines.append(f"= {escape(metric.formula)}")
    for verdict in ("overloaded", "too-short"):
        details = [v.detail for trial in cell.trials for v in trial.verdicts if v.name == verdict]
        if details:
            lines.append(f"{verdict} ({len(details)} of {len(cell.trials)}): {escape(details[0])}")
    if cell.overloaded and metric.has_percentiles:
        limit = max(trial.trial.drain_limit_s for trial in cell.trials)
        lines.append(
            f"latency reaches as far as the drain limit ({numbers.duration(limit)}), not the server's own"
        )
    if is_thin(cell, name):
        lines.append(f"thin: fewer than {_THIN} requests beyond {statistic}")
    return "<br>".join(lines)


def symbol(series: Series, *, overloaded: bool, undecided: bool = False) -> str:
    """Give the marker: hollow where overloaded, with a dot where it cannot be told."""
    if overloaded:
        return f"{series.style.symbol}-open"
    return f"{series.style.symbol}-open-dot" if undecided else series.style.symbol


def error_bars(up: Sequence[float | None], down: Sequence[float | None], **look: object) -> dict[str, object]:
    """Give the error bars of a line; None draws none (figures.js), where 0 would draw a dash through the marker."""
    return {
        "array": list(up),
        "arrayminus": list(down),
        "visible": any(one is not None for one in up),
        **look,
    }


def is_thin(cell: CellSummary, name: str) -> bool:
    """Whether a percentile rests on fewer than ten requests beyond it."""
    metric, statistic = glossary.metric_of(name)
    count = cell.mean(metric.of("count")) if statistic.startswith("p") else None
    return count is not None and count * (1 - int(statistic[1:]) / 100) < _THIN


def values_of(cell: CellSummary, name: str) -> list[float]:
    """Give the value of each repeat that has one."""
    return [value for trial in cell.trials if (value := trial.metrics.get(name)) is not None]


def all_values(series: Sequence[Series], name: str) -> list[float]:
    """Give the values of all repeats of all series."""
    return [value for one in series for cell in one.cells for value in values_of(cell, name)]


def drawn_values(series: Sequence[Series], name: str) -> list[float]:
    """Give those, and the values of the trials that do not count: what an axis has to reach."""
    crossed = [value for one in series for cell in one.invalid for value in values_of(cell, name)]
    return [*all_values(series, name), *crossed]
