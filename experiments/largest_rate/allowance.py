"""What a search may use: its trials ask before they begin, as a sweep's do, though they become known as it goes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.budget import NO_LIMITS, Budget, Limit, Limits, Purse, start_budget
from experiments.cells import Cell
from experiments.config import SweepConfig
from experiments.cost_so_far import cost_of
from experiments.plan import load_span, trial_times
from results.cost import spent
from results.store import Store


@dataclass(slots=True)
class Allowance:
    """Of one run of a search, from its command on."""

    limits: Limits
    config: SweepConfig
    store: Store
    begun_s: float = field(default_factory=time.time)
    budget: Any = None  # the actor's handle; None: everything may begin
    _loaded: set[str] = field(default_factory=set)  # lane keys that were tried

    def start(self, info: Mapping[str, Any], beside: str) -> None:
        """From here on trials can ask. `beside`: a resource that only the driver's node has."""
        used = spent(self.store, info, self.config.price).cost or 0.0
        self.budget = start_budget(self.limits, beside, spent=used, begun_s=self.begun_s)

    def purse(self, info: Mapping[str, Any], cells: Sequence[Cell]) -> Purse | None:
        """What these cells are to ask with; None: nothing."""
        if self.budget is None:
            return None
        expected_s = {cell.cell_id: self._expected_s(info, cell) for cell in cells}
        self._loaded.update(cell.lane_key for cell in cells)
        return Purse(budget=self.budget, expected_s=expected_s, price=self.config.price)

    def reached(self) -> Limit | None:
        """The limit for which something was held back."""
        if self.budget is None:
            return None
        import ray

        limit: Limit | None = ray.get(self.budget.reached.remote())
        return limit

    def held_back(self, info: Mapping[str, Any], cells: Sequence[Cell]) -> Limit | None:
        """The limit for which none of these could begin, before anything is started."""
        if self.limits == NO_LIMITS:
            return None
        price = self.config.price
        asked = Budget(self.limits, spent=spent(self.store, info, price).cost or 0.0, begun_s=self.begun_s)
        for cell in cells[:1]:
            expected_s = self._expected_s(info, cell)
            cost = None if price is None else cost_of(cell, expected_s, price)
            asked.begin(cell.cell_id, expected_s, cost or 0.0)
        return asked.reached()

    def _expected_s(self, info: Mapping[str, Any], cell: Cell) -> float:
        times, _ = trial_times(self.config, info, self.store.trials())
        span = times.of(cell)
        load_s = 0.0 if cell.lane_key in self._loaded else load_span(cell.backend, cell.engine).low_s
        return load_s + (span.low_s if span.likely_s is None else span.likely_s)
