"""Continuous batching: release every request at once; the engine re-forms its batch at each step.

Also called in-flight or iteration-level batching (Orca, OSDI 2022). The slots, `max_batch_size` of them,
are the engine's, and so is the waiting list in front of them. A KV budget is no use here: such an engine keeps
its own cache, admits what it holds, and does not pad.
"""

from collections.abc import Sequence

from strategies.strategy import EngineView, Launch, Wait, Waiting

JOIN_ONE = Launch(1, "join")


class Continuous:
    """Join whatever waits to what runs. It needs an engine that can be joined."""

    def __init__(self, *, max_batch_size: int) -> None:
        """`max_batch_size` sets the engine's slots: the queue has no use for it."""

    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Launch | Wait:
        """Join at once; the slots are no business of the queue."""
        assert engine.joinable, "continuous batching needs an engine that can be joined"
        if len(waiting) == 1:  # as a rule
            return JOIN_ONE
        return Launch(len(waiting), "join") if waiting else Wait(until_waiting=1)
