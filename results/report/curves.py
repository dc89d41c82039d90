"""Throughput and latency against arrival rate, a line for each series (results/report/points.py draws it)."""

from collections.abc import Sequence

import plotly.graph_objects as go

from results.comparisons import THROUGHPUT
from results.findings import Findings, Guide
from results.report import drawn, glossary, headlines, numbers, theme, theory
from results.report.axes import log_axis, rate_axis
from results.report.curve_parts import (
    latencies,
    measured,
    metric_control,
    percentile_control,
    summary,
    table,
)
from results.report.glossary import Metric
from results.report.panel import SEPARATOR, Absent, Chart, Panel, View
from results.report.points import crosses, drawn_values, line
from results.report.series import Series, drawn_rates, rates_of, series_of


def throughput(findings: Findings) -> Panel | Absent:
    """Throughput against arrival rate."""
    series = series_of(findings)
    of_trials = [metric for metric in glossary.METRICS if not metric.has_percentiles]
    wanted = (*of_trials, *glossary.goodputs(findings.slos))
    metrics = [metric for metric in wanted if measured(series, metric, "")]
    if not metrics:
        return Absent(
            name="throughput",
            heading="Throughput against arrival rate",
            reason="No trial has finished yet.",
        )

    def heading(metric: Metric) -> str:
        found = None
        if metric.key == THROUGHPUT:  # alone is compared: of the others nothing is found
            found = headlines.throughput(findings) or headlines.no_throughput(findings)
        return found or _plain(metric.key)

    return Panel(
        name="throughput",
        controls=(metric_control(metrics),),
        views={
            metric.key: View(
                heading=heading(metric), charts=(_against_rate(series, metric, "", findings.guides),)
            )
            for metric in metrics
        },
        table=table(series, [metric.key for metric in metrics]),
    )


def latency(findings: Findings) -> Panel | Absent:
    """Latency against arrival rate, by metric and percentile."""
    series = series_of(findings)
    choices = latencies(series)
    if not choices:
        return Absent(
            name="latency", heading="Latency against arrival rate", reason="No request has finished yet."
        )

    def heading(metric: Metric, statistic: str) -> str:
        found = headlines.latency(findings, metric.of(statistic)) or _first_spread(series, metric, statistic)
        return found or _plain(metric.of(statistic))

    views = {
        f"{metric.key}{SEPARATOR}{statistic}": View(
            heading=heading(metric, statistic),
            charts=(_against_rate(series, metric, statistic, findings.guides),),
        )
        for metric in choices
        for statistic in glossary.PERCENTILES
    }
    names = [metric.of(statistic) for metric in choices for statistic in glossary.PERCENTILES]
    return Panel(
        name="latency",
        controls=(metric_control(choices), percentile_control()),
        views=views,
        table=table(series, names),
    )


def _plain(name: str) -> str:
    """Name what is drawn where nothing is found of it."""
    return f"{headlines.capital(glossary.label(name))} against arrival rate"


def _against_rate(series: Sequence[Series], metric: Metric, statistic: str, guides: Sequence[Guide]) -> Chart:
    name = metric.of(statistic) if statistic else metric.key
    rates = drawn_rates(series)
    traces = theory.lines(series, guides, metric, name)
    if metric.unit == "req/s":
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
        traces.append(line(one, [cell.rate for cell in one.cells], name))
    traces += crosses(series, name)
    values = drawn_values(series, name)
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
    layout = theme.layout(height_px=430, xaxis=rate_axis(rates), yaxis=y)
    figure = drawn.figure(traces, layout)
    return Chart(figure=figure, summary=summary(series, name))


def _first_spread(series: Sequence[Series], metric: Metric, statistic: str) -> str | None:
    found = (headlines.spread(series, metric, statistic, rate) for rate in rates_of(series))
    return next((text for text in found if text), None)
