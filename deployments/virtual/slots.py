"""Which request holds which slot of the iteration engine, and the log of it; compiled."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deployments.virtual.compiled import compiled
from deployments.virtual.outcomes import Records

NOTHING = -1
_HELD = np.dtype([("slot", "<i8"), ("holding", "<i8"), ("since", "<i8")])


class Slots(NamedTuple):
    """Which request holds which slot now."""

    held: Records  # by request; `holding` is NOTHING where it holds none
    taken: npt.NDArray[np.bool_]  # by slot


def empty_slots(requests: int, slots: int) -> Slots:
    """Nobody holds any."""
    held = np.zeros(requests, dtype=_HELD)
    held["holding"] = NOTHING
    return Slots(held, np.zeros(slots, dtype=np.bool_))


@compiled
def hold(slots: Slots, stretches: Records, count: int, index: int, holding: int, step: int) -> int:
    """From this step on; a request that has no slot takes one. `count` stretches are there, and are returned."""
    held = slots.held[index]
    if held.holding == holding:
        return count
    if held.holding == NOTHING:
        held.slot = 0
        while slots.taken[held.slot]:
            held.slot += 1
        slots.taken[held.slot] = True
    else:
        count = _close(held, stretches, count, index, step)
    held.holding, held.since = holding, step
    return count


@compiled
def leave(slots: Slots, stretches: Records, count: int, index: int, step: int) -> int:
    """The slot is free from this step on."""
    held = slots.held[index]
    count = _close(held, stretches, count, index, step)
    held.holding = NOTHING
    slots.taken[held.slot] = False
    return count


@compiled
def _close(held: Records, stretches: Records, count: int, index: int, step: int) -> int:
    if step == held.since:
        return count
    one = stretches[count]
    one.slot, one.index, one.holding = held.slot, index, held.holding
    one.first_step, one.end_step = held.since, step
    return count + 1
