"""Caps over time: the largest batch that was allowed, the batches that memory launched, and those that did not fit.

Drawn where memory did something: it launched a batch, or the cap fell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import plotly.graph_objects as go

from results.findings import CellSummary, Findings
from results.padded_batches import MOST_POINTS, PaddedBatches
from results.report import amounts, numbers, theme
from results.report.amounts import Cell
from results.report.panel import Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.series import Series, series_of

_HEADING = "What memory did to the batches"
_MEMORY = theme.TRIGGERS["memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One cell in which memory ended a batch."""

    series: Series
    cell: CellSummary

    @property
    def name(self) -> str:
        """How it is chosen."""
        return f"{self.series.name}, {numbers.rate(self.cell.rate)}"

    @property
    def trials(self) -> list[PaddedBatches]:
        """Its repeats."""
        return [one.padded for one in self.cell.trials if one.padded is not None]

    @property
    def launches(self) -> tuple[int, int]:
        """Batches that memory launched, and all."""
        by = [one.triggers for one in self.cell.trials]
        return sum(of.get("memory", 0) for of in by), sum(sum(of.values()) for of in by)

    @property
    def lowest_cap(self) -> int:
        """Of all repeats."""
        return min(cap for one in self.trials for _, cap in one.caps)

    @property
    def highest_cap(self) -> int:
        """Of all repeats."""
        return max(cap for one in self.trials for _, cap in one.caps)

    @property
    def failed(self) -> int:
        """Batches that ran out of memory, of those that are kept."""
        return sum(len(one.out_of_memory) for one in self.trials)


def panel(findings: Findings) -> Panel | Absent:
    """One view for each cell, the one in which memory launched most first."""
    shown = shown_of(series_of(findings))
    if not shown:
        reason = "Memory launched no batch, and none ran out of it: the cap was max_batch_size throughout."
        return Absent(name="memory", heading=_HEADING, reason=reason)
    return Panel(
        name="memory",
        controls=(
            Control(
                name="strategy and rate",
                choices=tuple(
                    Choice(value=str(n), label=one.name, mark=_mark(one)) for n, one in enumerate(shown)
                ),
            ),
        ),
        views={str(n): View(heading=_heading(one), charts=(_chart(one),)) for n, one in enumerate(shown)},
        table=_table(shown),
        notes=(
            (
                "A batch of B rows is charged B × (longest prompt + max_new_tokens) tokens of keys and values; it is launched by "
                "memory when one more row would not fit. After a batch that ran out of memory the cap is half of what failed, and "
                f"grows by one after 20 clean batches in a row. At most {MOST_POINTS} points a kind and trial are drawn."
            ),
        ),
    )


def shown_of(series: Sequence[Series]) -> list[Shown]:
    """Give the cells in which memory did something, the largest share of launches first, then the lowest cap."""
    found = [Shown(series=one, cell=cell) for one in series for cell in one.cells]
    acted = [one for one in found if any(trial.by_memory or trial.cap_fell for trial in one.trials)]

    def most(one: Shown) -> tuple[bool, float]:
        by_memory, launched = one.launches
        return one.failed == 0, -by_memory / max(1, launched)

    return sorted(acted, key=most)


def _mark(one: Shown) -> Mark:
    return Mark(series=(one.series.key,), rate=one.cell.rate)


def _heading(one: Shown) -> str:
    where = f"with {one.series.setting} on {one.series.place} at {numbers.rate(one.cell.rate)}"
    by_memory, launched = one.launches
    if one.failed:
        batches = "1 batch" if one.failed == 1 else f"{one.failed:,} batches"
        return f"The cap fell from {one.highest_cap} to {one.lowest_cap} {where}: {batches} ran out of memory"
    share = f"{100 * by_memory / max(1, launched):.0f}"
    return f"Memory launched {share} % of the batches {where}, before they held {one.highest_cap} requests"


def _chart(one: Shown) -> Chart:
    traces = []
    for number, trial in enumerate(one.trials):
        at_s = [*(at_s for at_s, _ in trial.caps), trial.ends_s]
        caps = [cap for _, cap in trial.caps]
        traces.append(
            go.Scatter(
                x=at_s,
                y=[*caps, caps[-1]],
                mode="lines",
                line={"color": theme.INK, "width": 1.5, "shape": "hv"},
                name="cap",
                legendgroup="cap",
                showlegend=number == 0,
                hovertemplate=f"repeat {number + 1}: cap %{{y}} from %{{x:.1f}} s<extra></extra>",
            )
        )
    kinds = (
        ("launched by memory", "circle", _MEMORY, [trial.by_memory for trial in one.trials]),
        ("ran out of memory", "x", theme.INK, [trial.out_of_memory for trial in one.trials]),
    )
    for name, symbol, colour, points in kinds:
        drawn = [(at_s, size, number + 1) for number, of in enumerate(points) for at_s, size in of]
        if drawn:
            traces.append(
                go.Scatter(
                    x=[at_s for at_s, _, _ in drawn],
                    y=[size for _, size, _ in drawn],
                    customdata=[number for _, _, number in drawn],
                    mode="markers",
                    marker={"symbol": symbol, "size": 8, "opacity": 0.6, "color": colour},
                    name=name,
                    hovertemplate=f"repeat %{{customdata}}: %{{y}} requests at %{{x:.1f}} s {name}<extra></extra>",
                )
            )
    layout = theme.layout(
        height_px=340,
        legend=True,
        xaxis=theme.axis("time since the trial began (s)", rangemode="tozero"),
        yaxis=theme.axis("requests in a batch", range=[0, one.highest_cap * 1.12]),
    )
    layout["margin"] = {**layout["margin"], "b": 86}
    by_memory, launched = one.launches
    summary = (
        f"{escape(one.name)}: memory launched {by_memory:,} of {launched:,} batches, {one.failed:,} ran out of memory, "
        f"the cap was {one.lowest_cap} to {one.highest_cap}."
    )
    return Chart(figure=go.Figure(data=traces, layout=layout), summary=summary)


def _table(shown: Sequence[Shown]) -> Table:
    columns = (
        "strategy",
        "backend",
        "rate",
        "batches",
        "launched by memory",
        "their mean size",
        "ran out of memory",
        "lowest cap",
        "highest cap",
    )
    rows: list[tuple[Cell, ...]] = []
    for one in shown:
        sizes = [size for trial in one.trials for _, size in trial.by_memory]
        by_memory, launched = one.launches
        rows.append(
            (
                one.series.setting,
                one.series.place,
                amounts.rate(one.cell.rate),
                *map(amounts.count, (launched, by_memory)),
                amounts.number(sum(sizes) / len(sizes) if sizes else None),
                *map(amounts.count, (one.failed, one.lowest_cap, one.highest_cap)),
            )
        )
    marks = tuple(map(_mark, shown))
    return Table(columns=columns, rows=tuple(rows), marks=marks)
