"""Batch sizes and why batches were launched, for each series at one arrival rate."""

from collections import Counter
from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from results.findings import CellSummary, Findings
from results.report import drawn, numbers, theme
from results.report.curve_parts import rate_control
from results.report.panel import Absent, Chart, Mark, Panel, Table, View
from results.report.series import Series, main_place, rates_of, series_of

_HEADING = "Batch sizes and what released them"
_TRIGGERS: dict[str, str] = {
    "size": "the batch was full",
    "age": "the oldest request had waited long enough",
    "memory": "one more would not have fitted in memory",
    "flush": "the workload had ended",
    "join": "the engine takes requests at once",
}
_LARGEST_DOT_PX = 30
_CACHE = ("KV cache, mean", "KV cache, peak", "preemptions", "recomputed tokens", "swapped")


def panel(findings: Findings) -> Panel | Absent:
    """One view for each arrival rate, the highest first."""
    series = [one for one in series_of(findings) if any(_sizes(cell) for cell in one.cells)]
    if not series:
        return Absent(name="batches", heading=_HEADING, reason="No batch has been launched yet.")
    rates = [rate for rate in reversed(rates_of(series)) if any(_sizes(one.at(rate)) for one in series)]
    views = {
        str(position): _view([one for one in series if one.at(rate)], rate)
        for position, rate in enumerate(rates)  # not by the rate as text: near ones read the same
    }
    return Panel(
        name="batches",
        controls=(rate_control(rates),),
        views=views,
        table=_table(series),
        notes=(
            "Naive and dynamic release batches; with continuous batching a dot is the requests resident in an "
            "engine step. Triggers: " + "; ".join(f"{name}: {why}" for name, why in _TRIGGERS.items()) + ".",
            (
                "In the table: KV cache in use as a share of its blocks, over the steps of an engine that tells; preemptions, "
                "tokens computed again and bytes moved to the host and back are sums over the repeats."
            ),
        ),
    )


_NAMED = 4  # settings in a heading


def _view(series: Sequence[Series], rate: float) -> View:
    place = main_place(series)
    means = [
        f"{numbers.number(mean)} with {one.setting}"
        for one in series
        if one.place == place and (mean := _mean(one.at(rate))) is not None
    ]
    heading = (
        f"At {numbers.rate(rate)} on {place} the mean batch is {', '.join(means[:_NAMED])}"
        f"{f' and {len(means) - _NAMED} more' if len(means) > _NAMED else ''}{_by_memory(series, rate)}"
        if means
        else _HEADING
    )
    return View(heading=heading, charts=(_sizes_chart(series, rate), _triggers_chart(series, rate)))


def _by_memory(series: Sequence[Series], rate: float) -> str:
    """Say of whose batches memory launched most; nothing where it launched none."""
    shares = {one.name: _shares(_triggers(one.at(rate))).get("memory", 0.0) for one in series}
    name, share = max(shares.items(), key=lambda item: item[1])
    return f"; memory launched {100 * share:.0f} % with {name}" if share else ""


def _sizes_chart(series: Sequence[Series], rate: float) -> Chart:
    traces = []
    largest = 1
    for one in series:
        sizes = _sizes(one.at(rate))
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
        mean = _mean(one.at(rate))
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
        xaxis=theme.axis("requests in a batch or step (dot: share, bar: mean)", range=[0, largest * 1.08]),
        yaxis=_rows_axis(series),
    )
    figure = drawn.figure(traces, layout)
    lines = [f"{one.name}: mean {numbers.number(_mean(one.at(rate)))}." for one in series]
    return Chart(
        figure=figure, title="Sizes", summary=f"Batch sizes at {numbers.rate(rate)}. {' '.join(lines)}"
    )


def _triggers_chart(series: Sequence[Series], rate: float) -> Chart:
    traces = []
    shares = {one.key: _shares(_triggers(one.at(rate))) for one in series}
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
                textfont={"color": theme.PAPER},
                hovertemplate=f"{name}, {escape(_TRIGGERS[name])}: %{{x:.1f}} %<extra>%{{y}}</extra>",
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
        figure=figure, title="Triggers", summary=f"Triggers at {numbers.rate(rate)}. {' '.join(lines)}"
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


def _sizes(cell: CellSummary | None) -> Counter[int]:
    sizes: Counter[int] = Counter()
    for trial in cell.trials if cell else ():
        sizes.update({int(size): count for size, count in trial.batch_sizes.items()})
    return Counter(dict(sorted(sizes.items())))


def _triggers(cell: CellSummary | None) -> Counter[str]:
    triggers: Counter[str] = Counter()
    for trial in cell.trials if cell else ():
        triggers.update(trial.triggers)
    return triggers


def _shares(counts: Counter[str]) -> dict[str, float]:
    total = counts.total()
    return {name: count / total for name, count in counts.items() if count} if total else {}


def _mean(cell: CellSummary | None) -> float | None:
    sizes = _sizes(cell)
    return sum(size * count for size, count in sizes.items()) / sizes.total() if sizes else None


def _table(series: Sequence[Series]) -> Table:
    cached = any(cell.trials and _has_cache(cell) for one in series for cell in one.cells)
    rows = []
    for one in series:
        for cell in one.cells:
            sizes, triggers = _sizes(cell), _triggers(cell)
            rows.append(
                (
                    one.setting,
                    one.place,
                    numbers.rate(cell.rate),
                    f"{sizes.total():,}",
                    numbers.number(_mean(cell)),
                    f"{min(sizes)} to {max(sizes)}" if sizes else numbers.NOTHING,
                    ", ".join(f"{name} {count}" for name, count in triggers.items()) or numbers.NOTHING,
                    numbers.number(cell.mean("padding_waste")),
                    numbers.number(cell.mean("lockstep_waste")),
                    *(_cache(cell) if cached else ()),
                )
            )
    columns = (
        "strategy",
        "backend",
        "rate",
        "batches or steps",
        "mean size",
        "sizes",
        "triggers",
        "padding waste",
        "lockstep waste",
        *(_CACHE if cached else ()),
    )
    marks = tuple(Mark(series=(one.key,), rate=cell.rate) for one in series for cell in one.cells)
    return Table(columns=columns, rows=tuple(rows), marks=marks)


def _has_cache(cell: CellSummary) -> bool:
    return any(trial.metrics.get("kv_use_peak") is not None for trial in cell.trials)


def _cache(cell: CellSummary) -> tuple[str, ...]:
    """Give what `_CACHE` names: shares of the pool, and sums over the repeats."""
    if not _has_cache(cell):
        return (numbers.NOTHING,) * len(_CACHE)
    peak = max(trial.metrics.get("kv_use_peak") or 0.0 for trial in cell.trials)
    preemptions = [n for trial in cell.trials if (n := trial.metrics.get("kv_preemptions")) is not None]
    counted = [trial.trial.counters for trial in cell.trials if trial.trial.counters]
    sums = [
        sum(one.get(name, 0) for one in counted) if counted else None
        for name in ("recomputed_tokens", "swapped_bytes")
    ]
    return (
        _percent(cell.mean("kv_use_mean")),
        _percent(peak),
        f"{sum(preemptions):,.0f}" if preemptions else numbers.NOTHING,
        numbers.NOTHING if sums[0] is None else f"{sums[0]:,}",
        numbers.size(sums[1]),
    )


def _percent(share: float | None) -> str:
    return numbers.NOTHING if share is None else f"{numbers.number(100 * share)} %"
