"""How long a lane is held, for what it costs: from when it was given to whoever asks."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deployments.lane_board import Lane
from deployments.places import Place
from results.records import LaneTime

ANSWER_S = 5.0


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
        return LaneTime(held_s=0.0) if self.lane is None else _at(self.lane.place, clock() - self.since_s)


def held_by(lanes: Any, trial: str) -> LaneTime | None:
    """How long a trial that could not say it has had its lane, by the board; None if it has none, or the board is gone."""
    import ray

    with contextlib.suppress(Exception):  # it is not worth the sweep
        found: tuple[float, Place] | None = ray.get(lanes.held.remote(trial), timeout=ANSWER_S)
        return None if found is None else _at(found[1], found[0])
    return None


def _at(place: Place, held_s: float) -> LaneTime:
    return LaneTime(held_s=held_s, gpus=max(1, place.gpus), kind=place.kind)
