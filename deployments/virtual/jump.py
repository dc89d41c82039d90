"""A jump over decode steps is cut short, compiled: by what joins, or by the end of everything."""

import math

from deployments.virtual.compiled import compiled
from deployments.virtual.iteration_memory import Memory
from deployments.virtual.step_times import decode_s


@compiled
def cut(m: Memory, now_s: float) -> None:
    """End the jump with the first step that ends at `now_s` or later."""
    s = m.state[0]
    steps = max(1, math.ceil((now_s - s.start_s) / decode_s(m.costs, s.decodes, s.context, 1)))
    if steps > 1 and end_of(m, steps - 1) >= now_s:  # steps grow
        steps = 1 + _ended_before(m, steps - 1, now_s)
    while steps < s.steps and end_of(m, steps) < now_s:
        steps += 1  # rounding
    if steps < s.steps:
        s.steps, s.end_s = steps, end_of(m, steps)


@compiled
def whole_steps(m: Memory, now_s: float) -> int:
    """How many steps of the jump have ended by then; the last one has not."""
    low, high = 0, m.state[0].steps - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if end_of(m, middle) <= now_s:
            low = middle
        else:
            high = middle - 1
    return low


@compiled
def end_of(m: Memory, steps: int) -> float:
    """When so many steps of the jump have ended."""
    s = m.state[0]
    end_s: float = s.start_s + decode_s(m.costs, s.decodes, s.context, steps)
    return end_s


@compiled
def _ended_before(m: Memory, most: int, now_s: float) -> int:
    """How many of so many steps end before then."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) >> 1
        if end_of(m, middle) < now_s:
            low = middle
        else:
            high = middle - 1
    return low
