"""A trace played again: its rows in their order, at the rate that is asked for.

Time is stretched by one factor for all gaps, so that the mean rate of the n rows, (n − 1) ÷ (last − first), is
the asked one: bursts and lulls keep their shape, their place and their row. Laid out at unit rate the trace is
a ring of circumference n (the gap from the last row to the first is the mean gap), of which a period of
`rate · duration_s` < n shows a part.

Repeat 0 begins with the first row. Each other repeat begins at a moment of the ring that its seed picks without
regard to the rows, so that the expected number of arrivals is exactly `rate · duration_s` (as in
arrivals.py) and repeats are different stretches of the trace: were they the same one, an interval over
repeats would say nothing of how much depends on the traffic. No row comes twice: after n the trace is over.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from workloads import lengths
from workloads.arrivals import Times
from workloads.lengths import LengthLaw
from workloads.trace import Trace, Whole

NS_PER_S = 1e9


def recorded_rate(trace: Trace) -> float:
    """Requests/s as recorded, (n − 1) ÷ (last − first). The trace must span some time."""
    return (len(trace) - 1) * NS_PER_S / float(trace.arrival_ns[-1] - trace.arrival_ns[0])


def replay(trace: Trace, *, rate: float, duration_s: float, begin: float) -> tuple[Times, NDArray[np.intp]]:
    """Planned arrivals in seconds, in [0, duration_s), and the row of each.

    `begin`: where on the ring the period begins, in 0..1; 0 is the first row.
    """
    count = len(trace)
    since_first = (trace.arrival_ns - trace.arrival_ns[0]).astype(np.float64)
    unit = since_first * (count - 1) / since_first[-1] - begin * count
    first = int(np.searchsorted(unit, 0.0))
    times = np.concatenate([unit[first:], unit[:first] + count]) / rate
    shown = int(np.searchsorted(times, duration_s))
    return times[:shown], np.roll(np.arange(count), -first)[:shown]


@lru_cache(maxsize=16)
def capped(trace: Trace, prompt_tokens: int | None, output_tokens: int | None) -> Trace:
    """The same trace with longer prompts and outputs cut to these many tokens."""
    return replace(
        trace,
        prompt_tokens=_cut(trace.prompt_tokens, prompt_tokens),
        output_tokens=_cut(trace.output_tokens, output_tokens),
    )


@lru_cache(maxsize=16)
def laws(trace: Trace) -> tuple[LengthLaw, LengthLaw]:
    """The laws of its prompt and output lengths, for what needs a mean or draws without regard to time."""
    return _law(trace.prompt_tokens), _law(trace.output_tokens)


def _cut(tokens: Whole, cap: int | None) -> Whole:
    return tokens if cap is None else np.minimum(tokens, cap)


def _law(tokens: Whole) -> LengthLaw:
    values, counts = np.unique(tokens, return_counts=True)
    return lengths.empirical(values=values.tolist(), weights=counts.tolist())
