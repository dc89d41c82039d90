"""How long a sweep still takes: the seconds that are expected, times what an expected second has cost so far."""

from collections.abc import Iterable

from experiments.cells import Cell
from experiments.trial_time import TrialTimes


class TimeLeft:
    """Learns from each cell that ends; seconds since the sweep began."""

    def __init__(self, left: Iterable[Cell], at_once: int = 1, times: TrialTimes | None = None) -> None:
        """`left`: what is to be run; `at_once`: how many trials run at the same time; `times`: what is known."""
        spans = {cell.cell_id: (times or TrialTimes()).of(cell) for cell in left}
        self._expected_s = {
            cell_id: span.low_s if span.likely_s is None else span.likely_s for cell_id, span in spans.items()
        }
        self._at_once = at_once
        self._learnt_at_s = self._ended_expected_s = 0.0

    def ended(self, cell_id: str, now_s: float) -> None:
        """A cell is done, or its tries ran out."""
        self._ended_expected_s += self._expected_s.pop(cell_id, 0.0)
        self._learnt_at_s = now_s

    def left_s(self, now_s: float) -> float:
        """Seconds to the end; never less than 0."""
        left_s = sum(self._expected_s.values())
        if self._ended_expected_s:
            left_s *= self._learnt_at_s / self._ended_expected_s
        else:
            left_s /= self._at_once
        return max(0.0, left_s - (now_s - self._learnt_at_s))


def about(seconds: float) -> str:
    """The same in words; empty where nothing is left."""
    return f"about {max(1, round(seconds / 60))} min left" if seconds else ""
