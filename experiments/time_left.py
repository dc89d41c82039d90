"""How long a sweep still takes: the planned seconds that are left, times what a planned second has cost so far."""

from collections.abc import Iterable

from experiments.cells import Cell

OVERHEAD_S = 8.0  # a first guess of what a trial costs beside its arrivals; measured as the sweep goes on


class TimeLeft:
    """Learns from each cell that ends; seconds since the sweep began."""

    def __init__(self, left: Iterable[Cell], at_once: int = 1) -> None:
        """`left`: what is to be run; `at_once`: how many trials run at the same time."""
        self._planned_s = {cell.cell_id: cell.duration_s for cell in left}
        self._at_once = at_once
        self._learnt_at_s = self._ended_planned_s = 0.0

    def ended(self, cell_id: str, now_s: float) -> None:
        """A cell is done, or its tries ran out."""
        self._ended_planned_s += self._planned_s.pop(cell_id, 0.0)
        self._learnt_at_s = now_s

    def left_s(self, now_s: float) -> float:
        """Seconds to the end; never less than 0."""
        left_s = sum(self._planned_s.values())
        if self._ended_planned_s:
            left_s *= self._learnt_at_s / self._ended_planned_s
        else:
            left_s = (left_s + OVERHEAD_S * len(self._planned_s)) / self._at_once
        return max(0.0, left_s - (now_s - self._learnt_at_s))


def about(seconds: float) -> str:
    """The same in words; empty where nothing is left."""
    return f"about {max(1, round(seconds / 60))} min left" if seconds else ""
