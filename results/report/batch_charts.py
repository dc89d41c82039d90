"""The two figures of batches at one arrival rate: their sizes, and what released them."""

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from results.report import drawn, numbers, theme
from results.report.batch_counts import TRIGGERS, mean_of, shares_of, sizes_of, triggers_of
from results.report.panel import Chart
from results.report.series import Series

_LARGEST_DOT_PX = 30


def sizes_chart(series: Sequence[Series], rate: float, heading: str) -> Chart:
    """Draw a dot for each size, by its share, and the mean; `heading` states what they show."""
    traces = []
    largest = 1
    for one in series:
        sizes = sizes_of(one.at(rate))
        total = sizes.total()
        if not total:
            continue
        largest = max(largest, *sizes)
        kind = "engine steps" if one.strategy == "continuous" else "batches"
        traces.append(
            go.Scatter(
                x=list(sizes),
                y=[_row(one)] * len(sizes),
                mode="markers",
                meta={"series": one.key},
                marker={
                    "color": one.style.colour,
                    "opacity": 0.75,
                    "size": [100 * count / total for count in sizes.values()],
                    "sizemode": "area",
                    "sizeref": 2 * 100 / _LARGEST_DOT_PX**2,
                    "sizemin": 2.5,
                    "line": {"width": 0},
                },
                text=[
                    f"<b>{escape(one.name)}</b><br>size {size}: {count:,} of {total:,} {kind} "
                    f"({numbers.number(100 * count / total)} %)"
                    for size, count in sizes.items()
                ],
                hovertemplate="%{text}<extra></extra>",
            )
        )
        mean = mean_of(one.at(rate))
        traces.append(
            go.Scatter(
                x=[mean],
                y=[_row(one)],
                mode="markers",
                meta={"series": one.key},
                marker={"symbol": "line-ns", "size": 26, "line": {"width": 2, "color": theme.INK}},
                hovertemplate=f"mean {numbers.number(mean)}<extra></extra>",
            )
        )
    layout = theme.layout(
        height_px=_height_px(series),
        meta={"categories": [one.key for one in reversed(series)]},
        xaxis=theme.axis("requests in a batch or step", range=[0, largest * 1.08]),
        yaxis=_rows_axis(series),
    )
    figure = drawn.figure(traces, layout)
    lines = [f"{one.name}: mean {numbers.number(mean_of(one.at(rate)))}." for one in series]
    return Chart(
        figure=figure,
        title="Sizes (dot: share, bar: mean)",
        heading=heading,
        summary=f"Batch sizes at {numbers.rate(rate)}. {' '.join(lines)}",
    )


def triggers_chart(series: Sequence[Series], rate: float) -> Chart:
    """Draw the share of each trigger as a bar."""
    traces = []
    shares = {one.key: shares_of(triggers_of(one.at(rate))) for one in series}
    names = [name for name in theme.TRIGGERS if any(name in of for of in shares.values())]
    for name in names:
        values = [100 * shares[one.key].get(name, 0) for one in series]
        traces.append(
            go.Bar(
                x=values,
                y=[_row(one) for one in series],
                orientation="h",
                name=name,
                marker={"color": theme.TRIGGERS[name]},
                meta={"series": [one.key for one in series]},
                text=[f"{name} {value:.0f} %" if value >= 15 else "" for value in values],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"color": theme.TRIGGER_TEXTS[name]},
                hovertemplate=f"{name}, {escape(TRIGGERS[name])}: %{{x:.1f}} %<extra>%{{y}}</extra>",
            )
        )
    unexplained = [
        {
            "x": 2,
            "y": _row(one),
            "text": "engine steps: no trigger",
            "showarrow": False,
            "xanchor": "left",
            "font": {"color": theme.MUTED, "size": 12},
        }
        for one in series
        if not shares[one.key]
    ]
    layout = theme.layout(
        height_px=_height_px(series),
        legend=bool(names),
        annotations=unexplained,
        meta={"categories": [one.key for one in reversed(series)]},
        barmode="stack",
        bargap=0.35,
        xaxis=theme.axis("share of batches by trigger (%)", range=[0, 100]),
        yaxis=_rows_axis(series),
    )
    figure = drawn.figure(traces, layout)
    lines = [
        f"{one.name}: "
        + (", ".join(f"{name} {100 * share:.0f} %" for name, share in shares[one.key].items()) or "none")
        + "."
        for one in series
    ]
    return Chart(
        figure=figure,
        title="Triggers",
        heading=f"What released the batches at {numbers.rate(rate)}",
        summary=f"Triggers at {numbers.rate(rate)}. {' '.join(lines)}",
    )


def _row(one: Series) -> str:
    return f"{escape(one.setting)}<br>{escape(one.place)}"


def _rows_axis(series: Sequence[Series]) -> dict[str, object]:
    return theme.axis(
        "",
        type="category",
        categoryorder="array",
        categoryarray=[_row(one) for one in reversed(series)],
        range=[-0.6, len(series) - 0.4],
        tickfont={"size": 11},
    )


def _height_px(series: Sequence[Series]) -> int:
    return 130 + 46 * len(series)
