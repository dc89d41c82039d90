"""Figures of one engine: tokens/s and step time by batch size, and how useful a lockstep batch is."""

from collections.abc import Callable, Sequence
from html import escape

import plotly.graph_objects as go

from experiments.explain.explanation import Explanation, Step
from results.report import amounts, numbers, series_style, theme
from results.report.panel import Chart, Choice, Control, Panel, Table, View
from results.report.series import backend_name

HEIGHT_PX = 430
COLOURS = (theme.POLICY, theme.ENGINE)


def steps(explanation: Explanation) -> Panel:
    """Decoding by batch size, a line for each basis of step times."""
    lines = {
        ", ".join(map(backend_name, backends)): explanation.steps(backends[0])
        for backends in explanation.backends_by_basis.values()
    }
    name, first = next(iter(lines.items()))
    heading = (
        f"{first[-1].batch} sequences make {numbers.ratio(first[-1].gain)} the tokens/s of one in "
        f"{numbers.ratio(first[-1].step_s / first[0].step_s)} its step time on {name}"
    )
    tokens = _chart(lines, "decoded tokens/s", lambda step: step.tokens_per_s, "tokens/s")
    times = _chart(lines, "step time (ms)", lambda step: 1e3 * step.step_s, "ms")
    rows: tuple[tuple[amounts.Cell, ...], ...] = tuple(
        (
            backends,
            amounts.count(step.batch),
            amounts.duration(step.step_s),
            amounts.number(step.tokens_per_s, "tokens/s"),
            amounts.ratio(step.gain),
        )
        for backends, line in lines.items()
        for step in line
    )
    context = numbers.number(explanation.work.context_tokens)
    choices = (Choice(value="tokens", label="tokens/s"), Choice(value="step", label="step time (ms)"))
    return Panel(
        name="steps",
        controls=(Control(name="show", choices=choices),),
        views={
            "tokens": View(heading=heading, charts=(tokens,)),
            "step": View(heading=heading, charts=(times,)),
        },
        table=Table(columns=("backend", "batch", "step", "tokens/s", "of one"), rows=rows),
        notes=(
            f"Decoding alone, each sequence with {context} tokens of context: the mean of a slot over its time.",
        ),
    )


def efficiency(explanation: Explanation) -> Panel:
    """The useful share of a lockstep batch by its size."""
    caps = [one.setting.max_batch_size for one in explanation.theories if one.setting.lockstep_bound]
    cap = max(caps, default=explanation.batches[-1])
    shares = [100 * explanation.efficiency(batch) for batch in explanation.batches]
    texts = [f"{share:.1f} %" for share in shares]
    rows: tuple[tuple[amounts.Cell, ...], ...] = tuple(
        (amounts.count(batch), amounts.Value(text=text, number=share / 100, unit="ratio"))
        for batch, text, share in zip(explanation.batches, texts, shares, strict=True)
    )
    layout = theme.layout(
        height_px=HEIGHT_PX,
        xaxis=_batch_axis(explanation.batches),
        yaxis=theme.axis("useful decode steps (%)", range=[0, 105]),
    )
    trace = _line("useful", explanation.batches, shares, texts, colour=theme.ENGINE, dash="solid")
    said = "; ".join(f"{batch}: {share}" for batch, share in rows)
    chart = Chart(
        figure=go.Figure(data=[trace], layout=layout),
        summary=f"Useful share of a lockstep batch's decoding by its size. {said}.",
    )
    heading = (
        f"A lockstep batch of {cap} is useful for {100 * explanation.efficiency(cap):.0f} % of its decoding"
    )
    return Panel(
        name="efficiency",
        controls=(Control(name="show", choices=(Choice(value="share", label="useful share (%)"),)),),
        views={"share": View(heading=heading, charts=(chart,))},
        table=Table(columns=("batch", "useful share"), rows=rows),
        notes=(
            "E[o] ÷ E[max o of B] for the output lengths of the workload: a batch runs to its longest row.",
        ),
    )


def _chart(
    lines: dict[str, tuple[Step, ...]], title: str, value: Callable[[Step], float], unit: str
) -> Chart:
    batches = [step.batch for step in next(iter(lines.values()))]
    traces = []
    for place, (name, line) in enumerate(lines.items()):
        values = [value(step) for step in line]
        texts = [f"{numbers.number(one)} {unit}" for one in values]
        dash = series_style.style("", name).dash if len(lines) > 1 else "solid"
        traces.append(_line(name, batches, values, texts, colour=COLOURS[place % 2], dash=dash))
    layout = theme.layout(
        height_px=HEIGHT_PX,
        legend=len(traces) > 1,
        xaxis=_batch_axis(batches),
        yaxis=theme.axis(title, rangemode="tozero"),
    )
    said = " ".join(
        f"{name}: {numbers.number(value(line[0]))} with 1, {numbers.number(value(line[-1]))} with {line[-1].batch}."
        for name, line in lines.items()
    )
    return Chart(figure=go.Figure(data=traces, layout=layout), summary=f"{title} by batch size. {said}")


def _line(
    name: str,
    batches: Sequence[int],
    values: Sequence[float],
    texts: Sequence[str],
    *,
    colour: str,
    dash: str,
) -> go.Scatter:
    return go.Scatter(
        x=list(batches),
        y=list(values),
        mode="lines+markers",
        name=escape(name),
        line={"color": colour, "dash": dash, "width": 2},
        marker={"color": colour, "size": 7},
        text=[
            f"{escape(name)}<br>batch of {batch}: <b>{text}</b>"
            for batch, text in zip(batches, texts, strict=True)
        ],
        hoverinfo="text",
    )


def _batch_axis(batches: Sequence[int]) -> dict[str, object]:
    return theme.axis("batch size", type="log", tickvals=list(batches), ticktext=[str(b) for b in batches])
