"""Who held which slot over the engine's steps: a batch that runs to its longest row beside one that is re-formed."""

from collections.abc import Mapping, Sequence
from html import escape

import plotly.graph_objects as go

from results.findings import Findings, Occupancy
from results.report import amounts, numbers, theme
from results.report.amounts import Cell
from results.report.curve_parts import rate_control
from results.report.panel import Absent, Chart, Mark, Panel, Table, View
from results.report.series import backend_name, series_of

_HEADING = "Who holds a slot"
_HOLDINGS: dict[str, str] = {
    "prefill": "computes a prompt",
    "decode": "makes a token",
    "padding": "a row that is all padding in this step",
    "finished": "done, and kept by its batch",
    "waiting": "holds its slot, and others take the step's tokens",
}
_ROW_PX = 15
_TITLE_PX = 62


def panel(findings: Findings) -> Panel | Absent:
    """One view for each arrival rate, the highest first."""
    if not findings.occupancy:
        reason = "Only a simulated sweep knows which request held which slot."
        return Absent(name="occupancy", heading=_HEADING, reason=reason)
    rates = list(dict.fromkeys(one.rate for one in findings.occupancy))
    keys = {(one.sweep, one.backend, one.setting): one.key for one in series_of(findings)}
    views = {
        str(place): _view([one for one in findings.occupancy if one.rate == rate], rate)
        for place, rate in enumerate(rates)
    }
    return Panel(
        name="occupancy",
        controls=(rate_control(rates),),
        views=views,
        table=_table(findings.occupancy, keys),
        live={
            "views": [view.specification() for view in views.values()],
            "moments": [
                _moments([one for one in findings.occupancy if one.rate == rate], rate, keys)
                for rate in rates
            ],
            "row_px": _ROW_PX,
        },
        notes=(
            "Each row is a slot, each column one forward pass; all strategies get the same requests. "
            + "; ".join(f"{name}: {why}" for name, why in _HOLDINGS.items())
            + ". Empty: nobody. Useful: slot-steps that made an output token ÷ (slots × passes), over "
            f"{_extent(findings.occupancy)}; a prefill pass but the last makes none. Where all keep up, a strategy that gathers full batches "
            "uses its slots better and answers later: compare at a rate that overloads.",
        ),
    )


def _moments(
    shown: Sequence[Occupancy], rate: float, keys: Mapping[tuple[str, str, str], str]
) -> dict[str, object]:
    """Give how many passes are drawn, and of each who is drawn what scripts/occupancy.js says of it."""
    return {
        "steps": max(one.steps for one in shown),
        "keys": [_key(one, keys) for one in shown],
        "names": [f"{one.setting} on {_place(one)}" for one in shown],
        "where": [_place(one) for one in shown],
        "slots": [one.slots for one in shown],
        "shares": [_useful(one) for one in shown],
        "lines": [_line(one) for one in shown],
        "lead": _lead(rate),
        "summary": _summary(rate),
    }


def _key(one: Occupancy, keys: Mapping[tuple[str, str, str], str]) -> str:
    """Give the key of its series, by which it is filtered; "" where the page has none."""
    return keys.get((one.sweep, one.backend, one.setting), "")


def _extent(shown: Sequence[Occupancy]) -> str:
    """Say of what the shares are."""
    cut = [one for one in shown if one.requests < one.planned]
    if not cut:
        return "the whole trial"
    at = ", ".join(dict.fromkeys(numbers.rate(one.rate) for one in cut))
    return f"the whole trial, at {at} over its first {max(one.requests for one in cut):,} requests alone"


def _view(shown: Sequence[Occupancy], rate: float) -> View:
    places: dict[str, list[str]] = {}
    for one in shown:
        places.setdefault(_place(one), []).append(_useful(one))
    said = "; ".join(f"on {place} {', '.join(shares)}" for place, shares in places.items())
    return View(heading=f"{_lead(rate)} {said}", charts=(_chart(shown, rate),))


def _lead(rate: float) -> str:
    return f"At {numbers.rate(rate)} the share of slot-steps that make a token is"


def _summary(rate: float) -> str:
    return f"Slots by forward pass at {numbers.rate(rate)}."


def _useful(one: Occupancy) -> str:
    return f"{_share(one)} with {one.setting}"


def _line(one: Occupancy) -> str:
    return f"{one.setting} on {_place(one)}: {_share(one)} useful."


def _chart(shown: Sequence[Occupancy], rate: float) -> Chart:
    heights = [_ROW_PX * one.slots for one in shown]
    margin = {"l": 56, "r": 12, "t": 34, "b": 74}
    room = sum(heights) + _TITLE_PX * (len(shown) - 1)
    figure = go.Figure()
    whole = room + margin["t"] + margin["b"]
    layout = theme.layout(height_px=whole, legend=True, barmode="overlay", bargap=0.12, annotations=[])
    layout["margin"] = margin
    top = float(room)
    last = max(one.steps for one in shown)
    listed: set[str] = set()
    for place, (one, height) in enumerate(zip(shown, heights, strict=True), start=1):
        suffix = "" if place == 1 else str(place)
        bottom = top - height
        for holding in _HOLDINGS:
            if any(stretch.holding == holding for stretch in one.stretches):
                figure.add_trace(_bars(one, holding, suffix, legend=holding not in listed))
                listed.add(holding)
        layout[f"yaxis{suffix}"] = theme.axis(
            "slot",
            domain=[bottom / room, top / room],
            range=[one.slots - 0.5, -0.5],
            showgrid=False,
            dtick=_every(one.slots),
        )
        layout[f"yaxis{suffix}"]["anchor"] = f"x{suffix}"
        layout[f"xaxis{suffix}"] = theme.axis(
            "forward pass" if place == len(shown) else "",
            range=[0, last],
            anchor=f"y{suffix}",
            showticklabels=True,
        )
        if place > 1:
            layout[f"xaxis{suffix}"]["matches"] = "x"
        layout["annotations"].append(_title(one, top / room))
        top = bottom - _TITLE_PX
    figure.update_layout(layout)
    return Chart(figure=figure, summary=" ".join((_summary(rate), *map(_line, shown))))


def _bars(one: Occupancy, holding: str, suffix: str, *, legend: bool) -> go.Bar:
    stretches = [stretch for stretch in one.stretches if stretch.holding == holding]
    return go.Bar(
        x=[stretch.end_step - stretch.first_step for stretch in stretches],
        base=[stretch.first_step for stretch in stretches],
        y=[stretch.slot for stretch in stretches],
        orientation="h",
        name=holding,
        legendgroup=holding,
        showlegend=legend,
        xaxis=f"x{suffix}",
        yaxis=f"y{suffix}",
        marker={"color": theme.HOLDINGS[holding], "line": {"width": 0.5, "color": theme.PAPER}},
        text=[
            f"request {stretch.request}: <b>{holding}</b>, {_HOLDINGS[holding]}<br>"
            f"passes {stretch.first_step} to {stretch.end_step - 1}"
            for stretch in stretches
        ],
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
    )


def _title(one: Occupancy, top: float) -> dict[str, object]:
    return {
        "text": f"<b>{escape(one.setting)}</b> on {escape(_place(one))}: {_share(one)} useful",
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": top,
        "yref": "paper",
        "yanchor": "bottom",
        "yshift": 3,
        "showarrow": False,
        "align": "left",
    }


def _place(one: Occupancy) -> str:
    return " · ".join(filter(None, (backend_name(one.backend), one.sweep)))


def _every(slots: int) -> int:
    return max(1, slots // 4)


def _share(one: Occupancy) -> str:
    return numbers.NOTHING if one.utilisation is None else f"{100 * one.utilisation:.0f} %"


def _table(shown: Sequence[Occupancy], keys: Mapping[tuple[str, str, str], str]) -> Table:
    """Slot-steps of what is drawn, by what they were spent on."""
    rows: list[tuple[Cell, ...]] = []
    for one in shown:
        spent = {
            holding: sum(s.end_step - s.first_step for s in one.stretches if s.holding == holding)
            for holding in _HOLDINGS
        }
        empty = one.slots * one.steps - sum(spent.values())
        rows.append(
            (
                one.setting,
                _place(one),
                amounts.rate(one.rate),
                amounts.share(one.utilisation),
                *map(amounts.count, (one.steps, *spent.values(), empty)),
            )
        )
    columns = ("strategy", "backend", "rate", "useful", "passes drawn", *_HOLDINGS, "nobody")
    marks = tuple(Mark(series=(_key(one, keys),), rate=one.rate) for one in shown)
    return Table(columns=columns, rows=tuple(rows), marks=marks)
