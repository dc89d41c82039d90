"""The lane board: one small Ray actor that knows which lane is taken by whom and what is loaded where.

It is asked by trials and outlives them. Lanes follow the places that there are: a place that appears gets a
lane, and the lane of one that is gone is given to nobody any more. A lane that returns is a new one. A spare
place's lane goes when another place appears, but not under the trial that holds it.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from deployments.places import Look, Place, in_use

BOARD = "batchyard-lanes"
NAMESPACE = "batchyard"
LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One lane as the board sees it."""

    index: int
    place: Place
    app: str | None = None  # the Serve application in it
    key: str | None = None  # what that has loaded
    setup: Mapping[str, Any] | None = None
    holder: str | None = None  # the trial that has it now
    condemned: bool = False  # what it had failed a trial, and nothing has been loaded since

    @property
    def name(self) -> str:
        """How rows name the lane."""
        return f"lane-{self.index}"


Doing: TypeAlias = Literal["idle", "preparing", "loading", "measuring", "draining"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """What a lane does now, for whoever watches."""

    name: str
    key: str | None  # what it has loaded
    holder: str | None
    doing: Doing
    for_s: float  # for so long
    state: Mapping[str, Any] | None  # how the trial in it stands, once it sends


class LaneBoard:
    """Which lane is whose. A trial that comes back after a crash gets the lane that it held."""

    def __init__(
        self,
        look: Look,
        most: int | None = None,
        kinds: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """At most so many lanes at a time on the places of `look`, of which each of `kinds` has a share, once it is there.

        `clock`: seconds, for how long a lane does what it does.
        """
        self._look, self._most, self._kinds, self._clock = look, most, kinds, clock
        self._looked_s = -LOOK_EVERY_S
        self._lanes: dict[int, Lane] = {}
        self._doing: dict[int, tuple[Doing, float]] = {}
        self._made = self._loads = 0
        self._orphans: list[str] = []
        self._broken: dict[tuple[int, str], str] = {}  # lane and key → why it can never load there
        self._states: dict[str, Mapping[str, Any]] = {}
        self._taken_s: dict[str, float] = {}  # by trial that has a lane
        self._open = True
        self._refresh()

    def acquire(self, trial: str, key: str, kind: str | None = None) -> Lane | None:
        """A free lane (of this `kind` of GPU), the one with `key` loaded if possible; None if all are taken.

        One on which the key can never load is given only if that is so on all of them.
        """
        self._refresh()
        of_kind = [lane for lane in self._lanes.values() if kind in (None, lane.place.kind)]
        able = [lane for lane in of_kind if (lane.index, key) not in self._broken]
        free = [lane for lane in able or of_kind if lane.holder in (None, trial)]
        if not free:
            return None

        def rank(lane: Lane) -> tuple[bool, bool, bool, bool, int]:
            return lane.holder != trial, lane.key != key, lane.condemned, lane.key is not None, lane.index

        lane = min(free, key=rank)
        self._states.pop(trial, None)  # of an attempt before this one
        self._taken_s[trial] = self._clock()
        self._does(lane.index, "preparing")
        return self._put(replace(lane, holder=trial))

    def places(self) -> list[Place]:
        """Where lanes are now."""
        self._refresh()
        return [lane.place for lane in self._lanes.values()]

    def there(self, index: int) -> bool:
        """Whether the lane's place is still there."""
        self._refresh()
        return index in self._lanes

    def close(self) -> None:
        """The driver is about to take away what the lanes have: trials that lose it have not failed."""
        self._open = False

    def is_open(self) -> bool:
        """Whether a trial that loses what its lane has should say why."""
        return self._open

    def orphans(self) -> list[str]:
        """The applications of lanes that are gone, told once: whoever asks removes them."""
        orphans, self._orphans = self._orphans, []
        return orphans

    def loading(self, index: int) -> Lane | None:
        """The lane is about to load something: what it has is forgotten, a new application name is given.

        None if it is gone.
        """
        if index not in self._lanes:
            return None
        self._loads += 1
        self._does(index, "loading")
        return self._put(replace(self._lanes[index], app=f"lane-{index}-{self._loads}", key=None, setup=None))

    def loaded(self, index: int, key: str, setup: Mapping[str, Any]) -> Lane | None:
        """The lane has `key` loaded; None if it is gone."""
        if index not in self._lanes:
            return None
        self._does(index, "preparing")
        return self._put(replace(self._lanes[index], key=key, setup=setup, condemned=False))

    def condemn(self, index: int) -> None:
        """What the lane has loaded is not to be trusted any more: the next trial loads anew."""
        if index in self._lanes:
            self._put(replace(self._lanes[index], key=None, setup=None, condemned=True))

    def release(self, trial: str) -> None:
        """The trial does not need its lane any more."""
        for lane in list(self._lanes.values()):
            if lane.holder == trial:
                self._put(replace(lane, holder=None))
                self._does(lane.index, "idle")
        self._states.pop(trial, None)
        self._taken_s.pop(trial, None)

    def held(self, trial: str) -> tuple[float, Place] | None:
        """For how many seconds a trial has had its lane, and where that is; None of one that has none, or whose lane is gone."""
        place = next((lane.place for lane in self._lanes.values() if lane.holder == trial), None)
        return None if place is None else (self._clock() - self._taken_s[trial], place)

    def break_key(self, index: int, key: str, why: str) -> bool:
        """Nothing with this key can ever load on the lane: later trials need not try. Whether that is so on all of its kind."""
        self._broken[index, key] = why
        kinds = {lane.place.kind for lane in self._lanes.values() if lane.index == index}
        return all(
            (lane.index, key) in self._broken for lane in self._lanes.values() if lane.place.kind in kinds
        )

    def broken(self, index: int, key: str) -> str | None:
        """Why this key can never load on the lane, if that is known."""
        return self._broken.get((index, key))

    def report(self, trial: str, state: Mapping[str, Any]) -> None:
        """Take note of how a running trial stands; one that has no lane any more is over."""
        for lane in self._lanes.values():
            if lane.holder == trial:
                self._states[trial] = state
                self._does(lane.index, "measuring" if state["sent"] < state["planned"] else "draining")

    def view(self) -> list[LaneView]:
        """What each lane does, and how the trial in it stands."""
        self._refresh()
        now_s = self._clock()
        return [
            LaneView(
                name=lane.name,
                key=lane.key,
                holder=lane.holder,
                doing=(done := self._doing[lane.index])[0],
                for_s=now_s - done[1],
                state=self._states.get(lane.holder or ""),
            )
            for lane in self._lanes.values()
        ]

    def _refresh(self) -> None:
        """Lanes for new places, while there may be more; none for those that are gone."""
        if self._clock() - self._looked_s < LOOK_EVERY_S:
            return
        places = self._look()
        used = in_use(places)
        self._looked_s = self._clock()
        for lane in list(self._lanes.values()):
            if lane.place not in (used if lane.holder is None else places):
                del self._lanes[lane.index], self._doing[lane.index]
                self._orphans += [lane.app] if lane.app is not None else []
        has = {lane.place for lane in self._lanes.values()}
        for place in (place for place in used if place not in has):
            if not self._room(place.kind):
                continue
            self._lanes[self._made] = Lane(index=self._made, place=place)
            self._doing[self._made] = "idle", self._clock()
            self._made += 1

    def _room(self, kind: str) -> bool:
        """Whether there may be one more lane of this kind: of several kinds none takes what another one waits for."""
        if self._most is None:
            return True
        have = Counter(lane.place.kind for lane in self._lanes.values())
        waiting = sum(1 for other in self._kinds if other != kind and not have[other])
        share = math.ceil(self._most / max(1, len(self._kinds)))
        return len(self._lanes) + waiting < self._most and have[kind] < share

    def _does(self, index: int, doing: Doing) -> None:
        if self._doing[index][0] != doing:
            self._doing[index] = doing, self._clock()

    def _put(self, lane: Lane) -> Lane:
        self._lanes[lane.index] = lane
        return lane


def start_board(look: Look, beside: str, most: int | None = None, kinds: Sequence[str] = ()) -> Any:
    """The lane board as a named actor; the handle must be kept as long as it is needed.

    `beside`: a resource that only the driver's node has, so that no other node takes the board with it.
    """
    import ray

    actor = ray.remote(num_cpus=0)(LaneBoard)
    options = actor.options(name=BOARD, namespace=NAMESPACE, resources={beside: LEAST_SHARE})
    return options.remote(look, most, kinds)


LEAST_SHARE = 0.001  # of a resource that says where something is to be, and does not run out


def board() -> Any:
    """The handle of the lane board of this Ray. ValueError if it has none."""
    import ray

    return ray.get_actor(BOARD, namespace=NAMESPACE)
