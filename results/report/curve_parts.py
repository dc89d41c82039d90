"""What figures of curves have in common: the metrics that can be chosen, the summary in words, and the table."""

from collections.abc import Sequence

from results.report import amounts, glossary, headlines, numbers
from results.report.amounts import Cell
from results.report.glossary import Metric
from results.report.panel import Choice, Control, Mark, Table
from results.report.points import all_values
from results.report.series import Series


def metric_control(metrics: Sequence[Metric]) -> Control:
    """Give the list of metrics to choose from, each with its formula."""
    return Control(
        name="metric",
        choices=tuple(Choice(value=m.key, label=f"{m.name} ({m.unit})", title=m.said) for m in metrics),
    )


def rate_control(rates: Sequence[float]) -> Control:
    """Give the list of arrival rates to choose from, by their place: near ones read the same as text."""
    choices = tuple(
        Choice(value=str(n), label=numbers.rate(rate), mark=Mark(rate=rate)) for n, rate in enumerate(rates)
    )
    return Control(name="arrival rate", choices=choices)


def percentile_control() -> Control:
    """Give the list of percentiles to choose from."""
    return Control(name="percentile", choices=tuple(Choice(value=p, label=p) for p in glossary.PERCENTILES))


def measured(series: Sequence[Series], metric: Metric, statistic: str) -> bool:
    """Whether any trial has this metric."""
    return bool(all_values(series, metric.of(statistic)))


def latencies(series: Sequence[Series]) -> list[Metric]:
    """Give the metrics of time that any trial has."""
    return [m for m in glossary.METRICS if m.has_percentiles and measured(series, m, "p50")]


def summary(series: Sequence[Series], name: str) -> str:
    """Say every point in words: the text of a figure for those who do not see it."""
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


def table(series: Sequence[Series], names: Sequence[str]) -> Table:
    """Give the means behind a figure, a row for each cell."""
    columns = ("strategy", "backend", "rate", "repeats", "state", *(glossary.label(name) for name in names))
    rows: list[tuple[Cell, ...]] = [
        (
            one.setting,
            one.place,
            amounts.rate(cell.rate),
            amounts.count(len(cell.trials)),
            cell.standing,
            *(amounts.metric(name, cell.mean(name)) for name in names),
        )
        for one in series
        for cell in one.cells
    ]
    marks = tuple(Mark(series=(one.key,), rate=cell.rate) for one in series for cell in one.cells)
    return Table(columns=columns, rows=tuple(rows), marks=marks)
