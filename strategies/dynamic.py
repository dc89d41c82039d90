"""Dynamic batching: launch a full batch at once, and a partial one when its oldest request has waited.

Others call the wait `max_queue_delay_microseconds` (Triton) or `batch_timeout_micros` (TensorFlow
Serving). Servers differ in where its clock starts, and it changes the numbers. With a_1 the oldest
waiting, a_cap the one that fills the batch, `end` the end of the batch before and w the wait:

    timer arrival:  start = max(end, min(a_1 + w, a_cap))
    timer idle:     start = max(end, min(max(a_1, end) + w, a_cap))

Where padding costs memory (strategies/kv_budget.py) a batch is also full when one more row would not fit.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, Self, TypeAlias

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from strategies.knobs import Knobs
from strategies.order import DEFAULT_MAX_SKIPS, Order, expired, first
from strategies.strategy import EngineView, Launch, Reject, Wait, Waiting

Timer: TypeAlias = Literal["arrival", "idle"]
OnExpired: TypeAlias = Literal["serve", "reject"]

EXPIRED = "its TTFT target had passed before it could be launched"
BELONGS = {"max_skips": "length", "on_expired": "deadline"}  # knob → the order that has a use for it


class DynamicKnobs(Knobs):
    """How long a batch may be waited for, and who is in it."""

    max_wait_ms: float = Field(ge=0)
    """How long the oldest request waits for a full batch, in milliseconds; 0 takes what waits now."""
    timer: Timer = "arrival"
    """From when that counts: since the request arrived, or since it arrived and the engine was idle."""
    order: Order = "fifo"
    """Who goes first where more wait than fit: the oldest; the oldest and those of about its prompt length; the lowest priority; the earliest TTFT deadline."""
    max_skips: int = Field(default=DEFAULT_MAX_SKIPS, ge=0)
    """Of `order: length`: how often at most a younger request is launched while one waits; 0 is fifo."""
    on_expired: OnExpired = "serve"
    """Of `order: deadline`: whether a request whose TTFT target has passed is served last, or rejected when a batch is formed."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        for knob, order in BELONGS.items():
            if knob in self.model_fields_set and self.order != order:
                raise ValueError(f"{knob} belongs to order: {order}, got order: {self.order}")
        return self

    @model_serializer(mode="wrap")
    def _as_it_matters(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what has no effect, so that what is written can be read, and ids of cells stay."""
        values: dict[str, Any] = write(self)
        unused = [knob for knob, order in BELONGS.items() if self.order != order]
        for key in [*unused, *(["order"] if self.order == "fifo" else [])]:
            del values[key]
        return values

    def label_parts(self) -> list[str]:
        """What is not the default is named."""
        parts = [*super().label_parts(), f"{self.max_wait_ms:.12g} ms"]
        parts += [self.timer] if self.timer != "arrival" else []
        parts += [self.order] if self.order != "fifo" else []
        parts += [_skips(self.max_skips)] if self.max_skips != DEFAULT_MAX_SKIPS else []
        return parts if self.on_expired == "serve" else [*parts, self.on_expired]


class Dynamic:
    """On an idle engine launch by size (`max_batch_size` or the cap wait), by memory, else by age of the oldest.

    `timer="arrival"`: the oldest has waited `max_wait_ms` since it arrived, time behind a running batch
    included. `timer="idle"`: since it arrived and the engine was idle. The end of arrivals needs no rule
    of its own: the age trigger launches what is left. By memory: one more row would exceed the KV budget.
    `order` (strategies/order.py) says who is launched where not all can be.
    """

    def __init__(
        self,
        *,
        max_batch_size: int,
        max_wait_ms: float,
        timer: Timer = "arrival",
        order: Order = "fifo",
        max_skips: int = DEFAULT_MAX_SKIPS,
        on_expired: OnExpired = "serve",
    ) -> None:
        self._max_batch_size = max_batch_size
        self._max_wait_s = max_wait_ms / 1000
        self._timer = timer
        self._order: Order = order
        self._max_skips = max_skips
        self._rejects = on_expired == "reject"

    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Launch | Reject | Wait:
        """Size before memory before age."""
        if engine.running:
            return Wait()
        size = min(self._max_batch_size, engine.cap)
        if self._order == "fifo" and engine.kv is None:
            if len(waiting) >= size:
                return Launch(size, "size")
        elif (chosen := self._chosen(now_s, waiting, engine, size)) is not None:
            return chosen
        if not waiting:
            return Wait(until_waiting=1)
        due_s = self._clock_start_s(waiting[0], engine) + self._max_wait_s
        if now_s >= due_s:
            return Launch(len(waiting), "age")  # fewer than `size`, and all of them fit
        if engine.kv is None and not self._rejects:
            return Wait(until_s=due_s, until_waiting=size)
        return Wait(until_s=min(due_s, self._expiry_s(waiting)), until_waiting=len(waiting) + 1)

    def _chosen(
        self, now_s: float, waiting: Sequence[Waiting], engine: EngineView, size: int
    ) -> Launch | Reject | None:
        """What the order or the budget decides: a full batch, or who is refused; None if neither."""
        if self._rejects and (late := expired(waiting, now_s)):
            return Reject(late, EXPIRED)
        if engine.kv is None and len(waiting) < size:
            return None
        queue = list(waiting)
        places = first(self._order, queue, size, now_s=now_s, max_skips=self._max_skips)
        if engine.kv is None:
            return Launch(_take(places), "size")
        fit = engine.kv.fit(queue[place] for place in places)
        if fit.taken == size:
            return Launch(_take(places), "size")
        return Launch(_take(places[: fit.taken]), "memory") if queue and fit.full else None

    def _expiry_s(self, waiting: Sequence[Waiting]) -> float:
        """When the next request is to be rejected."""
        return min(request.ttft_deadline_s for request in waiting) if self._rejects else math.inf

    def _clock_start_s(self, oldest: Waiting, engine: EngineView) -> float:
        if self._timer == "idle":
            return max(oldest.arrived_s, engine.idle_since_s)
        return oldest.arrived_s


def _skips(count: int) -> str:
    return f"{count} skip" if count == 1 else f"{count} skips"


def _take(places: list[int]) -> int | tuple[int, ...]:
    """The oldest as their number, which is quicker to take, and skips nobody."""
    return len(places) if places == list(range(len(places))) else tuple(places)
