"""Who goes first when more requests wait than a batch holds.

    fifo      the oldest
    length    the oldest, then those nearest to it in prompt length: less padding in a padded batch
    priority  the lowest class (0 before 1, as in vLLM), strictly: a higher class may starve
    deadline  the earliest TTFT deadline (EDF); those that have passed last, those without one just before

Equal keys go by age. A request is skipped when a younger one is launched while it waits. With `length` none is
skipped more than `max_skips` times: those that were skipped so often go first, oldest first, and where
there are more of them than a batch holds, it holds nothing else.
"""

from collections.abc import Sequence
from heapq import nsmallest
from typing import Literal, TypeAlias

from strategies.strategy import Waiting

Order: TypeAlias = Literal["fifo", "length", "priority", "deadline"]

DEFAULT_MAX_SKIPS = 10


def first(
    order: Order, queue: Sequence[Waiting], most: int, *, now_s: float, max_skips: int = DEFAULT_MAX_SKIPS
) -> list[int]:
    """Positions in the queue (oldest first) of the `most` that go next, or of all; O(n log most).

    `queue` is indexed: a list or tuple, not a deque.
    """
    if order == "fifo":
        return list(range(min(most, len(queue))))
    if order == "length":
        return _nearest(queue, most, max_skips)
    if order == "priority":
        return nsmallest(most, range(len(queue)), key=lambda place: (queue[place].priority, place))

    def urgency(place: int) -> tuple[bool, float, int]:
        deadline_s = queue[place].ttft_deadline_s
        return deadline_s <= now_s, deadline_s, place

    return nsmallest(most, range(len(queue)), key=urgency)


def expired(queue: Sequence[Waiting], now_s: float) -> tuple[int, ...]:
    """Positions whose deadline has passed: a first token would be late, however soon."""
    return tuple(place for place, request in enumerate(queue) if request.ttft_deadline_s <= now_s)


def _nearest(queue: Sequence[Waiting], most: int, max_skips: int) -> list[int]:
    due = [place for place, request in enumerate(queue) if request.skips >= max_skips]
    if len(due) >= most or not queue:
        return due[:most]
    oldest = queue[0].prompt_tokens
    others = (place for place, request in enumerate(queue) if request.skips < max_skips)
    return due + nsmallest(
        most - len(due), others, key=lambda place: (abs(queue[place].prompt_tokens - oldest), place)
    )
