"""Continuous batching: release every request at once; the engine re-forms its batch at each step.

Also called in-flight or iteration-level batching (Orca, OSDI 2022). The slots, `max_batch_size` of them,
are the engine's, and so is the waiting list in front of them.
"""

from collections.abc import Sequence

from strategies.strategy import EngineView, Launch, Wait, Waiting


class Continuous:
    """Join whatever waits to what runs. It needs an engine that can be joined.

    While the cap is below `max_batch_size`, because the engine ran out of memory, no more than the cap
    are in the engine, its own waiting list included: else a batch that failed would come back as it was.
    """

    def __init__(self, *, max_batch_size: int) -> None:
        self._max_batch_size = max_batch_size

    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Launch | Wait:
        """Join at once, as far as a fallen cap leaves room."""
        assert engine.joinable, "continuous batching needs an engine that can be joined"
        if not waiting:
            return Wait(until_waiting=1)
        if engine.cap >= self._max_batch_size:
            return Launch(len(waiting), "join")
        room = engine.cap - engine.running
        return Launch(min(room, len(waiting)), "join") if room > 0 else Wait()
