"""Two sweeps as a page: every cell of one against its twin, and the changes with their intervals."""

import os
from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from results.comparisons import THROUGHPUT
from results.report import amounts, frame, numbers, series_style, theme
from results.report.panel import Chart, Choice, Control, Panel, Table, View
from results.sweep_changes import Change, Compared, Comparison

HEIGHT_PX = 460
ROW_PX = 26
NAMES = {
    THROUGHPUT: "throughput (tokens/s)",
    "ttft_s_p50": "TTFT p50",
    "ttft_s_p99": "TTFT p99",
    "e2e_s_p50": "E2E p50",
    "e2e_s_p99": "E2E p99",
}


def write(found: Comparison, path: str | os.PathLike[str]) -> None:
    """Write the page whole, in place of an older one. StoreError if it cannot be written."""
    frame.write(render(found), path)


def render(found: Comparison) -> str:
    """Give the page as HTML."""
    panels = (_values(found), _changes(found))
    missing = [
        f"Only in {name}: {', '.join(cells)}."
        for name, cells in ((found.a, found.only_a), (found.b, found.only_b))
        if cells
    ]
    return frame.frame(
        "comparison.html.j2",
        {panel.name: panel for panel in panels},
        title=f"{found.a} and {found.b} · batchyard",
        origin=[f"batchyard · {found.a} and {found.b}{_simulated(found)}"],
        a=found.a,
        b=found.b,
        prediction=found.prediction,
        simulated=found.simulated,
        headline=headline(found),
        lines=[*(f"{note[0].upper()}{note[1:]}." for note in found.notes), *missing],
    )


def _simulated(found: Comparison) -> str:
    """Say which of the two nothing was measured in."""
    return f" · beware: {', '.join(found.simulated)} simulated" if found.simulated else ""


def headline(found: Comparison) -> str:
    """Of a prediction its median errors; else how many changes are shown."""
    if found.prediction:
        parts = []
        for metric in found.metrics:
            errors = sorted(
                abs(one.ratio - 1)
                for cell in found.cells
                if (one := cell.changes[metric]).counts and one.ratio is not None
            )
            if errors:
                parts.append(f"{name(metric)} {100 * errors[len(errors) // 2]:.0f} %")
        return f"Median errors of the prediction: {', '.join(parts)}"
    none, told = found.no_difference()
    return f"{told - none} of {told} changes from {found.a} to {found.b} have an interval that excludes none"


def name(metric: str) -> str:
    """A metric as shown."""
    return NAMES.get(metric, metric.replace("_", " "))


def value(metric: str, one: float | None) -> str:
    """A value with its unit."""
    return numbers.duration(one) if "_s_p" in metric else numbers.number(one)


def change_text(one: Change) -> str:
    """+4.2 % [1.0, 7.5], without the bracket where there is no interval."""
    if one.ratio is None:
        return numbers.NOTHING
    text = f"{100 * (one.ratio - 1):+.1f} %"
    if one.low is not None and one.high is not None:
        text += f" [{100 * (one.low - 1):+.1f}, {100 * (one.high - 1):+.1f}]"
    return text.replace("-", "−")


def _values(found: Comparison) -> Panel:
    views = {}
    for metric in found.metrics:
        cells = [
            (cell, one, one.a, one.b) for cell in found.cells if (one := cell.changes[metric]).a and one.b
        ]
        traces = [
            _points(found, backend, [one for one in cells if one[0].backend == backend], metric)
            for backend in _backends(found)
        ]
        known = [side for _, _, a, b in cells for side in (a, b) if side]
        figure = go.Figure(data=traces, layout=_square(found, metric, known))
        if known:
            ends = [min(known), max(known)]
            figure.add_scatter(
                x=ends,
                y=ends,
                mode="lines",
                line={"color": theme.INK, "width": 1},
                hoverinfo="skip",
                showlegend=False,
            )
        said = "; ".join(f"{cell.name}: {value(metric, a)}, {value(metric, b)}" for cell, _, a, b in cells)
        views[metric] = View(
            heading=f"{name(metric)[0].upper()}{name(metric)[1:]}: {'predicted against measured' if found.prediction else 'B against A'}",
            charts=(Chart(figure=figure, summary=f"{name(metric)}. {said}."),),
        )
    return Panel(
        name="sides",
        controls=(_metrics(found),),
        views=views,
        table=_table(found),
        notes=(
            "Hollow: latency of a cell that was overloaded or cut off, which describes when it was stopped.",
        ),
    )


def _points(
    found: Comparison,
    backend: str,
    cells: Sequence[tuple[Compared, Change, float | None, float | None]],
    metric: str,
) -> go.Scatter:
    styles = [series_style.style(cell.strategy, backend) for cell, *_ in cells]
    symbol = "circle" if backend == _backends(found)[0] else "diamond"
    return go.Scatter(
        x=[a for _, _, a, _ in cells],
        y=[b for *_, b in cells],
        mode="markers",
        name=escape(backend),
        marker={
            "color": [style.colour for style in styles],
            "symbol": [f"{symbol}-open" if one.censored else symbol for _, one, *_ in cells],
            "size": 10,
            "line": {"width": 2, "color": [style.colour for style in styles]},
        },
        text=[
            f"{escape(cell.name)}<br>{value(metric, a)} and {value(metric, b)}: <b>{change_text(one)}</b>"
            for cell, one, a, b in cells
        ],
        hoverinfo="text",
    )


def _square(found: Comparison, metric: str, known: Sequence[float]) -> dict[str, object]:
    sides = ("measured", "predicted") if found.prediction else (found.a, found.b)
    unit = " (s)" if "_s_p" in metric else ""
    ticks = theme.log_ticks(known) if known else []
    axis = {"type": "log", "tickvals": ticks, "ticktext": [numbers.number(tick) for tick in ticks]}
    return theme.layout(
        height_px=HEIGHT_PX,
        legend=True,
        xaxis=theme.axis(f"{name(metric)}{unit}: {escape(sides[0])}", **axis),
        yaxis=theme.axis(f"{escape(sides[1])}", **axis),
    )


def _changes(found: Comparison) -> Panel:
    views = {}
    for metric in found.metrics:
        cells = [(cell, one) for cell in found.cells if (one := cell.changes[metric]).ratio is not None]
        percent = [100 * ((one.ratio or 1.0) - 1) for _, one in cells]
        up = [
            None if one.high is None else 100 * (one.high - 1) - at
            for (_, one), at in zip(cells, percent, strict=True)
        ]
        down = [
            None if one.low is None else at - 100 * (one.low - 1)
            for (_, one), at in zip(cells, percent, strict=True)
        ]
        colours = [series_style.style(cell.strategy, cell.backend).colour for cell, _ in cells]
        trace = go.Scatter(
            x=percent,
            y=[escape(cell.name) for cell, _ in cells],
            mode="markers",
            error_x={"type": "data", "array": up, "arrayminus": down, "color": theme.MUTED, "thickness": 1.5},
            marker={
                "color": colours,
                "size": 9,
                "symbol": ["circle-open" if one.censored else "circle" for _, one in cells],
                "line": {"width": 2, "color": colours},
            },
            text=[
                f"{escape(cell.name)}: <b>{change_text(one)}</b>, {numbers.count(one.pairs, 'pair')}"
                for cell, one in cells
            ],
            hoverinfo="text",
            showlegend=False,
        )
        layout = theme.layout(
            height_px=120 + ROW_PX * max(len(cells), 4),
            xaxis=theme.axis("error of the prediction (%)" if found.prediction else "change from A to B (%)"),
            yaxis=theme.axis("", autorange="reversed"),
            shapes=[theme.no_change("x", 0)],
        )
        said = "; ".join(f"{cell.name}: {change_text(one)}" for cell, one in cells)
        what = "errors" if found.prediction else "changes"
        views[metric] = View(
            heading=f"{name(metric)[0].upper()}{name(metric)[1:]}: {what} with 95 % intervals",
            charts=(
                Chart(figure=go.Figure(data=[trace], layout=layout), summary=f"{name(metric)}. {said}."),
            ),
        )
    return Panel(name="changes", controls=(_metrics(found),), views=views, table=_table(found))


def _metrics(found: Comparison) -> Control:
    return Control(name="metric", choices=tuple(Choice(value=one, label=name(one)) for one in found.metrics))


def _backends(found: Comparison) -> list[str]:
    return list(dict.fromkeys(cell.backend for cell in found.cells))


def _table(found: Comparison) -> Table:
    sides = ("measured", "predicted", "error") if found.prediction else ("A", "B", "change")
    rows: tuple[tuple[amounts.Cell, ...], ...] = tuple(
        (
            cell.name,
            name(metric) + (" (s)" if "_s_p" in metric else ""),
            *(amounts.Value(text=value(metric, side), number=side) for side in (one.a, one.b)),
            amounts.Value(
                text=change_text(one) + ("*" if one.censored else ""),
                number=None if one.ratio is None else one.ratio - 1,
                unit="ratio",
            ),
            *(amounts.ratio(end) for end in (one.low, one.high)),
            amounts.count(one.pairs),
            "yes" if one.censored else "",
        )
        for cell in found.cells
        for metric, one in cell.changes.items()
    )
    return Table(columns=("cell", "metric", *sides, "low", "high", "pairs", "a side censored"), rows=rows)
