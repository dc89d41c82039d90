"""One trial, request by request: a bar for each, in the order of the batches (scripts/closeup.js)."""

import plotly.graph_objects as go

from results.report import theme
from results.report.panel import Chart, Control, Panel, Table, View
from results.report.trial_block import COLOURS, PHASES

NAME = "closeup"
HEADING = "One trial, request by request"
_HEIGHT_PX = 640


def panel(trials: Control, table: Table, note: str) -> Panel:
    """Give the figure of the trial that is chosen; `note` says which can be."""
    chart = Chart(figure=go.Figure(layout={"height": _HEIGHT_PX}), summary="The bars of one trial.")
    return Panel(
        name=NAME,
        controls=(trials,),
        views={trials.choices[0].value: View(heading=HEADING, charts=(chart,))},
        table=table,
        notes=(_phases(), note),
        live=_live(),
    )


def _live() -> dict[str, object]:
    layout = theme.layout(
        height_px=_HEIGHT_PX,
        legend=True,
        barmode="overlay",
        bargap=0.15,
        xaxis=theme.axis("time since the start of the trial (s)", anchor="y"),
        yaxis=theme.axis("request, in order of its batch, then of arrival", domain=[0, 0.9], showgrid=False),
    )
    layout["yaxis2"] = theme.axis(
        "", domain=[0.94, 1], range=[-1, 1], showgrid=False, showticklabels=False, ticks="", fixedrange=True
    )
    return {"phases": PHASES, "colours": COLOURS, "ink": theme.INK, "layout": layout}


def _phases() -> str:
    said = "; ".join(f"{name}: {meaning}" for name, meaning in PHASES.items())
    return (
        f"A row is a request. {said}. A frame is a batch, from its launch until its end; ticks on top are the planned "
        "arrivals. What did not finish ends in the phase that it had reached. Drag to zoom, double-click to go back."
    )
