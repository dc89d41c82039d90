"""The price of a GPU's hour, and what attempts that had a lane for so long cost by it (results/cost.py has the formula)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from pydantic import ValidationError

from results.records import LaneTime, LeastLaneTime

PRICE, CURRENCY = "price_per_gpu_hour", "currency"  # keys of a config
DEFAULT_CURRENCY = "$"
ANY = "any"  # kind of GPU: what has no price of its own has this one
TIMED = "lane_time"  # in what was measured to resolve a config: how long that held a lane
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Of one GPU for an hour."""

    per_hour: Mapping[str, float]  # by kind of GPU
    currency: str = DEFAULT_CURRENCY

    def of(self, kind: str) -> float | None:
        """Of this kind of GPU, which a driver calls otherwise than Ray (NVIDIA A10G, A10G); None: not known."""
        named = [one for one in self.per_hour if one == kind or one in kind.split()]
        return self.per_hour[max(named, key=len)] if named else self.per_hour.get(ANY)

    def cost(self, used: LaneTime) -> float | None:
        """Of one attempt; None where its kind has no price."""
        each = 0.0 if not used.held_s else self.of(used.kind)
        return None if each is None else each * used.gpu_s / HOUR_S

    def text(self, amount: float | None) -> str:
        """An amount as a person reads it: $1.20, 1.20 EUR."""
        if amount is None:
            return "–"
        digits = 2 if abs(amount) >= 1 or not amount else min(8, 2 - math.floor(math.log10(abs(amount))))
        number = f"{amount:,.{digits}f}"
        return f"{number} {self.currency}" if self.currency[:1].isalpha() else f"{self.currency}{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a sweep has used so far."""

    gpu_s: float = 0.0
    cost: float | None = 0.0  # None: without a price, or of a kind that has none
    attempts: int = 0  # with a record of their time
    unrecorded: int = 0  # that run, or were killed: they count until the last that they wrote
    of_unrecorded: float = 0.0  # what of the cost is theirs

    @property
    def per_attempt(self) -> float | None:
        """Mean of the attempts that have a record."""
        return (
            (self.cost - self.of_unrecorded) / self.attempts
            if self.cost is not None and self.attempts
            else None
        )

    def text(self, price: Price) -> str:
        """Its cost as a person reads it, which is the least where an attempt could not say how long it took."""
        return f"at least {price.text(self.cost)}" if self.unrecorded and self.cost else price.text(self.cost)

    @property
    def gpu_hours(self) -> float:
        """The same in hours."""
        return self.gpu_s / HOUR_S


def price_of(sweep: Mapping[str, Any]) -> Price | None:
    """The price that the config in a sweep.json gives; None if it gives none, or none that is a price."""
    config = sweep.get("config")
    written = config.get(PRICE) if isinstance(config, Mapping) else None
    currency = str(config.get(CURRENCY) or DEFAULT_CURRENCY) if isinstance(config, Mapping) else ""
    by_kind = written if isinstance(written, Mapping) else {ANY: written}
    each = {str(kind): float(one) for kind, one in by_kind.items() if _is_price(one)}
    return Price(per_hour=each, currency=currency) if each else None


def _is_price(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def timed(sweep: Mapping[str, Any]) -> LaneTime | None:
    """How long a lane was held to time engines, if that was recorded."""
    measured = sweep.get("measured")
    written = measured.get(TIMED) if isinstance(measured, Mapping) else None
    try:
        return LaneTime.model_validate(written)
    except ValidationError:
        return None


def total(times: Iterable[LaneTime | None], price: Price | None, timing: LaneTime | None = None) -> Spent:
    """Of attempts, of which None left no record of its time, and of the timing of engines before them."""
    attempts = list(times)
    least = [one for one in attempts if isinstance(one, LeastLaneTime)]
    ended = [one for one in attempts if one is not None and not isinstance(one, LeastLaneTime)]
    known = [*ended, *least, *([timing] if timing else [])]
    return Spent(
        gpu_s=sum(one.gpu_s for one in known),
        cost=_cost(known, price),
        attempts=len(ended),
        unrecorded=len(attempts) - len(ended),
        of_unrecorded=_cost(least, price) or 0.0,
    )


def _cost(times: Iterable[LaneTime], price: Price | None) -> float | None:
    costs = [None if price is None else price.cost(one) for one in times]
    return None if price is None or None in costs else sum(cost for cost in costs if cost is not None)
