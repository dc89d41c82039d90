"""What a sweep has cost, and what is left of it will: by the lane hours in its store, and by how long trials take."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from experiments.cells import Cell, blocks
from experiments.plan import load_span
from experiments.trial_time import TrialTimes
from results.cost import lane_times
from results.price import Price, Spent, timed, total
from results.records import LaneTime
from results.store import Store


class CostSoFar:
    """Of one sweep; learns from each cell that ends how far the expected lane time is off."""

    def __init__(
        self, store: Store, sweep: Mapping[str, Any], price: Price, expected_s: Mapping[str, float]
    ) -> None:
        """`expected_s`: of the cells that are left, by id, with what is loaded for them."""
        self.price = price
        self._store = store
        self._times: dict[str, list[LaneTime | None]] = {}
        for cell_id, time in lane_times(store):
            self._times.setdefault(cell_id, []).append(time)
        self._timed = timed(sweep)
        self._expected_s = dict(expected_s)
        self._ended_expected_s = self._ended_s = 0.0

    def ended(self, cell_id: str) -> None:
        """A cell is done, or its tries ran out: its attempts are read again."""
        before_s = self._held_s(cell_id)
        self._times[cell_id] = list(self._store.lane_times({cell_id}).values())
        self._ended_expected_s += self._expected_s.pop(cell_id, 0.0)
        self._ended_s += self._held_s(cell_id) - before_s

    @property
    def spent(self) -> Spent:
        """So far, by every attempt, and by the timing of engines."""
        times = [time for of_cell in self._times.values() for time in of_cell]
        return total(times, self.price, self._timed)

    def left(self, cells: Iterable[Cell]) -> float | None:
        """What those of these cells that are left are expected to cost; None where one's kind has no price."""
        whole = 0.0
        for cell in cells:
            if cell.cell_id in self._expected_s:
                cost = cost_of(cell, self._expected_s[cell.cell_id], self.price)
                if cost is None:
                    return None
                whole += cost
        return whole * (self._ended_s / self._ended_expected_s if self._ended_expected_s else 1.0)

    def text(self, cells: Iterable[Cell]) -> str:
        """In words: $1.20 spent ($0.30 a trial), about $4.80 left."""
        spent, left = self.spent, self.left(cells)
        return ", ".join([self._so_far(spent), *([f"about {self.price.text(left)} left"] if left else [])])

    def _so_far(self, spent: Spent) -> str:
        each = f" ({self.price.text(per_attempt)} a trial)" if (per_attempt := spent.per_attempt) else ""
        return f"{spent.text(self.price)} spent{each}"

    def _held_s(self, cell_id: str) -> float:
        return sum(time.held_s for time in self._times.get(cell_id, ()) if time is not None)


def cost_of(cell: Cell, held_s: float, price: Price) -> float | None:
    """Of a lane for a cell for so long."""
    return price.cost(LaneTime(held_s=held_s, gpus=cell.gpus, kind=cell.accelerator or ""))


def expected_s(
    planned: Sequence[Cell], left: Iterable[str], times: TrialTimes, seed: int, warm: str | None = None
) -> dict[str, float]:
    """Seconds for which each cell that is left will hold a lane, where one lane keeps what it has loaded."""
    found: dict[str, float] = {}
    wanted, loaded = set(left), warm
    for block in blocks(planned, seed, warm):
        for cell in (cell for cell in block if cell.cell_id in wanted):
            span = times.of(cell)
            load_s = 0.0 if cell.lane_key == loaded else load_span(cell.backend, cell.engine).low_s
            loaded = cell.lane_key
            found[cell.cell_id] = load_s + (span.low_s if span.likely_s is None else span.likely_s)
    return found


def cost_document(spent: Spent, price: Price | None, left: float | None) -> dict[str, Any]:
    """As plain JSON values. `left` is an estimate; amounts are null without a price."""
    return {
        "currency": None if price is None else price.currency,
        "spent": spent.cost,
        "left": left,
        "per_trial": spent.per_attempt,
        "gpu_hours": spent.gpu_hours,
        "attempts": spent.attempts,
        "attempts_without_record": spent.unrecorded,
    }
