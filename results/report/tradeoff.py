"""Latency against throughput: what each strategy pays for its throughput."""

from collections.abc import Sequence

from results.comparisons import THROUGHPUT
from results.findings import Findings
from results.report import drawn, glossary, numbers, theme
from results.report.axes import log_axis
from results.report.curve_parts import latencies, metric_control, percentile_control, summary, table
from results.report.glossary import Metric
from results.report.panel import SEPARATOR, Absent, Chart, Panel, View
from results.report.points import all_values, line
from results.report.series import Series, main_place, series_of


def panel(findings: Findings) -> Panel | Absent:
    """Latency against throughput: each line begins at the lowest arrival rate."""
    series = series_of(findings)
    choices = latencies(series)
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
    names = [THROUGHPUT, *(m.of(s) for m in choices for s in glossary.PERCENTILES)]
    return Panel(
        name="tradeoff",
        controls=(metric_control(choices), percentile_control()),
        views=views,
        table=table(series, names),
        notes=(
            "Each line runs from the lowest arrival rate to the highest; lower and further right is better.",
        ),
    )


def _against_throughput(series: Sequence[Series], metric: Metric, statistic: str) -> Chart:
    name = metric.of(statistic)
    traces = []
    for one in series:
        traces.append(line(one, [cell.mean(THROUGHPUT) for cell in one.cells], name, bars=False))
    values = all_values(series, name)
    title = f"{glossary.label(name)} (s)"
    y = log_axis(title, values, numbers.duration) if values and min(values) > 0 else theme.axis(title)
    layout = theme.layout(
        height_px=460, xaxis=theme.axis("throughput (tokens/s)", rangemode="tozero"), yaxis=y
    )
    figure = drawn.figure(traces, layout)
    return Chart(figure=figure, summary=f"Against throughput. {summary(series, name)}")


def _highest_throughputs(series: Sequence[Series]) -> str | None:
    """Describe the highest tokens/s of each series where most strategies ran."""
    highest = [
        (max(values), one.setting)
        for one in series
        if one.place == main_place(series)
        and (values := [v for cell in one.cells if (v := cell.mean(THROUGHPUT)) is not None])
    ]
    if not highest:
        return None
    listed = ", ".join(
        f"{numbers.number(value)} with {setting}" for value, setting in sorted(highest, reverse=True)[:4]
    )
    return f"The most tokens/s on {main_place(series)}: {listed}"
