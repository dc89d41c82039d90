"""What a padded batch wastes, before and after its requests were chosen by length: on padding, and on rows that are done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

from results.findings import CellSummary, Findings
from results.padded_batches import BINS, PaddedBatches
from results.report import amounts, numbers, theme
from results.report.amounts import Cell
from results.report.curve_parts import rate_control
from results.report.panel import Absent, Chart, Mark, Panel, Table, View
from results.report.series import Series, rates_of, series_of

_HEADING = "Padding and lockstep waste"
_OF_AN_ORDER = ("order", "max_skips", "on_expired")  # knobs that settings may differ in and still be twins
_WASTES = (("padding_waste", "Padding waste"), ("lockstep_waste", "Lockstep waste"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    """Settings on one backend that differ in the order of the queue alone, fifo first."""

    fifo: Series
    ordered: tuple[Series, ...]

    @property
    def all(self) -> tuple[Series, ...]:
        """Fifo, then the others."""
        return (self.fifo, *self.ordered)


def panel(findings: Findings) -> Panel | Absent:
    """One view for each arrival rate at which a setting ran with its twin, the highest first."""
    twins = twins_of(series_of(findings))
    if not twins:
        reason = "No padded setting ran both with order: fifo and with order: length, so there is nothing to compare."
        return Absent(name="padding", heading=_HEADING, reason=reason)
    rates = list(reversed(rates_of([one for pair in twins for one in pair.all])))
    return Panel(
        name="padding",
        controls=(rate_control(rates),),
        views={str(n): _view(twins, rate) for n, rate in enumerate(rates)},
        table=_table(twins),
        notes=(
            (
                "Padding waste 1 − Σp ÷ (B·longest p) and lockstep waste 1 − Σo ÷ (B·longest o) of each batch, with prompts p and "
                "outputs o; in headings and table of all batches together, Σ over all of them. Skipped: a younger request was "
                "launched first; the most that any request was, over the repeats, beside its bound max_skips. The order matters "
                "only where more wait than a batch holds."
            ),
        ),
    )


def twins_of(series: Sequence[Series]) -> list[Twins]:
    """Give the padded settings that ran with `order: fifo` and with `order: length`, alike but for that."""
    groups: dict[str, list[Series]] = {}
    for one in series:
        if any(_padded(cell) for cell in one.cells):
            rest = {name: value for name, value in sorted(_knobs(one).items()) if name not in _OF_AN_ORDER}
            groups.setdefault(f"{one.strategy} {one.place} {rest}", []).append(one)
    found = []
    for group in groups.values():
        fifo = [one for one in group if _order(one) == "fifo"]
        ordered = tuple(one for one in group if _order(one) == "length")
        if fifo and ordered:
            found.append(Twins(fifo=fifo[0], ordered=ordered))
    return found


def _view(twins: Sequence[Twins], rate: float) -> View:
    shown = [one for pair in twins for one in pair.all if one.at(rate) is not None]
    return View(
        heading=_heading(twins, rate),
        charts=tuple(_chart(shown, rate, name, title) for name, title in _WASTES),
    )


def _heading(twins: Sequence[Twins], rate: float) -> str:
    for pair in twins:
        fifo, other = pair.fifo.at(rate), pair.ordered[0].at(rate)
        before, after = (cell.mean("padding_waste") if cell else None for cell in (fifo, other))
        if before is not None and after is not None:
            said = f"{100 * after:.0f} % of the prompt slots with {pair.ordered[0].setting} instead of "
            where = f"on {pair.fifo.place} at {numbers.rate(rate)}"
            return f"Padding is {said}{100 * before:.0f} % with {pair.fifo.setting} {where}"
    return _HEADING


def _chart(shown: Sequence[Series], rate: float, name: str, title: str) -> Chart:
    traces, said = [], []
    for place, one in enumerate(shown):
        cell = one.at(rate)
        counts = [sum(of) for of in zip(*(_counts(trial, name) for trial in _padded(cell)), strict=True)]
        total = sum(counts)
        if not total:
            continue
        traces.append(
            go.Bar(
                x=[100 * (part + 0.5) / BINS for part in range(BINS)],
                y=[100 * count / total for count in counts],
                width=[100 / BINS / len(shown)] * BINS,
                offset=[100 / BINS * (place / len(shown) - 0.5)] * BINS,
                name=escape(one.name),
                meta={"series": one.key},
                marker={"color": one.style.colour},
                text=[
                    f"<b>{escape(one.name)}</b><br>{title.lower()} {100 * part // BINS} to {100 * (part + 1) // BINS} %: "
                    f"{count:,} of {total:,} batches"
                    for part, count in enumerate(counts)
                ],
                textposition="none",
                hovertemplate="%{text}<extra></extra>",
            )
        )
        mean = cell.mean(name) if cell else None
        said.append(f"{one.name}: {numbers.number(None if mean is None else 100 * mean)} %")
    layout = theme.layout(
        height_px=330,
        bargap=0,
        xaxis=theme.axis(f"{title.lower()} of a batch (%)", range=[-1, 101]),
        yaxis=theme.axis("share of batches (%)", rangemode="tozero"),
    )
    summary = f"{title} at {numbers.rate(rate)}, of all batches together. {'; '.join(said)}."
    heading = f"{title} of a batch at {numbers.rate(rate)}"
    return Chart(figure=go.Figure(data=traces, layout=layout), title=title, heading=heading, summary=summary)


def _table(twins: Sequence[Twins]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for one in (one for pair in twins for one in pair.all):
        for cell in one.cells:
            skips = [of.most_skips for of in _padded(cell) if of.most_skips is not None]
            rows.append(
                (
                    one.setting,
                    one.place,
                    amounts.rate(cell.rate),
                    amounts.count(sum(map(sum, (of.padding for of in _padded(cell))))),
                    amounts.number(cell.mean("batch_size_mean")),
                    *(amounts.share(cell.mean(name)) for name, _ in _WASTES),
                    *(amounts.duration(cell.mean(f"queue_wait_s_{of}")) for of in ("p50", "p99")),
                    amounts.count(max(skips, default=None)),
                    amounts.count(_knobs(one).get("max_skips") if skips else None),
                )
            )
    columns = (
        "strategy",
        "backend",
        "rate",
        "batches",
        "mean batch size",
        "padding waste",
        "lockstep waste",
        "queue wait p50",
        "queue wait p99",
        "most skipped",
        "max_skips",
    )
    marks = tuple(
        Mark(series=(one.key,), rate=cell.rate) for pair in twins for one in pair.all for cell in one.cells
    )
    return Table(columns=columns, rows=tuple(rows), marks=marks)


def _padded(cell: CellSummary | None) -> list[PaddedBatches]:
    """Its repeats, if its batches are padded."""
    trials = cell.trials if cell is not None else ()
    return [one.padded for one in trials if one.padded is not None and any(one.padded.padding)]


def _counts(of: PaddedBatches, name: str) -> tuple[int, ...]:
    return of.padding if name == "padding_waste" else of.lockstep


def _knobs(one: Series) -> Mapping[str, Any]:
    return one.cells[0].trials[0].trial.knobs


def _order(one: Series) -> str:
    return str(_knobs(one).get("order", "fifo"))
