"""What a run of a sweep may use: hours of this run, and money of the sweep in all of its runs.

Nothing is begun that would, by how long it is expected to take, go beyond it; what runs is let end. Once something
was held back nothing is begun any more, so that what is left is left in the order of the sweep.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from deployments.lane_board import LEAST_SHARE
from experiments.cells import Cell
from experiments.config import SweepConfig
from experiments.cost_so_far import cost_of
from experiments.errors import ConfigError
from results.price import HOUR_S, PRICE, Price

Limit: TypeAlias = Literal["--max-hours", "--max-cost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """As they were asked for; None: no such limit."""

    hours: float | None = None  # of this run
    cost: float | None = None  # of the sweep

    def typed(self) -> tuple[object, ...]:
        """The option again that is of each run; what the sweep may cost is another amount next time."""
        return ("--max-hours", f"{self.hours:g}") if self.hours is not None else ()

    def asked(self) -> tuple[object, ...]:
        """Both, as they were asked for."""
        return (*self.typed(), *(("--max-cost", f"{self.cost!r}") if self.cost is not None else ()))

    def check(self, config: SweepConfig) -> None:
        """ConfigError where what is run has no price."""
        if self.cost is None:
            return
        if config.price is None:
            raise config.error((PRICE,), "is missing: --max-cost needs the price of a GPU's hour")
        if any(config.price.of(kind) is None for kind in config.accelerator or ("",)):
            raise ConfigError(
                f"--max-cost needs a price for any kind of GPU: give {PRICE} a number, or `any`"
            )


NO_LIMITS = Limits()


class Budget:
    """Who may begin. Plain, and asked by trials in other processes."""

    def __init__(
        self,
        limits: Limits,
        *,
        spent: float,
        begun_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`spent` so far by the sweep; `begun_s`: when this run began, by `clock`."""
        self._limits, self._clock, self._spent = limits, clock, spent
        self._ends_s = None if limits.hours is None else begun_s + limits.hours * HOUR_S
        self._running: dict[str, float] = {}  # what each that runs is expected to cost
        self._reached: Limit | None = None

    def begin(self, cell_id: str, expected_s: float, expected_cost: float) -> bool:
        """Whether it may; what runs is counted as expected until it ends."""
        if self._reached is None:
            self._reached = self._exceeded(cell_id, expected_s, expected_cost)
        if self._reached is not None:
            return False
        self._running[cell_id] = expected_cost
        return True

    def ended(self, cell_id: str, cost: float | None = None) -> None:
        """An attempt has ended; without a cost, where it was killed, it is taken to be what was expected."""
        expected = self._running.pop(cell_id, None)
        if expected is not None:
            self._spent += expected if cost is None else cost

    def reached(self) -> Limit | None:
        """The limit for which something was held back."""
        return self._reached

    def _exceeded(self, cell_id: str, expected_s: float, expected_cost: float) -> Limit | None:
        if self._ends_s is not None and self._clock() + expected_s > self._ends_s:
            return "--max-hours"
        others = sum(cost for other, cost in self._running.items() if other != cell_id)
        most = self._limits.cost
        if most is not None and self._spent + others + expected_cost > most:
            return "--max-cost"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """What a trial asks before it begins."""

    budget: Any  # the actor's handle
    expected_s: Mapping[str, float]
    price: Price | None

    def begin(self, cell: Cell) -> bool:
        """Whether the cell may. Blocks for the time of a call."""
        import ray

        expected_s = self.expected_s[cell.cell_id]
        may: bool = ray.get(self.budget.begin.remote(cell.cell_id, expected_s, self._cost(cell, expected_s)))
        return may

    def ended(self, cell: Cell, held_s: float) -> None:
        """An attempt has ended that had its lane for so long."""
        self.budget.ended.remote(cell.cell_id, self._cost(cell, held_s))

    def _cost(self, cell: Cell, held_s: float) -> float:
        return 0.0 if self.price is None else cost_of(cell, held_s, self.price) or 0.0


def start_budget(limits: Limits, beside: str, *, spent: float, begun_s: float) -> Any:
    """The budget as an actor on the driver's node (`beside`: a resource that only it has); None without limits."""
    if limits == NO_LIMITS:
        return None
    import ray

    actor = ray.remote(num_cpus=0)(Budget)
    return actor.options(resources={beside: LEAST_SHARE}).remote(limits, spent=spent, begun_s=begun_s)
