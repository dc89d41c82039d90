"""Naive batching: wait for N requests, run them, wait for the next N.

With a_i the arrivals and end_j the end of batch j, batch j starts at max(a_{jN}, end_{j−1}): a server
that nobody asks often lets the first of N wait (N−1)/λ seconds for the last.
"""

from collections.abc import Sequence

from strategies.strategy import EngineView, Launch, Wait, Waiting


class Naive:
    """Launch the N oldest when N wait and the engine is idle; after the end of arrivals, what is left.

    N is `max_batch_size`, or the cap where that has fallen below it. The engine is idle when nothing
    runs, also where it could be joined: there the rows of a batch leave early, but the next batch waits.
    """

    def __init__(self, *, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size

    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Launch | Wait:
        """Size before flush; never by time."""
        if engine.running:
            return Wait()
        size = min(self._max_batch_size, engine.cap)
        if len(waiting) >= size:
            return Launch(size, "size")
        if engine.closed and waiting:
            return Launch(len(waiting), "flush")
        return Wait(until_waiting=size)
