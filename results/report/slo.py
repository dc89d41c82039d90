"""Goodput at an SLO that the reader sets: the panel, and the requests that the page counts (results/served.py)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from results.definitions import DEFINITIONS
from results.findings import CellSummary, Findings
from results.goodput import MEASURES
from results.report import amounts, axes, numbers, packed, points, theme
from results.report.panel import Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.series import Series, drawn_rates
from results.report.suggested_slos import suggested
from results.report.within import WITHIN
from results.served import Served

NAME = "goodput"
MOST_ROWS = 1_000_000
_HEADING = "How much is served within an SLO"
_MEASURES: Mapping[str, tuple[str, str]] = {  # as goodputOf names them → label, axis
    "share": ("share of offered", "share of offered requests within the SLO"),
    "requests": ("requests/s", "requests within the SLO (req/s)"),
    "tokens": ("tokens/s", "output tokens within the SLO (tokens/s)"),
}
_COLUMNS = ("strategy", "backend", "rate", "repeats", "state", *(DEFINITIONS[key].name for key in MEASURES))
_APART = (
    "Goodput takes the whole answers of the requests that were to begin in the steady window; throughput takes the tokens made "
    "in it, whoever they belong to. So of one setting and rate goodput may be a little more than throughput."
)


def panel(findings: Findings, series: Sequence[Series]) -> tuple[Panel | Absent, tuple[packed.Block, ...]]:
    """Give the panel that scripts/slo.js draws, and the block of requests that it counts."""
    kept, crossed = _served(one.cells for one in series), _served(one.invalid for one in series)
    rows = sum(len(one.tokens) // 4 for one in kept)
    if not rows:
        return Absent(name=NAME, heading=_HEADING, reason="No request has finished yet."), ()
    if rows + sum(len(one.tokens) // 4 for one in crossed) > MOST_ROWS:
        reason = (
            f"{rows:,} requests are too many for this page, which has room for {MOST_ROWS:,}: the goodput within the "
            "configured SLOs stands in the answer."
        )
        return Absent(name=NAME, heading=_HEADING, reason=reason), ()
    presets = findings.slos or suggested(series)
    layout = theme.layout(
        height_px=430, xaxis=axes.rate_axis(drawn_rates(series)), yaxis=theme.axis("", rangemode="tozero")
    )
    chart = Chart(
        figure=go.Figure(layout=layout),
        summary="Goodput against arrival rate, counted when the page is drawn.",
    )
    cells = [(one, cell) for one in series for cell in one.cells]
    return (
        Panel(
            name=NAME,
            controls=(
                Control(
                    name="measure",
                    choices=tuple(
                        Choice(value=value, label=label, title=DEFINITIONS[key].said)
                        for key, (value, (label, _)) in zip(MEASURES, _MEASURES.items(), strict=True)
                    ),
                ),
            ),
            views={"share": View(heading=_HEADING, charts=(chart,))},
            table=Table(
                columns=_COLUMNS,
                rows=tuple(
                    (
                        one.setting,
                        one.place,
                        amounts.rate(cell.rate),
                        amounts.count(len(cell.trials)),
                        cell.standing or "kept up",
                        *3 * (numbers.NOTHING,),
                    )
                    for one, cell in cells
                ),
                marks=tuple(Mark(series=(one.key,), rate=cell.rate) for one, cell in cells),
            ),
            notes=(
                _note(kept, rows, configured=bool(findings.slos)),
                _APART,
                points.MARKS.split(" Faint")[0],
            ),
            live={
                "presets": [{"label": slo.text, "limits": slo.limits} for slo in presets],
                "configured": bool(findings.slos),
                "quantile": round(100 * WITHIN),
                "measures": {key: axis for key, (_, axis) in _MEASURES.items()},
                "with_itl": any(one.itl for one in kept),
                "columns": _COLUMNS,
                "lines": _lines(series, len(kept)),
                "cross": points.CROSS,
                "layout": chart.specification()["layout"],
            },
        ),
        (block([*kept, *crossed]),),
    )


def _served(cells: Iterable[Sequence[CellSummary]]) -> list[Served]:
    """Give what is known of the trials of these cells, of all series, in order."""
    trials = (trial for of_one in cells for cell in of_one for trial in cell.trials)
    return [trial.served for trial in trials if trial.served is not None]


def _lines(series: Sequence[Series], counted: int) -> list[dict[str, Any]]:
    """Give each series with its cells; a cell names the places of its repeats in the block.

    After the `counted` trials of cells the block has those that do not count.
    """
    found, place, crossed_place = [], 0, counted
    for one in series:
        cells = []
        for cell in one.cells:
            trials: list[int | None] = []
            for trial in cell.trials:
                trials.append(None if trial.served is None else place)
                place += trial.served is not None
            cells.append(
                {"rate": cell.rate, "trials": trials, "symbol": _symbol(one, cell), "standing": cell.standing}
            )
        crossed = []
        for trial in (trial for cell in one.invalid for trial in cell.trials if trial.served is not None):
            said = points.invalid_hover(trial, one)
            crossed.append({"rate": trial.trial.rate, "trial": crossed_place, "text": said})
            crossed_place += 1
        style = {"colour": one.style.colour, "dash": one.style.dash}
        found.append(
            {
                "key": one.key,
                "name": one.name,
                "setting": one.setting,
                "place": one.place,
                **style,
                "cells": cells,
                "crossed": crossed,
            }
        )
    return found


def _symbol(one: Series, cell: CellSummary) -> str:
    return points.symbol(one, overloaded=cell.overloaded, undecided=cell.undecided)


def block(kept: Sequence[Served]) -> packed.Block:
    """Give the requests of these trials, one after the other."""
    columns = {
        name: np.frombuffer(b"".join(getattr(one, name) for one in kept), "<u4")
        for name in ("ttft", "tpot", "itl", "tokens")
    }
    if not columns["itl"].size:
        del columns["itl"]
    trials = [
        {
            "rows": len(one.tokens) // 4,
            "offered": one.offered,
            "offered_rate": one.offered_rate,
            "units_s": one.units_s,
            "exact_e2e": one.exact_e2e,
            "unknown": one.unknown,
        }
        for one in kept
    ]
    return packed.pack("served", columns, about={"trials": trials}, deltas={"ttft"})


def _note(kept: Sequence[Served], rows: int, *, configured: bool) -> str:
    offered = sum(one.offered for one in kept)
    coarsest = numbers.duration(max(unit for one in kept for unit in one.units_s[:2]))
    return (
        f"Counted in the page, over {offered:,} requests offered in the steady windows, of which {rows:,} finished: none "
        "is left out. "
        + ("The configured SLOs are exact; at any other " if configured else "Times are rounded: ")
        + f"a limit of TTFT or TPOT may count as up to {coarsest} longer, which is less than 0.02 % of offered. What "
        "failed, was rejected or was cut off is offered and meets nothing."
    )
