"""The decoding sequences by the tick at which they end, compiled: a heap that knows where in it each one is.

An entry is the tick and the index of the sequence in one number, so that the least is the first to end.
"""

import numpy as np
import numpy.typing as npt

from deployments.virtual.compiled import compiled

Entries = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64]
ABSENT = -1
INDEX_BITS = 24  # of an entry; the other 39 are the tick
MOST_SEQUENCES = 1 << INDEX_BITS
INDEX_MASK = MOST_SEQUENCES - 1


@compiled
def push(ends: Entries, places: Places, count: int, tick: int, index: int) -> None:
    """Add one to a heap of `count`."""
    ends[count] = (tick << INDEX_BITS) | index
    _rise(ends, places, count)


@compiled
def pop(ends: Entries, places: Places, count: int, index: int) -> None:
    """Remove a sequence from a heap of `count`."""
    place, last = places[index], count - 1
    places[index] = ABSENT
    if place != last:
        ends[place] = ends[last]
        _rise(ends, places, place)
        _sink(ends, places, last, places[ends[place] & INDEX_MASK])


@compiled
def delay(ends: Entries, places: Places, count: int, index: int) -> None:
    """A sequence ends one tick later."""
    place = places[index]
    ends[place] += 1 << INDEX_BITS
    _sink(ends, places, count, place)


@compiled
def _rise(ends: Entries, places: Places, place: int) -> None:
    one = ends[place]
    while place > 0:
        parent = (place - 1) >> 1
        if ends[parent] <= one:
            break
        ends[place] = ends[parent]
        places[ends[place] & INDEX_MASK] = place
        place = parent
    ends[place] = one
    places[one & INDEX_MASK] = place


@compiled
def _sink(ends: Entries, places: Places, count: int, place: int) -> None:
    one = ends[place]
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and ends[child + 1] < ends[child]:
            child += 1
        if one <= ends[child]:
            break
        ends[place] = ends[child]
        places[ends[place] & INDEX_MASK] = place
        place = child
    ends[place] = one
    places[one & INDEX_MASK] = place
