"""How the latencies of one trial of each setting are distributed, at one rate (scripts/distributions.js)."""

import plotly.graph_objects as go

from results.report import glossary, theme
from results.report.panel import Chart, Control, Panel, Table, View

NAME = "distributions"
HEADING = "How the latencies of one trial are distributed"
_HEIGHT_PX = 320
_METRICS = {"ttft": "TTFT", "e2e": "E2E latency", "wait": "queue wait"}


def panel(rates: Control, table: Table, note: str) -> Panel:
    """Give the figures of the rate that is chosen, one a metric; `note` says which trials are in them."""
    charts = tuple(
        Chart(
            figure=go.Figure(layout={"height": _HEIGHT_PX}),
            summary=metric,
            title=metric,
            meaning=glossary.formula_of(metric),
        )
        for metric in _METRICS.values()
    )
    return Panel(
        name=NAME,
        controls=(rates,),
        views={rates.choices[0].value: View(heading=HEADING, charts=charts)},
        table=table,
        notes=(_cdf_note(), note),
        live=_live(),
    )


def _live() -> dict[str, object]:
    return {
        "metrics": _METRICS,
        "layout": theme.layout(
            height_px=_HEIGHT_PX,
            yaxis=theme.axis("share of requests (%)", range=[0, 102]),
        ),
        "axis": theme.axis("", type="log"),
    }


def _cdf_note() -> str:
    return (
        "Of the requests in the steady window of one trial of each setting, on the same arrivals: how many had taken no "
        "longer. What was cut off counts and is never reached, so its line ends below 100 %. Further left is quicker; a "
        "steeper line treats requests more alike."
    )
