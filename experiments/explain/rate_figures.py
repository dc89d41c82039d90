"""Figures against arrival rate: what is delivered, what a request waits, and how many run together."""

from collections.abc import Callable, Sequence
from html import escape

import plotly.graph_objects as go

from experiments.explain.explanation import Explanation
from experiments.explain.guide_lines import PERCENTILES, grid
from experiments.explain.setting_theory import Point, Theory
from experiments.theory import fill_wait_s, idle_batch
from results.findings import Guide
from results.report import amounts, axes, curve_parts, glossary, headlines, numbers, theme, theory
from results.report.glossary import Metric
from results.report.panel import SEPARATOR, Chart, Choice, Control, Panel, Table, View
from results.report.series import Series, backend_name

HEIGHT_PX = 430
WIDTH = 2.0  # of a line: here theory is all there is
LATENCIES = ("ttft_s", "e2e_s", "queue_wait_s")
THROUGHPUTS = ("throughput_tokens_per_s", "throughput_requests_per_s")
DELIVERED = "min(λ, μ)·E[o]: what is offered, until the capacity μ, where each line drops to the axis."
WAITED = (
    "Wait in queue of M/M/1, with the gathering of a batch (naive (N − 1) ÷ 2λ; dynamic up to its wait) and, for TTFT "
    "and E2E, its service."
)
TOGETHER = (
    "Naive takes its N. Dynamic takes what arrives while a batch is served (line), or in its wait while the engine is "
    "free (thin, dotted): about the larger of the two. Continuous: requests in flight by Little's law, up to its "
    "slots or what the KV cache holds."
)


def throughput(explanation: Explanation, series: Sequence[Series], lines: Sequence[Guide]) -> Panel:
    """What is delivered, and where each setting stops keeping up."""
    best = max(explanation.theories, key=lambda one: one.capacity)
    heading = headlines.capital(
        f"{best.setting.label} on {backend_name(best.setting.backend)} keeps up longest, until "
        f"{numbers.rate(best.capacity)}"
    )
    metrics = [metric for metric in glossary.METRICS if metric.key in THROUGHPUTS]
    rows: tuple[tuple[amounts.Cell, ...], ...] = tuple(
        (
            *_names(one),
            amounts.rate(one.capacity),
            amounts.number(one.tokens_per_s, "tokens/s"),
            *(amounts.number(one.at(rate).utilisation) for rate in explanation.rates),
        )
        for one in explanation.theories
    )
    at = (f"ρ at {numbers.rate(rate)}" for rate in explanation.rates)
    return Panel(
        name="throughput",
        controls=(curve_parts.metric_control(metrics),),
        views={
            metric.key: View(
                heading=heading, charts=(_guided(explanation, series, lines, metric, metric.key),)
            )
            for metric in metrics
        },
        table=Table(columns=("strategy", "backend", "capacity μ", "tokens/s", *at), rows=rows),
        notes=(DELIVERED,),
    )


def latency(explanation: Explanation, series: Sequence[Series], lines: Sequence[Guide]) -> Panel:
    """What a request waits, as M/M/1 would have it."""
    by_key = {metric.key: metric for metric in glossary.METRICS}
    metrics = [by_key[key] for key in LATENCIES]
    views = {
        f"{metric.key}{SEPARATOR}{statistic}": View(
            heading=headlines.capital(
                f"{glossary.label(metric.of(statistic))} as M/M/1 would have it: a rough guide"
            ),
            charts=(_guided(explanation, series, lines, metric, metric.of(statistic)),),
        )
        for metric in metrics
        for statistic in PERCENTILES
    }
    rows: tuple[tuple[amounts.Cell, ...], ...] = tuple(
        (*_names(one), *(amounts.duration(one.at(rate).wait_s) for rate in explanation.rates))
        for one in explanation.theories
    )
    at = (f"mean M/M/1 wait at {numbers.rate(rate)}" for rate in explanation.rates)
    percentiles = tuple(Choice(value=name, label=name) for name in PERCENTILES)
    return Panel(
        name="latency",
        controls=(curve_parts.metric_control(metrics), Control(name="percentile", choices=percentiles)),
        views=views,
        table=Table(columns=("strategy", "backend", *at), rows=rows),
        notes=(WAITED,),
    )


def together(explanation: Explanation, series: Sequence[Series]) -> Panel:
    """What runs together, and how long naive waits for it."""
    charts = [_sizes(explanation, series)]
    if fills := _fills(explanation, series):
        charts.append(fills)
    rows: tuple[tuple[amounts.Cell, ...], ...] = tuple(
        (*_names(one), *_together(one.at(rate))) for one in explanation.theories for rate in explanation.rates
    )
    columns = ("strategy", "backend", "rate", "together when busy", "together when free", "wait to fill")
    return Panel(
        name="batches",
        controls=(Control(name="show", choices=(Choice(value="all", label="by arrival rate"),)),),
        views={"all": View(heading=_heading(explanation), charts=tuple(charts))},
        table=Table(columns=columns, rows=rows),
        notes=(TOGETHER,),
    )


def _heading(explanation: Explanation) -> str:
    top = explanation.rates[-1]
    slots = [one for one in explanation.theories if not one.setting.lockstep_bound]
    if not slots:
        return f"What runs together, up to {numbers.rate(top)}"
    widest = max(slots, key=lambda one: one.cap)
    of = f"{widest.setting.max_batch_size} slots of {widest.setting.label}"
    said = f"{widest.batch_at(top)} of the {of} are taken"
    if widest.room < widest.setting.max_batch_size:
        said += f", and the KV cache has room for {widest.room}"
    return f"At {numbers.rate(top)} {said}"


def _sizes(explanation: Explanation, series: Sequence[Series]) -> Chart:
    rates = grid(explanation.rates)
    traces = []
    for one, drawn in zip(explanation.theories, series, strict=True):
        busy = [one.batch_at(rate) for rate in rates]
        traces.append(_line(drawn, rates, busy, lambda size: f"{size:.0f} at once"))
        wait_ms = one.setting.knobs.get("max_wait_ms")
        if wait_ms is not None:
            free = [idle_batch(rate, wait_ms / 1e3, one.cap) for rate in rates]
            line = _line(drawn, rates, free, lambda size: f"{size:.2g} while the engine is free")
            traces.append(line.update(line={"dash": "dot", "width": 1}))
    return _chart(explanation, traces, theme.axis("requests together", rangemode="tozero"), "Together")


def _fills(explanation: Explanation, series: Sequence[Series]) -> Chart | None:
    rates = grid(explanation.rates)
    traces, waits = [], []
    for one, drawn in zip(explanation.theories, series, strict=True):
        if one.setting.strategy == "naive" and one.cap > 1:
            found = [fill_wait_s(one.cap, rate) for rate in rates]
            traces.append(_line(drawn, rates, found, numbers.duration))
            waits += found
    if not traces:
        return None
    y = axes.log_axis("mean wait for a full batch", waits, numbers.duration)
    return _chart(explanation, traces, y, "Naive: wait until the batch is full")


def _together(point: Point) -> tuple[amounts.Value, ...]:
    return (
        amounts.rate(point.rate),
        amounts.count(point.batch),
        amounts.number(point.idle_batch),
        amounts.duration(point.fill_wait_s),
    )


def _guided(
    explanation: Explanation, series: Sequence[Series], lines: Sequence[Guide], metric: Metric, name: str
) -> Chart:
    traces = theory.lines(series, lines, metric, name, width=WIDTH)
    values = [value for guide in lines for _, value in guide.lines.get(name, ()) if value > 0]
    label = glossary.label(name)
    title = f"{label} ({metric.unit})"
    if metric.unit == "s" and values:
        y = axes.log_axis(title, values, numbers.duration)
    else:
        y = theme.axis(title, rangemode="tozero")
    return _chart(explanation, traces, y, "", f"{headlines.capital(label)}, in theory")


def _chart(
    explanation: Explanation, traces: Sequence[go.Scatter], y: dict[str, object], title: str, said: str = ""
) -> Chart:
    layout = theme.layout(height_px=HEIGHT_PX, xaxis=axes.rate_axis(explanation.rates), yaxis=y)
    capacities = " ".join(
        f"{one.setting.label} on {one.setting.backend}: capacity {numbers.rate(one.capacity)}."
        for one in explanation.theories
    )
    summary = f"{said or title} by arrival rate. {capacities}"
    return Chart(figure=go.Figure(data=list(traces), layout=layout), title=title, summary=summary)


def _line(
    one: Series, rates: Sequence[float], values: Sequence[float], text: Callable[[float], str]
) -> go.Scatter:
    name = f"<b>{escape(one.setting)}</b> on {escape(one.place)}"
    return go.Scatter(
        x=list(rates),
        y=list(values),
        mode="lines",
        name=escape(one.name),
        meta={"series": one.key},
        line={"color": one.style.colour, "dash": one.style.dash, "width": WIDTH},
        text=[
            f"{name}<br>{numbers.rate(rate)}: <b>{text(value)}</b>"
            for rate, value in zip(rates, values, strict=True)
        ],
        hoverinfo="text",
    )


def _names(one: Theory) -> tuple[str, str]:
    return one.setting.label, backend_name(one.setting.backend)
