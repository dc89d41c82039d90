"""How long a lane is held, for what it costs: from when it was given to whoever asks."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from deployments.lane_board import Lane
from results.records import LaneTime


@dataclass(slots=True)
class Held:
    """Of one attempt; it has no lane at first."""

    lane: Lane | None = None
    since_s: float = 0.0

    def take(self, lane: Lane, clock: Callable[[], float] = time.monotonic) -> Lane:
        """It has one from now on."""
        self.lane, self.since_s = lane, clock()
        return lane

    def lane_time(self, clock: Callable[[], float] = time.monotonic) -> LaneTime:
        """So far; 0 s without a lane."""
        if self.lane is None:
            return LaneTime(held_s=0.0)
        place = self.lane.place
        return LaneTime(held_s=clock() - self.since_s, gpus=max(1, place.gpus), kind=place.kind)
