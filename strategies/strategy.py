"""The strategy protocol: a pure state machine that decides when waiting requests are released, and which.

A strategy knows nothing of Ray, models or clocks: `now_s` is a parameter, so the same object runs in a
replica and in virtual time, and a test replays it by hand. All times are seconds of one clock.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from strategies.kv_budget import KVBudget

Trigger: TypeAlias = Literal["size", "age", "memory", "flush", "join"]


class Waiting(NamedTuple):
    """A request in the queue, as a strategy may see it: its true output length is not here.

    A named tuple, as `EngineView` is: virtual time makes a million, and a frozen dataclass takes three times as long.
    """

    request_id: str
    prompt_tokens: int
    max_new_tokens: int
    arrived_s: float
    priority: int = 0  # its class; lower goes first
    ttft_deadline_s: float = math.inf
    skips: int = 0  # launches of a younger request while this one waited


class EngineView(NamedTuple):
    """What a strategy may know of the engine at one moment."""

    running: int  # requests released and not finished
    idle_since_s: float  # when `running` last became 0 (-inf before the first launch)
    joinable: bool  # a request may join while others run
    closed: bool  # every arrival of the trial is in
    cap: int  # the largest batch allowed now (≤ max_batch_size)
    kv: KVBudget | None = None  # of a backend that pads; None: it does not, or nobody knows


@dataclass(frozen=True, slots=True)
class Launch:
    """Release requests: an int takes that many oldest, a tuple the given positions in the queue."""

    take: int | tuple[int, ...]
    trigger: Trigger


@dataclass(frozen=True, slots=True)
class Reject:
    """Refuse requests, with a reason that ends in their rows."""

    take: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A promise: with no completion or close, before `until_s` and with fewer than `until_waiting`
    requests waiting, the answer stays Wait. The dispatcher need not ask again before that.
    """

    until_s: float = math.inf
    until_waiting: int | None = None


class Strategy(Protocol):
    """Decides when waiting requests are released.

    `decide` is called on arrival, completion, close and when a Wait ends, until it answers Wait.
    Invariants: the answer depends on the arguments alone; a Launch takes between 1 and
    min(cap, len(waiting)) requests on an engine that is not joined; `until_s` > `now_s`; after close,
    an idle engine and a non-empty queue never wait for ever.
    """

    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Launch | Reject | Wait:
        """Answer for the moment `now_s`; `waiting` is in order of arrival, oldest first."""
        ...
