"""A calibration as a page: what was predicted against what was measured, the residuals, and what explains the time."""

import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from experiments.calibration.calibrate import Calibrating
from experiments.calibration.observations import TERMS, Array, Observations
from experiments.calibration.text import percent, ran_on
from experiments.calibration.time_figures import COLOURS, only, terms, trials
from results.report import amounts, frame, numbers, theme
from results.report.panel import Chart, Choice, Control, Panel, Table, View
from results.report.series import backend_name

HEIGHT_PX = 430
INSIDE = 99.5  # per cent of the rows: the frame of a figure
MOST_POINTS = 1_000  # of a backend: evenly over its rows

Shown = Sequence[tuple[str, Observations, Array]]  # backend, its rows, predicted seconds


def write(found: Calibrating, path: str | os.PathLike[str]) -> None:
    """Write the page whole, in place of an older one. StoreError if it cannot be written."""
    frame.write(render(found), path)


def render(found: Calibrating) -> str:
    """Give the page as HTML."""
    calibration = found.calibration
    shown = [_shown(backend, found) for backend in calibration.backends]
    panels = (_predicted(found, shown), _residuals(found, shown), terms(found), trials(found))
    return frame.frame(
        "calibration.html.j2",
        {panel.name: panel for panel in panels},
        title=f"{calibration.sweep} · calibration · batchyard",
        name=calibration.sweep,
        headline=_headline(found),
        simulated=calibration.simulated,
        lines=[
            f"{backend_name(backend)}: {ran_on(known)}; {known.fit.rows:,} rows of "
            f"{numbers.count(known.fit.trials, 'trial')}, R² {known.fit.r_squared:.2f}."
            for backend, known in calibration.backends.items()
        ],
    )


def _headline(found: Calibrating) -> str:
    errors = [
        f"{percent(known.fit.residual_p50)} on {backend_name(backend)}"
        for backend, known in found.calibration.backends.items()
    ]
    return f"Half of the rows are predicted within {', '.join(errors)}"


def _shown(backend: str, found: Calibrating) -> tuple[str, Observations, Array]:
    observed = found.observed[backend]
    rows = np.unique(np.linspace(0, len(observed) - 1, MOST_POINTS).astype(np.int64))
    some = observed.some(rows)
    costs = found.calibration.backends[backend].costs
    return backend, some, some.terms @ np.array([getattr(costs, term) for term in TERMS])


def _points(
    found: Calibrating, shown: Shown, place: Callable[[Observations], Array], value: str
) -> list[go.Scatter]:
    traces = []
    for number, (backend, some, predicted_s) in enumerate(shown):
        error = 100 * (predicted_s / some.duration_s - 1)
        traces.append(
            go.Scatter(
                x=place(some).tolist(),
                y=(predicted_s if value == "predicted" else error).tolist(),
                mode="markers",
                name=escape(backend_name(backend)),
                marker={"color": COLOURS[number % len(COLOURS)], "size": 4, "opacity": 0.5},
                text=[
                    f"{escape(backend)}<br>measured {numbers.duration(measured)}, predicted "
                    f"{numbers.duration(predicted)} ({off:+.0f} %)"
                    for measured, predicted, off in zip(some.duration_s, predicted_s, error, strict=True)
                ],
                hoverinfo="text",
            )
        )
    return traces


def _predicted(found: Calibrating, shown: Shown) -> Panel:
    traces = _points(found, shown, lambda some: some.duration_s, "predicted")
    both = [np.concatenate([some.duration_s, predicted]) for _, some, predicted in shown]
    low = min(float(np.percentile(one, 100 - INSIDE)) for one in both)
    high = max(float(one.max()) for one in both)
    equal = go.Scatter(
        x=[low, high],
        y=[low, high],
        mode="lines",
        line={"color": theme.INK, "width": 1},
        hoverinfo="skip",
        showlegend=False,
    )
    ticks = theme.log_ticks([low, high])
    ends = [float(np.log10(low / 1.2)), float(np.log10(high * 1.2))]
    axis = {
        "type": "log",
        "range": ends,
        "tickvals": ticks,
        "ticktext": [numbers.number(tick) for tick in ticks],
    }
    layout = theme.layout(
        height_px=HEIGHT_PX,
        legend=True,
        xaxis=theme.axis("measured (s)", **axis),
        yaxis=theme.axis("predicted (s)", **axis),
    )
    rows: tuple[tuple[amounts.Cell, ...], ...] = tuple(
        (
            backend_name(backend),
            amounts.count(known.fit.rows),
            amounts.Value(text=f"{known.fit.r_squared:.3f}", number=known.fit.r_squared),
            *(
                amounts.Value(text=percent(share), number=share, unit="ratio")
                for share in (known.fit.residual_p50, known.fit.residual_p90, known.fit.within_p50)
            ),
            amounts.Value(text=f"{known.fit.total:.3f}", number=known.fit.total),
        )
        for backend, known in found.calibration.backends.items()
    )
    said = "; ".join(f"{row[0]}: half within {row[3]}, nine tenths within {row[4]}" for row in rows)
    return Panel(
        name="predicted",
        controls=(only("durations"),),
        views={
            "all": View(
                heading=f"Predicted against measured: {said}",
                charts=(Chart(figure=go.Figure(data=[*traces, equal], layout=layout), summary=said),),
            )
        },
        table=Table(
            columns=(
                "backend",
                "rows",
                "R²",
                "error p50",
                "p90",
                "p50 at a trial's own speed",
                "measured ÷ predicted",
            ),
            rows=rows,
        ),
        notes=(
            "A row is a batch of an engine that runs one to its longest row, a step of one that re-forms it.",
        ),
    )


def _residuals(found: Calibrating, shown: Shown) -> Panel:
    against: Mapping[str, tuple[str, Callable[[Observations], Array]]] = {
        "size": ("sequences in a step", lambda some: some.a_step("per_sequence_s")),
        "prefill": ("prompt tokens of the row", _prompt_tokens),
        "context": ("tokens of context in a step", lambda some: some.a_step("per_context_token_s")),
    }
    errors = [100 * (predicted_s / some.duration_s - 1) for _, some, predicted_s in shown]
    top = max(105.0, 1.1 * max(float(np.percentile(one, INSIDE)) for one in errors))
    views: dict[str, View] = {}
    rows: list[tuple[amounts.Cell, ...]] = []
    for key, (title, place) in against.items():
        layout = theme.layout(
            height_px=HEIGHT_PX,
            legend=True,
            xaxis=theme.axis(title, rangemode="tozero"),
            yaxis=theme.axis("predicted ÷ measured − 1 (%)", range=[-105, top]),
            shapes=[theme.no_change("y", 0)],
        )
        lines = [row for one in shown for row in _thirds(title, *one, place(one[1]))]
        rows += lines
        said = "; ".join(f"{backend}, {low} to {high}: {off}" for _, backend, low, high, off in lines)
        figure = go.Figure(data=_points(found, shown, place, "error"), layout=layout)
        views[key] = View(
            heading=f"Errors against {title}",
            charts=(Chart(figure=figure, summary=f"Median errors. {said}."),),
        )
    choices = tuple(Choice(value=key, label=title) for key, (title, _) in against.items())
    return Panel(
        name="residuals",
        controls=(Control(name="against", choices=choices),),
        views=views,
        table=Table(columns=("against", "backend", "from", "to", "median error"), rows=tuple(rows)),
        notes=(
            "A slope would say that a cost is wrong or missing; a spread, how much the machine's speed varied.",
            "One row in 200 may lie above the figure: two steps that were reported at one moment.",
        ),
    )


def _prompt_tokens(some: Observations) -> Array:
    tokens: Array = some.terms[:, TERMS.index("per_prefill_token_s")]
    return tokens


def _thirds(
    title: str, backend: str, some: Observations, predicted_s: Array, place: Array
) -> list[tuple[amounts.Cell, ...]]:
    """The median error in each third of a range."""
    error = predicted_s / some.duration_s - 1
    edges = np.unique(np.quantile(place, [0, 1 / 3, 2 / 3, 1]))
    if len(edges) == 1:
        edges = np.array([edges[0], edges[0]])
    found: list[tuple[amounts.Cell, ...]] = []
    for low, high in pairwise(edges):
        inside = (place >= low) & (place <= high)
        off = float(np.median(error[inside]))
        median = amounts.Value(text=f"{100 * off:+.1f} %", number=off, unit="ratio")
        found.append((title, backend_name(backend), *map(amounts.number, (float(low), float(high))), median))
    return found
