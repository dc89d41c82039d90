"""The figure of memory: the largest padded batch by prompt length, beside the batch sizes of the settings."""

import numpy as np
import plotly.graph_objects as go

from deployments.virtual.hardware import GIB
from experiments.explain.explanation import Explanation
from experiments.explain.memory import PaddedMemory, budget_line, trigger_lines
from results.report import amounts, axes, theme
from results.report.panel import Absent, Chart, Panel, Table, View

_HEADING = "What a padded batch takes of memory"
_SHORTEST, _POINTS = 16, 60  # tokens; of the curve
_OLDEST_END = 8_192  # tokens, where the model's context is not known


def largest_batch(explanation: Explanation) -> Panel | Absent:
    """Rows that fit against prompt length, until the model's context ends."""
    memory = explanation.memory
    if memory is None:
        reason = "Known of an engine that pads on a named GPU: with --hardware."
        return Absent(name="memory", heading=_HEADING, reason=reason)
    rows: tuple[tuple[amounts.Cell, ...], ...] = tuple(
        (
            amounts.count(row.prompt_tokens),
            amounts.size(row.row_bytes),
            amounts.Value(
                text="beyond the model's context" if row.most is None else f"{row.most:,}", number=row.most
            ),
        )
        for row in memory.rows
    )
    return Panel(
        name="memory",
        controls=(),
        views={"": View(heading=_heading(memory), charts=(_chart(memory),))},
        table=Table(columns=("prompt tokens", "a row", "rows that fit"), rows=rows),
        notes=(
            (
                f"{budget_line(memory)} Each row takes (longest prompt + {memory.max_new_tokens:,} new tokens) × "
                f"{memory.budget.bytes_per_token:,} bytes, whatever it comes to generate."
            ),
            *trigger_lines(memory),
        ),
    )


def _heading(memory: PaddedMemory) -> str:
    size = memory.batch_sizes[-1]
    shortest = memory.fires_from(size)
    if shortest is None:
        return f"Memory never ends a batch of {size} of {memory.shape.name} on {memory.hardware.title}"
    return (
        f"On {memory.hardware.title} memory ends a batch of {size} of {memory.shape.name} from prompts of "
        f"{shortest:,} tokens on"
    )


def _chart(memory: PaddedMemory) -> Chart:
    last = memory.longest_in_context_tokens or max(_OLDEST_END, memory.longest_prompt_tokens)
    lengths = sorted({round(float(x)) for x in np.geomspace(_SHORTEST, max(_SHORTEST + 1, last), _POINTS)})
    fits = [memory.budget.rows(tokens, memory.max_new_tokens) for tokens in lengths]
    shown = [(tokens, most) for tokens, most in zip(lengths, fits, strict=True) if most >= 1]
    traces = [
        go.Scatter(
            x=[tokens for tokens, _ in shown],
            y=[most for _, most in shown],
            mode="lines",
            line={"color": theme.TRIGGERS["memory"], "width": 2.5},
            text=[f"prompts of {tokens:,} tokens: {most:,} rows fit" for tokens, most in shown],
            hovertemplate="%{text}<extra></extra>",
            name="rows that fit",
        )
    ]
    traces += [
        go.Scatter(
            x=[lengths[0], lengths[-1]],
            y=[size, size],
            mode="lines",
            line={"color": theme.INK, "width": 1.2, "dash": "dot"},
            hovertemplate=f"max_batch_size {size}<extra></extra>",
            name=f"max_batch_size {size}",
        )
        for size in memory.batch_sizes
    ]
    sizes = [most for _, most in shown] + list(memory.batch_sizes)
    layout = theme.layout(
        height_px=430,
        legend=True,
        xaxis=axes.log_axis("longest prompt of the batch (tokens)", lengths, lambda value: f"{value:,.0f}"),
        yaxis=axes.log_axis("rows that fit", sizes, lambda value: f"{value:,.0f}"),
    )
    layout["margin"] = {**layout["margin"], "b": 96}
    said = "; ".join(f"{tokens:,}: {most:,}" for tokens, most in shown[:: max(1, len(shown) // 6)])
    summary = (
        f"Rows that fit {memory.budget.budget_bytes / GIB:.3g} GiB by the longest prompt in tokens. {said}."
    )
    return Chart(figure=go.Figure(data=traces, layout=layout), summary=summary)
