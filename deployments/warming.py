"""Warm-up of a loaded engine: one batch after another until its steps take as long as those before.

What is slow only at first (pages that are touched, kernels that are compiled or tuned, clocks that rise) is
over then. The step time of a batch is the median gap between its tokens, or its length where no request has
two tokens.
"""

import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deployments.backends.backend import Output

AGREE = 0.05  # settled: the step times of two batches in a row differ by no more than this share
LIMIT_S = 30.0  # no batch begins later than that


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """How a load was warmed up."""

    took_s: float
    batches: int
    settled: bool
    step_s: float  # of the last batch


async def warm_up(
    run: Callable[[int], Awaitable[Sequence[Output]]],
    *,
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
) -> WarmUp:
    """Run batch 0, 1, … (`run` is given the number) until two in a row agree; at least 2 unless time is up."""
    begun_s = clock()
    steps_s: list[float] = []
    while not (settled := _agree(steps_s[-2:])) and (not steps_s or clock() - begun_s < limit_s):
        batch_s = clock()
        outputs = await run(len(steps_s))
        gaps = [float(gap) for output in outputs for gap in np.diff(output.token_s)]
        steps_s.append(statistics.median(gaps) if gaps else clock() - batch_s)
    return WarmUp(took_s=clock() - begun_s, batches=len(steps_s), settled=settled, step_s=steps_s[-1])


def _agree(steps_s: Sequence[float]) -> bool:
    return len(steps_s) == 2 and abs(steps_s[0] - steps_s[1]) <= AGREE * max(steps_s)
