"""Which blocks of the KV cache decode steps will take, compiled.

`due` counts the decoding sequences by the residue of the clock at which they need their next block.
"""

import numpy as np
import numpy.typing as npt

from deployments.virtual.compiled import compiled

Counts = npt.NDArray[np.int64]


@compiled
def blocks_over(due: Counts, sequences: int, clock: int, steps: int) -> int:
    """Blocks that so many decode steps from this clock on take."""
    period = len(due)
    rounds, rest = steps // period, steps % period
    blocks = rounds * sequences
    for step in range(rest):
        blocks += due[(clock + step) % period]
    return blocks


@compiled
def steps_with(due: Counts, sequences: int, free: int, clock: int, steps: int) -> int:
    """How many of so many steps from this clock on can be taken with that many free blocks."""
    period = len(due)
    if free >= sequences * (steps // period + 1) or blocks_over(due, sequences, clock, steps) <= free:
        return steps
    left, taken = free % sequences, free // sequences * period
    for step in range(period):
        left -= due[(clock + step) % period]
        if left < 0:
            break
        taken += 1
    return taken
