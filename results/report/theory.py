"""Theory drawn thin over what was measured, in the colours of the settings; the legend switches it off."""

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from results.findings import Guide
from results.report import numbers
from results.report.glossary import Metric
from results.report.series import Series

KEY = "theory"  # of the legend's button, and in the `meta` of every such line
NOTE = (
    "Thin lines: theory. Throughput is what is offered until the capacity μ, where a line drops to the axis; latency "
    "is what M/M/1 would wait, with the gathering of a batch and its service: a rough guide."
)
_OPACITY = 0.75


def lines(
    series: Sequence[Series], guides: Sequence[Guide], metric: Metric, name: str, *, width: float = 1
) -> list[go.Scatter]:
    """Give a line for each series that a guide says something about."""
    by_setting = {(guide.sweep, guide.backend, guide.setting): guide for guide in guides}
    found = []
    for one in series:
        guide = by_setting.get((one.sweep, one.backend, one.setting))
        points = guide.lines.get(name.removeprefix("steady_"), ()) if guide is not None else ()
        if guide is None or not points:
            continue
        found.append(_line(one, points, width, [hover(one, guide, metric, *point) for point in points]))
        if "throughput" in metric.key and points[0][0] < guide.capacity < points[-1][0]:
            found.append(_line(one, ((guide.capacity, 0.0), (guide.capacity, points[-1][1])), width, None))
    return found


def note(guides: Sequence[Guide]) -> str:
    """Say what thin lines are, and on which step times those of each backend rest."""
    bases = {" · ".join(filter(None, (guide.backend, guide.sweep))): guide.basis for guide in guides}
    return " ".join((NOTE, *(f"Step times of {backend}: {basis}." for backend, basis in bases.items())))


def hover(one: Series, guide: Guide, metric: Metric, rate: float, value: float) -> str:
    """Say what one point is, escaped: Plotly reads hover text as HTML."""
    return "<br>".join(
        (
            f"theory: <b>{escape(one.setting)}</b> on {escape(one.place)}",
            f"{numbers.rate(rate)}: <b>{metric.text(value)}</b>",
            f"capacity μ: {numbers.rate(guide.capacity)}, ρ = {numbers.number(rate / guide.capacity)}",
        )
    )


def _line(
    one: Series, points: Sequence[tuple[float, float]], width: float, texts: Sequence[str] | None
) -> go.Scatter:
    dash = "dot" if texts is None else one.style.dash
    return go.Scatter(
        x=[rate for rate, _ in points],
        y=[value for _, value in points],
        mode="lines",
        name=f"theory: {escape(one.name)}",
        meta={"series": one.key, KEY: True},
        line={"color": one.style.colour, "dash": dash, "width": width},
        opacity=_OPACITY,
        text=texts,
        hoverinfo="skip" if texts is None else "text",
    )
