"""What a calibration spent its time on, as figures: what each cost explains, and how fast each trial was."""

from html import escape

import numpy as np
import plotly.graph_objects as go

from experiments.calibration.calibrate import Calibrating
from experiments.calibration.observations import TERMS
from experiments.calibration.text import NAMES, cost, percent
from results.report import amounts, numbers, theme
from results.report.panel import Chart, Choice, Control, Panel, Table, View
from results.report.series import backend_name

COLOURS = (theme.POLICY, theme.HOLDINGS["decode"], theme.HOLDINGS["prefill"])
PARTS = dict(
    zip(TERMS, (theme.ENGINE, theme.HOLDINGS["decode"], "#9b3f8c", "#d39b00", "#8a7550"), strict=True)
)


def terms(found: Calibrating) -> Panel:
    """The share of the predicted time that each cost explains."""
    backends = found.calibration.backends
    names = [escape(backend_name(backend)) for backend in backends]
    bars = [
        go.Bar(
            y=names,
            x=[100 * known.fit.shares[term] for known in backends.values()],
            orientation="h",
            name=NAMES[term],
            marker={"color": PARTS[term]},
            text=[
                f"{NAMES[term]}: {cost(getattr(known.costs, term), known.fit.errors.get(term))}, "
                f"{percent(known.fit.shares[term])} of the time"
                for known in backends.values()
            ],
            hoverinfo="text",
            textposition="none",
        )
        for term in TERMS
    ]
    layout = theme.layout(
        height_px=180 + 60 * len(names),
        legend=True,
        barmode="stack",
        xaxis=theme.axis("share of the predicted time (%)", range=[0, 100]),
        yaxis=theme.axis("", autorange="reversed"),
    )
    rows = tuple(
        (
            backend_name(backend),
            NAMES[term],
            amounts.Value(
                text=cost(getattr(known.costs, term), known.fit.errors.get(term)),
                number=getattr(known.costs, term),
                unit="s",
            ),
            amounts.Value(
                text=numbers.NOTHING if (error_s := known.fit.errors.get(term)) is None else cost(error_s),
                number=error_s,
                unit="s",
            ),
            amounts.Value(text=percent(known.fit.shares[term]), number=known.fit.shares[term], unit="ratio"),
            known.fit.left_out.get(term, ""),
        )
        for backend, known in backends.items()
        for term in TERMS
    )
    heading = "; ".join(
        f"{percent(known.fit.shares['fixed_s'])} of the time on {backend_name(backend)} is spent whatever is in a step"
        for backend, known in backends.items()
    )
    said = "; ".join(f"{row[0]}, {row[1]}: {row[4]}" for row in rows)
    return Panel(
        name="terms",
        controls=(only("shares"),),
        views={
            "all": View(
                heading=heading, charts=(Chart(figure=go.Figure(data=bars, layout=layout), summary=said),)
            )
        },
        table=Table(
            columns=(
                "backend",
                "cost of",
                "value ± standard error",
                "standard error",
                "explains",
                "not fitted",
            ),
            rows=rows,
        ),
        notes=("A standard error is the jackknife's over trials.",),
    )


def trials(found: Calibrating) -> Panel:
    """How fast each trial was."""
    traces = []
    rows: list[tuple[amounts.Cell, ...]] = []
    for number, (backend, observed) in enumerate(found.observed.items()):
        costs = found.calibration.backends[backend].costs
        predicted_s = observed.terms @ np.array([getattr(costs, term) for term in TERMS])
        speeds = [
            float(np.median((observed.duration_s / predicted_s)[observed.trial == trial]))
            for trial in np.unique(observed.trial)
        ]
        known = found.calibration.backends[backend].fit
        rows.append(
            (
                backend_name(backend),
                *(
                    amounts.Value(text=f"{of:.2f}", number=of)
                    for of in (known.fastest, float(np.median(speeds)), known.slowest)
                ),
            )
        )
        traces.append(
            go.Box(
                x=speeds,
                name=escape(backend_name(backend)),
                boxpoints="all",
                jitter=0.5,
                pointpos=0,
                marker={"color": COLOURS[number % len(COLOURS)], "size": 5},
                line={"width": 1},
                hoverinfo="x",
            )
        )
    layout = theme.layout(
        height_px=180 + 60 * len(rows),
        xaxis=theme.axis("measured ÷ predicted time of a trial, median of its rows", hoverformat=".2f"),
        yaxis=theme.axis(""),
        shapes=[theme.no_change("x", 1)],
    )
    heading = "; ".join(f"trials on {row[0]} took {row[1]} to {row[3]} of the predicted time" for row in rows)
    return Panel(
        name="trials",
        controls=(only("speed of trials"),),
        views={
            "all": View(
                heading=heading[0].upper() + heading[1:],
                charts=(Chart(figure=go.Figure(data=traces, layout=layout), summary=heading),),
            )
        },
        table=Table(columns=("backend", "p10", "p50", "p90"), rows=tuple(rows)),
        notes=(
            "One prediction cannot hold for trials of a machine whose speed changes: this is what it misses.",
        ),
    )


def only(label: str) -> Control:
    """A control of a panel that has one view."""
    return Control(name="show", choices=(Choice(value="all", label=label),))
