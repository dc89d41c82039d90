"""Dynamic batching: launch a full batch at once, and a partial one when its oldest request has waited.

Others call the wait `max_queue_delay_microseconds` (Triton) or `batch_timeout_micros` (TensorFlow
Serving). Servers differ in where its clock starts, and it changes the numbers. With a_1 the oldest
waiting, a_cap the one that fills the batch, `end` the end of the batch before and w the wait:

    timer arrival:  start = max(end, min(a_1 + w, a_cap))
    timer idle:     start = max(end, min(max(a_1, end) + w, a_cap))
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import Field

from strategies.knobs import Knobs
from strategies.strategy import EngineView, Launch, Wait, Waiting

Timer: TypeAlias = Literal["arrival", "idle"]


class DynamicKnobs(Knobs):
    """How long a batch may be waited for."""

    max_wait_ms: float = Field(ge=0)
    """How long the oldest request waits for a full batch, in milliseconds; 0 takes what waits now."""
    timer: Timer = "arrival"
    """From when that counts: since the request arrived, or since it arrived and the engine was idle."""

    def label_parts(self) -> list[str]:
        """The timer is named where it is not the default."""
        parts = [*super().label_parts(), f"{self.max_wait_ms:.12g} ms"]
        return parts if self.timer == "arrival" else [*parts, self.timer]


class Dynamic:
    """On an idle engine launch by size (`max_batch_size` or the cap wait), else by age of the oldest.

    `timer="arrival"`: the oldest has waited `max_wait_ms` since it arrived, time behind a running batch
    included. `timer="idle"`: since it arrived and the engine was idle. The end of arrivals needs no rule
    of its own: the age trigger launches what is left.
    """

    def __init__(self, *, max_batch_size: int, max_wait_ms: float, timer: Timer = "arrival") -> None:
        self._max_batch_size = max_batch_size
        self._max_wait_s = max_wait_ms / 1000
        self._timer = timer

    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Launch | Wait:
        """Size before age."""
        if engine.running:
            return Wait()
        size = min(self._max_batch_size, engine.cap)
        if len(waiting) >= size:
            return Launch(size, "size")
        if not waiting:
            return Wait(until_waiting=1)
        due_s = self._clock_start_s(waiting[0], engine) + self._max_wait_s
        if now_s >= due_s:
            return Launch(len(waiting), "age")
        return Wait(until_s=due_s, until_waiting=size)

    def _clock_start_s(self, oldest: Waiting, engine: EngineView) -> float:
        if self._timer == "idle":
            return max(oldest.arrived_s, engine.idle_since_s)
        return oldest.arrived_s
