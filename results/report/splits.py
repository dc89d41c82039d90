"""The split of a total gain into policy and engine: total = policy × engine, exactly, in log ratios."""

import math
from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from results.findings import Change, Findings, Split
from results.report import amounts, changes, drawn, glossary, headlines, numbers, theme
from results.report.amounts import Cell
from results.report.decisive import decisive_split, most_throughput, quickest
from results.report.panel import SEPARATOR, Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.points import error_bars
from results.report.series import side_name

_HEADING = "How much is the strategy, how much the engine"
_READING = (
    "Policy: the strategy changed, on the engine arrived at. Engine: the backend changed, under the strategy begun "
    "with. The two multiply to the total exactly, so on this logarithmic axis their bars add up to its bar. Lines: 95 % "
    "intervals, from three repeats on."
)
_COLOURS = {"total": theme.INK, "policy": theme.POLICY, "engine": theme.ENGINE}
_PARTS = tuple(_COLOURS)


def panel(findings: Findings) -> Panel | Absent:
    """One view for each pair of deployments and metric; the first is what the answer names."""
    splits = [split for split in findings.splits if min(split.total.ratio, split.policy.ratio) > 0]
    if not splits:
        return Absent(
            name="splits",
            heading=_HEADING,
            reason="To split a gain, one strategy has to have run on two backends at one rate, and the other on "
            "one of them. No such cells have finished.",
        )
    said = decisive_split(findings, most_throughput(findings) or quickest(findings, headlines.LATENCY))
    pairs = list(dict.fromkeys(map(_pair, splits)))
    pairs.sort(key=lambda pair: said is None or pair != _pair(said))
    metrics = list(dict.fromkeys(split.metric for split in splits))
    views = {}
    for number, pair in enumerate(pairs):
        for metric in metrics:
            chosen = [s for s in splits if _pair(s) == pair and s.metric == metric]
            views[f"{number}{SEPARATOR}{metric}"] = _view(sorted(chosen, key=lambda one: one.rate), metric)
    pair_choices = tuple(
        Choice(
            value=str(number),
            label=f"{side_name(base)} → {side_name(other)}",
            mark=Mark(series=(base, other)),
        )
        for number, (base, other) in enumerate(pairs)
    )
    metric_choices = tuple(
        Choice(value=m, label=glossary.label(m), title=glossary.metric_of(m)[0].said) for m in metrics
    )
    return Panel(
        name="splits",
        controls=(
            Control(name="from → to", choices=pair_choices),
            Control(name="metric", choices=metric_choices),
        ),
        views=views,
        table=_table(splits),
        notes=(_READING,),
    )


def _pair(split: Split) -> tuple[str, str]:
    return split.total.base, split.total.other


def _view(splits: Sequence[Split], metric: str) -> View:
    label = glossary.label(metric)
    if not splits:
        return View(heading=f"No split of {label} for these two", charts=(_chart([], label),))
    judged = [split for split in splits if not _is_unjudged(split)]
    last = (judged or splits)[-1]
    total, policy, engine = (
        numbers.ratio(one.ratio) if one.low is None else headlines.judged(one)
        for one in (last.total, last.policy, last.engine)
    )
    heading = (
        f"At {numbers.rate(last.rate)}, {total} the {label} = {policy} from policy · {engine} from the engine"
    )
    if last.total.low is None:
        heading += f" ({headlines.unsure(last.total)})"
    if not judged:
        heading += ", with a side overloaded or cut off"
    note = ""
    if len(judged) < len(splits):
        note = "Marked *: a side was overloaded or cut off: its latency describes the drain limit, not the server."
    return View(heading=heading, charts=(_chart(splits, label),), note=note)


def _is_unjudged(split: Split) -> bool:
    """Whether it is of a latency that is not the server's; a throughput stands under overload too."""
    is_latency = glossary.metric_of(split.metric)[0].unit == "s"
    return is_latency and any(change.censored for change in (split.total, split.policy, split.engine))


def _chart(splits: Sequence[Split], label: str) -> Chart:
    """Give three rows for each rate, each with its interval; what it says stands beside the plot, where no line is."""
    bounds = [v for s in splits for part in _PARTS for v in _bounds(_part(s, part)) if v]
    reach = [*bounds, 1 / 1.5, 1.5]
    ticks = theme.log_ticks(reach)
    rows = [(split, part) for split in splits for part in _PARTS]
    layout = theme.layout(
        height_px=110 + 26 * max(3, len(rows)),
        shapes=[theme.no_change("x", 0)],
        bargap=0.45,
        xaxis=theme.axis(
            f"times the {label}",
            tickvals=[math.log2(tick) for tick in ticks],
            ticktext=[numbers.ratio(tick) for tick in ticks],
            range=[math.log2(min(reach) / 1.1), math.log2(max(reach) * 1.1)],
        ),
        yaxis=theme.axis(
            "",
            autorange="reversed",
            type="category",
            tickvals=[_row(*row) for row in rows],
            ticktext=[_said(*row) for row in rows],
            ticks="",
        ),
    )
    traces = [_bars(rows), *(_points(splits, part) for part in _PARTS)] if rows else []
    figure = drawn.figure(traces, layout)
    return Chart(figure=figure, summary=_summary(splits, label))


def _part(split: Split, part: str) -> Change:
    change: Change = getattr(split, part)
    return change


def _bounds(change: Change) -> tuple[float | None, ...]:
    return change.ratio, change.low, change.high


def _row(split: Split, part: str) -> str:
    """Name a row of the axis: by the rate itself, for near ones read the same as text."""
    return f"{split.rate!r} {part}"


def _said(split: Split, part: str) -> str:
    """Give the text of a row: of the first one of a rate with the rate, starred where its latency is not the server's."""
    change = _part(split, part)
    said = f"{part} {headlines.times(change) if change.low is not None else numbers.ratio(change.ratio) + ', no interval'}"
    if part != _PARTS[0]:
        return said
    return f"<b>{numbers.rate(split.rate)}{' *' if _is_unjudged(split) else ''}</b>  {said}"


def _bars(rows: Sequence[tuple[Split, str]]) -> go.Bar:
    """Give how far each part is from no change; the first trace, so that the rows are in its order."""
    sides = _sides([split for split, _ in rows])
    return go.Bar(
        y=[_row(*row) for row in rows],
        x=[math.log2(_part(*row).ratio) for row in rows],
        orientation="h",
        showlegend=False,
        hoverinfo="skip",
        opacity=0.3,
        marker={"color": [_COLOURS[part] for _, part in rows]},
        meta={"needs": sides, "rates": [split.rate for split, _ in rows]},
    )


def _points(splits: Sequence[Split], part: str) -> go.Scatter:
    changes_of = [_part(split, part) for split in splits]
    logs = [math.log2(change.ratio) for change in changes_of]
    return go.Scatter(
        y=[_row(split, part) for split in splits],
        x=logs,
        mode="markers",
        name=part,
        meta={"needs": _sides(splits), "rates": [split.rate for split in splits]},
        marker={"color": _COLOURS[part], "symbol": "diamond" if part == "total" else "circle", "size": 10},
        error_x=error_bars(
            [math.log2(c.high) - x if c.high else None for c, x in zip(changes_of, logs, strict=True)],
            [x - math.log2(c.low) if c.low else None for c, x in zip(changes_of, logs, strict=True)],
            color=_COLOURS[part],
            thickness=1.8,
            width=5,
        ),
        hovertext=[_hover(part, change) for change in changes_of],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _sides(splits: Sequence[Split]) -> list[str]:
    """Give the two deployments that rows belong to, for the page's filters."""
    return [side for split in splits[:1] for side in (split.total.base, split.total.other)]


def _hover(part: str, change: Change) -> str:
    return (
        f"<b>{part}: {changes.in_words(change)}</b><br>{escape(side_name(change.base))} → "
        f"{escape(side_name(change.other))}"
    )


def _summary(splits: Sequence[Split], label: str) -> str:
    lines = [
        f"At {numbers.rate(s.rate)} total {changes.in_words(s.total)} = policy {numbers.ratio(s.policy.ratio)} "
        f"times engine {numbers.ratio(s.engine.ratio)}."
        for s in splits
    ]
    return f"Split of the change in {label}. {' '.join(lines) or 'Nothing measured.'}"


def _table(splits: Sequence[Split]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            glossary.label(split.metric),
            amounts.rate(split.rate),
            side_name(split.total.base),
            side_name(split.total.other),
            *(
                amounts.ratio(one)
                for change in (split.total, split.policy, split.engine)
                for one in (change.ratio, change.low, change.high)
            ),
            amounts.count(split.total.pairs),
        )
        for split in splits
    ]
    parts = [f"{part}{end}" for part in ("total", "policy", "engine") for end in ("", ", low", ", high")]
    columns = ("metric", "rate", "from", "to", *parts, "pairs")
    marks = tuple(Mark(series=(one.total.base, one.total.other), rate=one.rate) for one in splits)
    return Table(columns=columns, rows=tuple(rows), marks=marks)
