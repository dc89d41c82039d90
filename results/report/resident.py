"""How many requests continuous batching should keep resident: p95 TTFT and goodput against max_batch_size.

More slots let a request in sooner and slow every step down; where the KV cache does not hold them all, the
engine preempts. Within an SLO is a size with which at least 99 % of the offered requests keep it (results/report/within.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import plotly.graph_objects as go

from results.findings import CellSummary, Findings
from results.goodput import Slo
from results.report import amounts, axes, glossary, headlines, numbers, points, theme
from results.report.amounts import Cell
from results.report.curve_parts import rate_control
from results.report.knobs import Setting, settings_of
from results.report.leaders import lead, said
from results.report.panel import SEPARATOR, Absent, Chart, Choice, Control, Mark, Panel, Table, View
from results.report.series import rates_of, series_of
from results.report.within import SHARE, is_within

_HEADING = "How many requests to keep resident"
_TTFT = "ttft_s_p95"
_THROUGHPUT = "steady_throughput_requests_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The settings of continuous batching on one backend, by size."""

    place: str
    settings: tuple[Setting, ...]

    def cells(self, rate: float) -> list[tuple[Setting, CellSummary]]:
        """Those that ran at a rate."""
        return [(one, cell) for one in self.settings if (cell := one.series.at(rate)) is not None]


def panel(findings: Findings) -> Panel | Absent:
    """One view for each arrival rate, the highest first, and SLO."""
    groups = sizes_of(settings_of(series_of(findings)))
    if not groups:
        reason = "Continuous batching ran with one max_batch_size (its max_num_seqs) on each backend: two are needed."
        return Absent(name="resident", heading=_HEADING, reason=reason)
    rates = list(reversed(rates_of([one.series for group in groups for one in group.settings])))
    slos: tuple[Slo | None, ...] = findings.slos or (None,)
    views = {
        f"{number}{SEPARATOR}{place}": _view(groups, rate, slo)
        for number, rate in enumerate(rates)
        for place, slo in enumerate(slos)
    }
    return Panel(
        name="resident",
        controls=(
            rate_control(rates),
            Control(
                name="within",
                choices=tuple(
                    Choice(value=str(n), label="no SLO in the config" if slo is None else slo.text)
                    for n, slo in enumerate(slos)
                ),
            ),
        ),
        views=views,
        table=_table(groups, findings.slos),
        notes=(
            (
                "max_batch_size is the engine's max_num_seqs: the most requests that share a step. A size is within the SLO "
                f"if at least {SHARE} of the offered requests keep it (mean over repeats). Bars: lowest to highest repeat, from "
                "three on. Hollow: overloaded."
            ),
        ),
    )


def sizes_of(settings: Sequence[Setting]) -> list[Sizes]:
    """Give the backends on which continuous batching ran with two sizes or more, alike but for that."""
    places: dict[tuple[str, str], list[Setting]] = {}
    for one in settings:
        if one.series.strategy == "continuous":
            places.setdefault((one.series.place, one.row), []).append(one)
    return [
        Sizes(place=place, settings=tuple(sorted(group, key=lambda one: one.size)))
        for (place, _), group in places.items()
        if len({one.size for one in group}) > 1
    ]


def largest_within(group: Sizes, rate: float, slo: Slo) -> int | None:
    """Give the largest size with which at least 99 % keep the SLO; None if there is none."""
    kept = [one.size for one, cell in group.cells(rate) if is_within(cell.mean(slo.of("goodput_share")))]
    return max(kept, default=None)


def preemptions(cell: CellSummary) -> float | None:
    """Give the mean over repeats of how many sequences were put off; None if the engine does not say."""
    return cell.mean("kv_preemptions")


def rising(group: Sizes, rate: float) -> tuple[int, float] | None:
    """Give the first size that preempts more than the smallest one, and how often; None without."""
    told = [(one.size, count) for one, cell in group.cells(rate) if (count := preemptions(cell)) is not None]
    return next(((size, count) for size, count in told[1:] if count > told[0][1]), None)


def _view(groups: Sequence[Sizes], rate: float, slo: Slo | None) -> View:
    cautions = [
        f"On {group.place} the engine preempts from {found[0]} requests on ({numbers.number(found[1])} preemptions a "
        "trial): what it put off is computed again, so a size beyond that buys little."
        for group in groups
        if (found := rising(group, rate)) is not None
    ]
    return View(
        heading=_heading(groups[0], rate, slo),
        charts=(_ttft(groups, rate, slo), _goodput(groups, rate, slo)),
        note=" ".join(cautions),
    )


def _heading(group: Sizes, rate: float, slo: Slo | None) -> str:
    where = f"at {numbers.rate(rate)} on {group.place}"
    if slo is None:
        found = lead(group.cells(rate), _TTFT)
        if found is not None:
            return said(found, _TTFT, where, lambda one: f"{one.size} resident")
        known = any(cell.mean(_TTFT) is not None for _, cell in group.cells(rate))
        why = "every size is overloaded or cut off" if known else "no request has finished"
        return f"{_HEADING}: {why} {where}"
    size_within = largest_within(group, rate, slo)
    if size_within is None:
        return f"No max_batch_size keeps {SHARE} of the requests within {slo.text} {where}"
    largest = group.settings[-1].size
    also = ", the largest that was tried" if size_within == largest else ""
    return f"The largest max_batch_size within {slo.text} {where} is {size_within}{also}"


def _ttft(groups: Sequence[Sizes], rate: float, slo: Slo | None) -> Chart:
    values = [v for group in groups for _, cell in group.cells(rate) for v in points.values_of(cell, _TTFT)]
    limit_s = slo.ttft_ms / 1000 if slo is not None and slo.ttft_ms is not None else None
    spanned = values + ([limit_s] if limit_s is not None else [])
    y = (
        axes.log_axis("p95 TTFT (s)", spanned, numbers.duration)
        if spanned and min(spanned) > 0
        else theme.axis("p95 TTFT (s)", rangemode="tozero")
    )
    layout = theme.layout(height_px=330, xaxis=_sizes_axis(groups), yaxis=y)
    if limit_s is not None:
        layout["shapes"] = [theme.no_change("y", limit_s) | {"line": {"color": theme.MUTED, "dash": "dot"}}]
    return _chart(
        groups, rate, _TTFT, layout, title="p95 TTFT" + (", and the SLO's limit" if limit_s else "")
    )


def _goodput(groups: Sequence[Sizes], rate: float, slo: Slo | None) -> Chart:
    name = _THROUGHPUT if slo is None else slo.of("goodput_requests_per_s")
    title = "Requests completed" if slo is None else f"Goodput within {slo.text}"
    y = theme.axis(f"{'requests completed' if slo is None else 'goodput'} (req/s)", rangemode="tozero")
    return _chart(
        groups, rate, name, theme.layout(height_px=330, xaxis=_sizes_axis(groups), yaxis=y), title=title
    )


def _chart(groups: Sequence[Sizes], rate: float, name: str, layout: dict[str, object], title: str) -> Chart:
    traces = []
    said = []
    metric, _ = glossary.metric_of(name)
    for group in groups:
        first = group.settings[0].series
        cells = group.cells(rate)
        means = [cell.mean(name) for _, cell in cells]
        spans = [points.values_of(cell, name) for _, cell in cells]
        looks = [one.series.style.colour for one, _ in cells]
        has = [m is not None and len(s) >= 3 for m, s in zip(means, spans, strict=True)]
        traces.append(
            go.Scatter(
                x=[one.size for one, _ in cells],
                y=means,
                mode="lines+markers",
                name=escape(group.place),
                line={"color": first.style.colour, "dash": first.style.dash, "width": 2},
                marker={
                    "color": looks,
                    "size": 9,
                    "symbol": [
                        points.symbol(one.series, overloaded=c.overloaded, undecided=c.undecided)
                        for one, c in cells
                    ],
                    "line": {"width": 2, "color": looks},
                },
                error_y=points.error_bars(
                    [
                        max(s) - m if h and m is not None else None
                        for h, s, m in zip(has, spans, means, strict=True)
                    ],
                    [
                        m - min(s) if h and m is not None else None
                        for h, s, m in zip(has, spans, means, strict=True)
                    ],
                    color=first.style.colour,
                    thickness=1.2,
                    width=3,
                ),
                meta={"series": [one.series.key for one, _ in cells]},
                text=[points.hover(cell, one.series, name) for one, cell in cells],
                hovertemplate="%{text}<extra></extra>",
            )
        )
        said += [f"{one.size} on {group.place}: {metric.text(cell.mean(name))}" for one, cell in cells]
    heading = f"{headlines.capital(title)} by max_batch_size at {numbers.rate(rate)}"
    summary = f"{title} by max_batch_size at {numbers.rate(rate)}. {'; '.join(said)}."
    return Chart(
        figure=go.Figure(data=traces, layout=layout),
        title=title,
        meaning=metric.said,
        heading=heading,
        summary=summary,
    )


def _sizes_axis(groups: Sequence[Sizes]) -> dict[str, object]:
    sizes = sorted({one.size for group in groups for one in group.settings})
    return theme.axis(
        "max_batch_size = max_num_seqs (requests)",
        type="log",
        range=axes.log_range(sizes, 1.25),
        tickvals=sizes,
        ticktext=[str(size) for size in sizes],
    )


def _table(groups: Sequence[Sizes], slos: Sequence[Slo]) -> Table:
    goodputs = [
        (slo, slo.of(measure)) for slo in slos for measure in ("goodput_share", "goodput_requests_per_s")
    ]
    rows: list[tuple[Cell, ...]] = [
        (
            one.series.setting,
            group.place,
            amounts.count(one.size),
            amounts.rate(cell.rate),
            cell.standing,
            amounts.metric(_TTFT, cell.mean(_TTFT)),
            amounts.metric(_THROUGHPUT, cell.mean(_THROUGHPUT)),
            *(amounts.metric(name, cell.mean(name)) for _, name in goodputs),
            amounts.number(preemptions(cell)),
        )
        for group in groups
        for one in group.settings
        for cell in one.series.cells
    ]
    columns = (
        "strategy",
        "backend",
        "max_batch_size",
        "rate",
        "state",
        "p95 TTFT",
        "requests completed",
        *(glossary.label(name) for _, name in goodputs),
        "preemptions a trial",
    )
    marks = tuple(
        Mark(series=(one.series.key,), rate=cell.rate)
        for group in groups
        for one in group.settings
        for cell in one.series.cells
    )
    return Table(columns=columns, rows=tuple(rows), marks=marks)
