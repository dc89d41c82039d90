"""Latency against throughput: what each strategy pays for its throughput, and where on its line its knee lies."""

from collections.abc import Mapping, Sequence
from html import escape

import plotly.graph_objects as go

from results.comparisons import THROUGHPUT
from results.findings import CellSummary, Findings
from results.report import drawn, glossary, headlines, numbers, theme
from results.report.axes import log_axis
from results.report.curve_parts import latencies, metric_control, percentile_control, summary, table
from results.report.glossary import Metric
from results.report.panel import SEPARATOR, Absent, Chart, Panel, View
from results.report.points import crosses, drawn_values, line
from results.report.series import Series, main_place, series_of

_READING = (
    "Each line runs from the lowest arrival rate to the highest; lower and further right is better. Broad, between two "
    "strokes: the knee, from the highest rate that was kept up with to the lowest that overloaded; one stroke alone where the "
    "overloaded end has no such latency, none where not both ends are known. Hollow: overloaded. Crossed: a trial that does not count."
)
KNEE = "knee"  # in the `meta` of a line's knee
_KNEE_OPACITY = 0.45


def panel(findings: Findings) -> Panel | Absent:
    """Latency against throughput: each line begins at the lowest arrival rate."""
    series = series_of(findings)
    choices = latencies(series)
    plain = "What latency each strategy pays for its throughput"
    brackets = {one.key: bracket for one in series if (bracket := _bracket(one, findings))}
    if not choices:
        return Absent(name="tradeoff", heading=plain, reason="No request has finished yet.")
    highest = _highest_throughputs(series)
    views = {
        f"{metric.key}{SEPARATOR}{statistic}": View(
            heading=f"{headlines.capital(glossary.label(metric.of(statistic)))} against throughput{highest}",
            charts=(_against_throughput(series, brackets, metric, statistic),),
        )
        for metric in choices
        for statistic in glossary.PERCENTILES
    }
    names = [THROUGHPUT, *(m.of(s) for m in choices for s in glossary.PERCENTILES)]
    return Panel(
        name="tradeoff",
        controls=(metric_control(choices), percentile_control()),
        views=views,
        table=table(series, names),
        notes=(_READING,),
    )


def _bracket(one: Series, findings: Findings) -> tuple[CellSummary, ...]:
    """Give the cells of the knee, from the last that was kept up with to the first that was overloaded; () if either is not known."""
    low, high = findings.knees.get(one.key, (None, None))
    if low is None or high is None:
        return ()
    return tuple(cell for cell in one.cells if low <= cell.rate <= high)


def _against_throughput(
    series: Sequence[Series], brackets: Mapping[str, Sequence[CellSummary]], metric: Metric, statistic: str
) -> Chart:
    name = metric.of(statistic)
    traces = [_knee(one, brackets[one.key], name) for one in series if one.key in brackets]
    for one in series:
        traces.append(line(one, [cell.mean(THROUGHPUT) for cell in one.cells], name, bars=False))
    traces += crosses(series, name, THROUGHPUT)
    values = drawn_values(series, name)
    title = f"{glossary.label(name)} (s)"
    y = log_axis(title, values, numbers.duration) if values and min(values) > 0 else theme.axis(title)
    layout = theme.layout(
        height_px=460, xaxis=theme.axis("throughput (tokens/s)", rangemode="tozero"), yaxis=y
    )
    figure = drawn.figure(traces, layout)
    return Chart(figure=figure, summary=f"Against throughput. {summary(series, name)}")


def _knee(one: Series, cells: Sequence[CellSummary], name: str) -> go.Scatter:
    """Give the broad stretch of a line on which its knee lies, with a stroke at either end."""
    ends = (cells[0], cells[-1])
    said = f"the knee lies between {numbers.rate(cells[0].rate)} and {numbers.rate(cells[-1].rate)}"
    return go.Scatter(
        x=[cell.mean(THROUGHPUT) for cell in cells],
        y=[cell.mean(name) for cell in cells],
        mode="lines+markers",
        name=f"knee of {escape(one.name)}",
        showlegend=False,
        opacity=_KNEE_OPACITY,
        meta={"series": one.key, "rates": [cell.rate for cell in cells], KNEE: True},
        line={"color": one.style.colour, "width": 9},
        marker={
            "color": one.style.colour,
            "symbol": "line-ns-open",
            "size": [24 if cell in ends else 0 for cell in cells],
            "line": {"width": 3, "color": one.style.colour},
        },
        text=[f"<b>{escape(one.name)}</b><br>{said}"] * len(cells),
        hovertemplate="%{text}<extra></extra>",
    )


def _highest_throughputs(series: Sequence[Series]) -> str:
    """Describe the highest tokens/s of each series where most strategies ran; "" where none has any."""
    highest = [
        (max(values), one.setting)
        for one in series
        if one.place == main_place(series)
        and (values := [v for cell in one.cells if (v := cell.mean(THROUGHPUT)) is not None])
    ]
    if not highest:
        return ""
    listed = ", ".join(
        f"{numbers.number(value)} with {setting}" for value, setting in sorted(highest, reverse=True)[:4]
    )
    return f": the most tokens/s on {main_place(series)}: {listed}"
