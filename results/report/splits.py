"""The split of a total gain into policy and engine: total = policy × engine, exactly, in log ratios."""

import math
from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from results.findings import Change, Findings, Split
from results.report import amounts, changes, drawn, glossary, headlines, numbers, theme
from results.report.amounts import Cell
from results.report.panel import SEPARATOR, Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.points import error_bars
from results.report.series import side_name

_HEADING = "How much is the strategy, how much the engine"
_READING = (
    "Policy: the strategy changed, on the engine arrived at. Engine: the backend changed, under the strategy begun "
    "with. The two multiply to the total exactly, so on this logarithmic axis their bars add up."
)
_PARTS = (("policy", theme.POLICY), ("engine", theme.ENGINE))


def panel(findings: Findings) -> Panel | Absent:
    """One view for each pair of deployments and metric."""
    splits = [split for split in findings.splits if min(split.total.ratio, split.policy.ratio) > 0]
    if not splits:
        return Absent(
            name="splits",
            heading=_HEADING,
            reason="To split a gain, one strategy has to have run on two backends at one rate, and the other on "
            "one of them. No such cells have finished.",
        )
    pairs = list(dict.fromkeys((split.total.base, split.total.other) for split in splits))
    metrics = list(dict.fromkeys(split.metric for split in splits))
    views = {}
    for number, pair in enumerate(pairs):
        for metric in metrics:
            chosen = [s for s in splits if (s.total.base, s.total.other) == pair and s.metric == metric]
            views[f"{number}{SEPARATOR}{metric}"] = _view(sorted(chosen, key=lambda one: one.rate), metric)
    pair_choices = tuple(
        Choice(
            value=str(number),
            label=f"{side_name(base)} → {side_name(other)}",
            mark=Mark(series=(base, other)),
        )
        for number, (base, other) in enumerate(pairs)
    )
    metric_choices = tuple(Choice(value=m, label=glossary.label(m)) for m in metrics)
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


def _view(splits: Sequence[Split], metric: str) -> View:
    label = glossary.label(metric)
    if not splits:
        return View(heading=f"No split of {label} for these two", charts=(_chart([], label),))
    is_latency = glossary.metric_of(metric)[0].unit == "s"
    judged = [split for split in splits if not (is_latency and _is_censored(split))]
    last = (judged or splits)[-1]
    heading = (
        f"At {numbers.rate(last.rate)}, {numbers.ratio(last.total.ratio)} the {label} = "
        f"{numbers.ratio(last.policy.ratio)} from policy · {numbers.ratio(last.engine.ratio)} from the engine"
    )
    if last.total.low is None:
        heading += f" ({headlines.unsure(last.total)})"
    if not judged:
        heading += ", with a side overloaded or cut off"
    note = ""
    if len(judged) < len(splits):
        note = "Marked *: a side was overloaded or cut off: its latency describes the drain limit, not the server."
    return View(heading=heading, charts=(_chart(splits, label),), note=note)


def _is_censored(split: Split) -> bool:
    return any(change.censored for change in (split.total, split.policy, split.engine))


def _chart(splits: Sequence[Split], label: str) -> Chart:
    traces = []
    names = [f"{numbers.rate(s.rate)}{' *' if _is_censored(s) else ''}" for s in splits]
    totals = [split.total for split in splits]
    bounds = [v for t in totals for v in (t.ratio, t.low, t.high) if v]
    stacked = [
        math.prod(r for r in (s.policy.ratio, s.engine.ratio) if (r > 1) == up)
        for s in splits
        for up in (True, False)
    ]
    reach = [*bounds, *stacked, 1 / 1.5, 1.5]
    ticks = theme.log_ticks(reach)
    width = math.log2(max(reach) / min(reach))
    for part, colour in _PARTS:
        parts: list[Change] = [getattr(split, part) for split in splits]
        traces.append(
            go.Bar(
                y=names,
                x=[math.log2(change.ratio) for change in parts],
                name=part,
                orientation="h",
                marker={"color": colour},
                text=[_label(part, change, width) for change in parts],
                textangle=0,
                textposition="inside",
                insidetextanchor="middle",
                textfont={"color": theme.PAPER},
                meta=_meta(splits),
                hovertext=[_hover(part, change) for change in parts],
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    traces.append(_total(names, totals).update(meta=_meta(splits)))
    layout = theme.layout(
        legend=True,
        height_px=150 + 52 * max(1, len(splits)),
        shapes=[theme.no_change("x", 0)],
        barmode="relative",
        bargap=0.35,
        xaxis=theme.axis(
            f"times the {label}",
            tickvals=[math.log2(tick) for tick in ticks],
            ticktext=[numbers.ratio(tick) for tick in ticks],
            range=[math.log2(min(reach) / 1.1), math.log2(max(reach) * 1.1)],
        ),
        yaxis=theme.axis("", autorange="reversed", type="category"),
    )
    figure = drawn.figure(traces, layout)
    return Chart(figure=figure, summary=_summary(splits, label))


def _meta(splits: Sequence[Split]) -> dict[str, object]:
    """Say what the bars of two deployments belong to, for the page's filters."""
    needs = [side for split in splits[:1] for side in (split.total.base, split.total.other)]
    return {"needs": needs, "rates": [split.rate for split in splits]}


def _label(part: str, change: Change, width: float) -> str:
    """Label a bar that is wide enough for it on an axis of `width` doublings."""
    return f"{part} {numbers.ratio(change.ratio)}" if abs(math.log2(change.ratio)) > 0.13 * width else ""


def _total(names: Sequence[str], totals: Sequence[Change]) -> go.Scatter:
    logs = [math.log2(change.ratio) for change in totals]
    return go.Scatter(
        y=list(names),
        x=logs,
        mode="markers",
        name="total",
        marker={
            "color": theme.INK,
            "symbol": "diamond",
            "size": 11,
            "line": {"color": theme.PAPER, "width": 1.5},
        },
        error_x=error_bars(
            [math.log2(c.high) - x if c.high else None for c, x in zip(totals, logs, strict=True)],
            [x - math.log2(c.low) if c.low else None for c, x in zip(totals, logs, strict=True)],
            color=theme.INK,
        ),
        hovertext=[_hover("total", change) for change in totals],
        hovertemplate="%{hovertext}<extra></extra>",
    )


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
