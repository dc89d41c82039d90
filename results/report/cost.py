"""What a million output tokens cost, against arrival rate: drawn where the config says what an hour of a GPU costs."""

from collections.abc import Sequence

from results.cost import PER_MILLION
from results.findings import CellSummary, Findings
from results.price import Price
from results.report import amounts, drawn, numbers, theme
from results.report.amounts import Cell
from results.report.axes import log_axis, rate_axis
from results.report.curve_parts import summary
from results.report.panel import Absent, Chart, Mark, Panel, Table, View
from results.report.points import all_values, line, values_of
from results.report.series import Series, rates_of, series_of
from results.statistics import mean_interval

NAME = "cost"
_HEADING = "What a million output tokens cost"
_COLUMN = "cost per million output tokens"
_NOTE = (
    "At the throughput of the steady window, so of a server that goes on like that: what a sweep itself cost has loading, "
    "warming up and draining in it too. An overloaded setting (hollow) is cheap because nobody is paid for waiting."
)


def panel(findings: Findings) -> Panel | Absent:
    """One line for each setting, and the interval of each point in the table."""
    price, series = findings.price, series_of(findings)
    if price is None:
        reason = "The config has no price_per_gpu_hour; it may be added to a sweep that has been run."
        return Absent(name=NAME, heading=_HEADING, reason=reason)
    values = all_values(series, PER_MILLION)
    if not values:
        reason = "No trial has finished on a GPU that price_per_gpu_hour has a price for."
        return Absent(name=NAME, heading=_HEADING, reason=reason)
    return Panel(
        name=NAME,
        controls=(),
        views={"": View(heading=_HEADING, charts=(_chart(series, price, values),))},
        table=_table(series, price),
        notes=tuple(note for note in (_NOTE, _of_sweep(findings, price)) if note),
    )


def _chart(series: Sequence[Series], price: Price, values: Sequence[float]) -> Chart:
    title = f"{_COLUMN} ({price.currency})"
    y = log_axis(title, values, numbers.number) if min(values) > 0 else theme.axis(title, rangemode="tozero")
    traces = [line(one, [cell.rate for cell in one.cells], PER_MILLION) for one in series]
    layout = theme.layout(height_px=430, xaxis=rate_axis(rates_of(series)), yaxis=y)
    said = f"In {price.currency}. {summary(series, PER_MILLION)}"
    return Chart(figure=drawn.figure(traces, layout), summary=said)


def _table(series: Sequence[Series], price: Price) -> Table:
    cells = [(one, cell) for one in series for cell in one.cells]
    return Table(
        columns=("strategy", "backend", "rate", "repeats", "state", _COLUMN, "lowest cost", "highest cost"),
        rows=tuple(_row(one, cell, price) for one, cell in cells),
        marks=tuple(Mark(series=(one.key,), rate=cell.rate) for one, cell in cells),
    )


def _row(one: Series, cell: CellSummary, price: Price) -> tuple[Cell, ...]:
    mean = cell.mean(PER_MILLION)
    found = mean_interval(values_of(cell, PER_MILLION)) if mean is not None else None
    low, high = (None, None) if found is None else found[1:]
    return (
        one.setting,
        one.place,
        amounts.rate(cell.rate),
        amounts.count(len(cell.trials)),
        cell.standing,
        *(amounts.number(value, price.currency) for value in (mean, low, high)),
    )


def _of_sweep(findings: Findings, price: Price) -> str:
    """What the measuring cost; nothing in virtual time."""
    spent = findings.spent
    if spent is None or not spent.attempts:
        return ""
    others = ""
    if spent.unrecorded:
        others = f" {spent.unrecorded} more run or were killed, and count until the last that they wrote."
    each = "" if spent.per_attempt is None else f" ({price.text(spent.per_attempt)} a trial)"
    hours = f"{spent.gpu_hours:.3g} GPU hours of {spent.attempts} attempts"
    whole = f"This sweep cost {spent.text(price)}{each}: {hours}"
    return f"{whole}, those that failed among them.{others}"
