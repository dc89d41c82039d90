"""The axes of figures: arrival rates, and values on a logarithmic scale with ticks as a reader reads them."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from results.report import numbers, theme

_APART = 0.045  # of an axis, from one tick of a rate to the next


def rate_axis(rates: Sequence[float]) -> dict[str, object]:
    """Give the axis of arrival rates: their own values as ticks, logarithmic where they span much."""
    low, high = min(rates), max(rates)
    wide = low > 0 and high / low > 6
    # or what is drawn beside a lone rate, to tell neighbours apart, would fill the axis
    room = max(0.08 * (high - low), 0.12 * high)
    position = np.log(rates) if wide else np.asarray(rates)
    ticks = [rate for rate, kept in zip(rates, _apart(position), strict=True) if kept]
    settings: dict[str, object] = {
        "tickvals": ticks,
        "ticktext": [numbers.number(tick) for tick in ticks],
        "type": "log" if wide else "linear",
        "autorange": False,
        "range": log_range(rates, 1.25) if wide else [low - room, high + room],
    }
    return theme.axis("arrival rate (req/s)", **settings)


def log_axis(title: str, values: Sequence[float], text: Callable[[float], str]) -> dict[str, object]:
    """Give a logarithmic axis with ticks as `text` says."""
    ticks = theme.log_ticks(values)
    return theme.axis(
        title,
        type="log",
        range=log_range(values, 1.3),
        tickvals=ticks,
        ticktext=[text(tick) for tick in ticks],
    )


def log_range(values: Sequence[float], pad: float) -> list[float]:
    """Give the range of a logarithmic axis that reaches `pad` times beyond the values."""
    return [math.log10(min(values) / pad), math.log10(max(values) * pad)]


def _apart(positions: npt.NDArray[np.float64]) -> list[bool]:
    """Which of the positions on an axis get a tick: those at least a share of its length from the last that did."""
    least = _APART * (positions.max() - positions.min())
    kept, last = [False] * len(positions), -math.inf
    for index in np.argsort(positions, kind="stable"):
        if positions[index] - last >= least:
            kept[index], last = True, positions[index]
    return kept
