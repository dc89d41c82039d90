"""Who held which slot, over time, in the chosen trials of one rate (scripts/slots.js)."""

import plotly.graph_objects as go

from results.report import theme
from results.report.panel import Chart, Control, Panel, Table, View
from results.report.trial_block import COLOURS, PHASES

NAME = "slots"
HEADING = "Who held a slot, over time"
_HEIGHT_PX = 520


def panel(rates: Control, table: Table, note: str) -> Panel:
    """Give the figure of the rate that is chosen; `note` says which trials are in it."""
    chart = Chart(figure=go.Figure(layout={"height": _HEIGHT_PX}), summary="Slots over time.")
    return Panel(
        name=NAME,
        controls=(rates,),
        views={rates.choices[0].value: View(heading=HEADING, charts=(chart,))},
        table=table,
        notes=(_slots_note(), note),
        live=_live(),
    )


def _live() -> dict[str, object]:
    return {
        "phases": PHASES,
        "colours": COLOURS,
        "layout": theme.layout(height_px=_HEIGHT_PX, legend=True, barmode="overlay", bargap=0.12),
        "axis": theme.axis(""),
    }


def _slots_note() -> str:
    return (
        "From the stamps of the requests: each takes the free slot of the lowest number when the engine begins it, and "
        "leaves it when its caller can have it. Slot-time: max_batch_size × the time from the first that began to the last "
        "that left; where a setting keeps up, the rest is capacity that nobody asked for: compare at a rate that overloads. At most one setting of each strategy and backend is drawn: hide settings to see others."
    )
