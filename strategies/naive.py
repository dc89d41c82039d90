"""Naive batching: wait for N requests, run them, wait for the next N.

With a_i the arrivals and end_j the end of batch j, batch j starts at max(a_{jN}, end_{j−1}): a server
that nobody asks often lets the first of N wait (N−1)/λ seconds for the last. Where the memory of a padded
batch holds fewer than N, it waits for as many as fit.
"""

from collections.abc import Sequence
from itertools import islice

from strategies.kv_budget import KVBudget
from strategies.strategy import EngineView, Launch, Wait, Waiting


class Naive:
    """Launch the N oldest when N wait and the engine is idle; after the end of arrivals, what is left.

    N is `max_batch_size`, or the cap where that has fallen below it; with a KV budget at most what fits. The
    engine is idle when nothing runs, also where it could be joined: there the rows of a batch leave early, but
    the next batch waits.
    """

    def __init__(self, *, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size

    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Launch | Wait:
        """Size before memory before flush; never by time."""
        if engine.running:
            return Wait()
        size = min(self._max_batch_size, engine.cap)
        until_waiting = size
        if engine.kv is not None:
            if (launch := _fitting(waiting, size, engine.kv)) is not None:
                return launch
            until_waiting = len(waiting) + 1  # the next one may be long
        elif len(waiting) >= size:
            return Launch(size, "size")
        if engine.closed and waiting:
            return Launch(len(waiting), "flush")
        return Wait(until_waiting=until_waiting)


def _fitting(waiting: Sequence[Waiting], size: int, kv: KVBudget) -> Launch | None:
    fit = kv.fit(islice(waiting, size))
    if fit.taken == size:
        return Launch(size, "size")
    return Launch(fit.taken, "memory") if waiting and fit.full else None
