"""Throughput and latency against arrival rate, and against each other, a line for each series.

A point is the mean over repeats (for a percentile: of each repeat's percentile). From three repeats on a
bar spans the lowest to the highest repeat; how sure a *difference* is, is in the paired changes, because
repeats share their arrivals and so vary together. Hollow = overloaded; hollow with a dot = too short to
judge; faint = a percentile with fewer than ten requests beyond it.
"""

import math
from collections.abc import Callable, Sequence
from html import escape

import plotly.graph_objects as go

from results.comparisons import THROUGHPUT
from results.findings import CellSummary, Findings, Guide
from results.report import glossary, headlines, numbers, theme, theory
from results.report.glossary import Metric
from results.report.panel import SEPARATOR, Absent, Chart, Choice, Control, Panel, Table, View
from results.report.series import Series, rates_of, series_of

MARKS = (
    "Hollow: overloaded, throughput stands but latency describes the drain limit. Hollow with a dot: too short "
    "to judge. Faint: fewer than ten requests beyond the percentile. Bars: lowest to highest repeat, from three "
    "repeats on."
)
_THIN = 10  # requests beyond a percentile
_FAINT = 0.45


def throughput(findings: Findings) -> Panel | Absent:
    """Throughput against arrival rate."""
    series = series_of(findings)
    of_trials = [metric for metric in glossary.METRICS if not metric.has_percentiles]
    wanted = (*of_trials, *glossary.goodputs(findings.slos))
    metrics = [metric for metric in wanted if _measured(series, metric, "")]
    found = headlines.throughput(findings) or headlines.no_throughput(findings)
    heading = found or "Throughput against arrival rate"
    if not metrics:
        return Absent(name="throughput", heading=heading, reason="No trial has finished yet.")
    return Panel(
        name="throughput",
        controls=(metric_control(metrics),),
        views={
            metric.key: View(heading=heading, charts=(_against_rate(series, metric, "", findings.guides),))
            for metric in metrics
        },
        table=_table(series, [metric.key for metric in metrics]),
    )


def latency(findings: Findings) -> Panel | Absent:
    """Latency against arrival rate, by metric and percentile."""
    series = series_of(findings)
    choices = _latencies(series)
    if not choices:
        return Absent(
            name="latency", heading="Latency against arrival rate", reason="No request has finished yet."
        )

    def heading(metric: Metric, statistic: str) -> str:
        found = headlines.latency(findings, metric.of(statistic)) or _first_spread(series, metric, statistic)
        return found or f"{headlines.capital(glossary.label(metric.of(statistic)))} against arrival rate"

    views = {
        f"{metric.key}{SEPARATOR}{statistic}": View(
            heading=heading(metric, statistic),
            charts=(_against_rate(series, metric, statistic, findings.guides),),
        )
        for metric in choices
        for statistic in glossary.PERCENTILES
    }
    names = [metric.of(statistic) for metric in choices for statistic in ("p50", "p99")]
    return Panel(
        name="latency",
        controls=(metric_control(choices), _percentile_control()),
        views=views,
        table=_table(series, names),
    )


def tradeoff(findings: Findings) -> Panel | Absent:
    """Latency against throughput: each line begins at the lowest arrival rate."""
    series = series_of(findings)
    choices = _latencies(series)
    plain = "What latency each strategy pays for its throughput"
    if not choices:
        return Absent(name="tradeoff", heading=plain, reason="No request has finished yet.")
    heading = _highest_throughputs(series) or plain
    views = {
        f"{metric.key}{SEPARATOR}{statistic}": View(
            heading=heading, charts=(_against_throughput(series, metric, statistic),)
        )
        for metric in choices
        for statistic in glossary.PERCENTILES
    }
    names = [THROUGHPUT, *(m.of(s) for m in choices for s in ("p50", "p99"))]
    return Panel(
        name="tradeoff",
        controls=(metric_control(choices), _percentile_control()),
        views=views,
        table=_table(series, names),
        notes=(
            "Each line runs from the lowest arrival rate to the highest; lower and further right is better.",
        ),
    )


def hover(cell: CellSummary, series: Series, name: str) -> str:
    """Say everything about one point, escaped: Plotly reads hover text as HTML."""
    metric, statistic = glossary.metric_of(name)
    repeats = ", ".join(metric.text(value) for value in _values(cell, name))
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
    if _is_thin(cell, name):
        lines.append(f"thin: fewer than {_THIN} requests beyond {statistic}")
    return "<br>".join(lines)


def symbol(series: Series, *, overloaded: bool, undecided: bool = False) -> str:
    """Give the marker: hollow where overloaded, with a dot where it cannot be told."""
    if overloaded:
        return f"{series.style.symbol}-open"
    return f"{series.style.symbol}-open-dot" if undecided else series.style.symbol


def rate_axis(rates: Sequence[float]) -> dict[str, object]:
    """Give the axis of arrival rates: their own values as ticks, logarithmic where they span much."""
    low, high = min(rates), max(rates)
    wide = low > 0 and high / low > 6
    # or what is drawn beside a lone rate, to tell neighbours apart, would fill the axis
    room = max(0.08 * (high - low), 0.12 * high)
    settings: dict[str, object] = {
        "tickvals": list(rates),
        "ticktext": [numbers.number(r) for r in rates],
        "type": "log" if wide else "linear",
        "autorange": False,
        "range": _log_range(rates, 1.25) if wide else [low - room, high + room],
    }
    return theme.axis("arrival rate (req/s)", **settings)


def error_bars(up: Sequence[float | None], down: Sequence[float | None], **look: object) -> dict[str, object]:
    """Give the error bars of a line; None draws none (page.js), where 0 would draw a dash through the marker."""
    return {
        "array": list(up),
        "arrayminus": list(down),
        "visible": any(one is not None for one in up),
        **look,
    }


def log_axis(title: str, values: Sequence[float], text: Callable[[float], str]) -> dict[str, object]:
    """Give a logarithmic axis with ticks as `text` says."""
    ticks = theme.log_ticks(values)
    return theme.axis(
        title,
        type="log",
        range=_log_range(values, 1.3),
        tickvals=ticks,
        ticktext=[text(tick) for tick in ticks],
    )


def _against_rate(series: Sequence[Series], metric: Metric, statistic: str, guides: Sequence[Guide]) -> Chart:
    name = metric.of(statistic) if statistic else metric.key
    traces = theory.lines(series, guides, metric, name)
    if metric.unit == "req/s":
        rates = rates_of(series)
        traces.append(
            go.Scatter(
                x=rates,
                y=rates,
                mode="lines",
                name="offered",
                hoverinfo="skip",
                line={"color": theme.MUTED, "dash": "dot", "width": 1},
            )
        )
    for one in series:
        traces.append(_line(one, [cell.rate for cell in one.cells], name))
    values = _all_values(series, name)
    title = f"{glossary.label(name)} ({metric.unit})"
    if metric.unit == "ratio":
        title = glossary.label(name)
    y = (
        log_axis(title, values, numbers.duration)
        if metric.unit == "s" and values and min(values) > 0
        else theme.axis(
            title, rangemode="tozero", **({"tickformat": ".0%"} if metric.unit == "ratio" else {})
        )
    )
    layout = theme.layout(height_px=430, xaxis=rate_axis(rates_of(series)), yaxis=y)
    figure = go.Figure(data=traces, layout=layout)
    return Chart(figure=figure, summary=_summary(series, name))


def _against_throughput(series: Sequence[Series], metric: Metric, statistic: str) -> Chart:
    name = metric.of(statistic)
    traces = []
    for one in series:
        traces.append(_line(one, [cell.mean(THROUGHPUT) for cell in one.cells], name, bars=False))
    values = _all_values(series, name)
    title = f"{glossary.label(name)} (s)"
    y = log_axis(title, values, numbers.duration) if values and min(values) > 0 else theme.axis(title)
    layout = theme.layout(
        height_px=460, xaxis=theme.axis("throughput (tokens/s)", rangemode="tozero"), yaxis=y
    )
    figure = go.Figure(data=traces, layout=layout)
    return Chart(figure=figure, summary=f"Against throughput. {_summary(series, name)}")


def _line(one: Series, x: Sequence[float | None], name: str, *, bars: bool = True) -> go.Scatter:
    y = [cell.mean(name) for cell in one.cells]
    spans = [_values(cell, name) for cell in one.cells]
    has = [bars and m is not None and len(s) >= 3 for s, m in zip(spans, y, strict=True)]
    up = [max(s) - m if h and m is not None else None for h, s, m in zip(has, spans, y, strict=True)]
    down = [m - min(s) if h and m is not None else None for h, s, m in zip(has, spans, y, strict=True)]
    colour = one.style.colour
    return go.Scatter(
        x=list(x),
        y=y,
        mode="lines+markers",
        name=escape(one.name),
        meta={"series": one.key},
        line={"color": colour, "dash": one.style.dash, "width": 2},
        marker={
            "color": colour,
            "size": 9,
            "symbol": [
                symbol(one, overloaded=cell.overloaded, undecided=cell.undecided) for cell in one.cells
            ],
            "opacity": [_FAINT if _is_thin(cell, name) else 1.0 for cell in one.cells],
            "line": {"width": 2, "color": colour},
        },
        error_y=error_bars(up, down, color=colour, thickness=1.2, width=3),
        text=[hover(cell, one, name) for cell in one.cells],
        hovertemplate="%{text}<extra></extra>",
    )


def _is_thin(cell: CellSummary, name: str) -> bool:
    metric, statistic = glossary.metric_of(name)
    count = cell.mean(metric.of("count")) if statistic.startswith("p") else None
    return count is not None and count * (1 - int(statistic[1:]) / 100) < _THIN


def _values(cell: CellSummary, name: str) -> list[float]:
    return [value for trial in cell.trials if (value := trial.metrics.get(name)) is not None]


def _all_values(series: Sequence[Series], name: str) -> list[float]:
    return [value for one in series for cell in one.cells for value in _values(cell, name)]


def _measured(series: Sequence[Series], metric: Metric, statistic: str) -> bool:
    return bool(_all_values(series, metric.of(statistic)))


def _latencies(series: Sequence[Series]) -> list[Metric]:
    return [m for m in glossary.METRICS if m.has_percentiles and _measured(series, m, "p50")]


def metric_control(metrics: Sequence[Metric]) -> Control:
    """Give the list of metrics to choose from, each with its formula."""
    return Control(
        name="metric",
        choices=tuple(Choice(value=m.key, label=f"{m.name} ({m.unit})", title=m.said) for m in metrics),
    )


def _percentile_control() -> Control:
    return Control(name="percentile", choices=tuple(Choice(value=p, label=p) for p in glossary.PERCENTILES))


def _first_spread(series: Sequence[Series], metric: Metric, statistic: str) -> str | None:
    found = (headlines.spread(series, metric, statistic, rate) for rate in rates_of(series))
    return next((text for text in found if text), None)


def _highest_throughputs(series: Sequence[Series]) -> str | None:
    """Describe the highest tokens/s of each series on the backend with most of them."""
    places: dict[str, list[tuple[float, str]]] = {}
    for one in series:
        values = [v for cell in one.cells if (v := cell.mean(THROUGHPUT)) is not None]
        if values:
            places.setdefault(one.place, []).append((max(values), one.setting))
    if not places:
        return None
    place, highest = max(places.items(), key=lambda item: len(item[1]))
    listed = ", ".join(
        f"{numbers.number(value)} with {setting}" for value, setting in sorted(highest, reverse=True)[:4]
    )
    return f"The most tokens/s on {place}: {listed}"


def _summary(series: Sequence[Series], name: str) -> str:
    metric, _ = glossary.metric_of(name)
    lines = []
    for one in series:
        points = "; ".join(
            f"{metric.text(cell.mean(name))} at {numbers.rate(cell.rate)}"
            + (" (overloaded)" if cell.overloaded else "")
            for cell in one.cells
        )
        lines.append(f"{one.name}: {points}.")
    return f"{headlines.capital(glossary.label(name))} by arrival rate. {' '.join(lines)}"


def _table(series: Sequence[Series], names: Sequence[str]) -> Table:
    columns = ("strategy", "backend", "rate", "repeats", "state", *(glossary.label(name) for name in names))
    rows = [
        (
            one.setting,
            one.place,
            numbers.rate(cell.rate),
            str(len(cell.trials)),
            "overloaded" if cell.overloaded else "not judged, too short" if cell.undecided else "",
            *(glossary.metric_of(name)[0].text(cell.mean(name)) for name in names),
        )
        for one in series
        for cell in one.cells
    ]
    return Table(columns=columns, rows=tuple(rows))


def _log_range(values: Sequence[float], pad: float) -> list[float]:
    return [math.log10(min(values) / pad), math.log10(max(values) * pad)]
