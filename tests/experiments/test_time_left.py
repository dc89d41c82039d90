"""What a sweep still takes: guessed first, then learnt from the cells that ended."""

from collections.abc import Callable

import pytest

from experiments.cells import Cell, cells
from experiments.config import SweepConfig
from experiments.resolved import Resolved
from experiments.time_left import TimeLeft, about
from experiments.trial_time import AROUND_S, TrialTimes


@pytest.fixture
def four(made_config: Callable[..., SweepConfig]) -> tuple[Cell, ...]:
    """Cells of 10, 10, 30 and 30 planned seconds."""
    config = made_config(strategies=[{"strategy": "naive", "backends": "vllm", "max_batch_size": 4}])
    return cells(config, Resolved(rates=(1.0, 4.0), durations_s=(10.0, 30.0)))


def test_before_any_cell_has_ended_each_costs_its_arrivals_and_what_surrounds_it(
    four: tuple[Cell, ...],
) -> None:
    assert TimeLeft(four).left_s(0) == 80 + 4 * AROUND_S
    assert TimeLeft(four, at_once=2).left_s(0) == (80 + 4 * AROUND_S) / 2
    assert TimeLeft(four).left_s(12) == 80 + 4 * AROUND_S - 12


def test_afterwards_an_expected_second_costs_what_it_has_cost(four: tuple[Cell, ...]) -> None:
    left = TimeLeft(four)
    left.ended(four[0].cell_id, 28)
    assert left.left_s(28) == (14 + 2 * 34) * 2
    assert left.left_s(48) == (14 + 2 * 34) * 2 - 20
    left.ended(four[2].cell_id, 72)
    assert left.left_s(72) == (14 + 34) * 1.5


def test_what_is_known_of_a_trial_is_expected_of_it(four: tuple[Cell, ...]) -> None:
    known = TrialTimes(capacities={("vllm", "naive · 4"): 2.0})
    drains_s = [2, 2, 30 + 2, 30 + 2]  # B ÷ μ, and at twice the capacity as long as it was sent
    assert TimeLeft(four, times=known).left_s(0) == 80 + 4 * AROUND_S + sum(drains_s)


def test_it_is_never_negative_and_nothing_at_the_end(four: tuple[Cell, ...]) -> None:
    left = TimeLeft(four)
    assert left.left_s(10_000) == 0
    for cell in four:
        left.ended(cell.cell_id, 100)
    assert left.left_s(100) == 0
    assert TimeLeft([]).left_s(0) == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, ""), (1, "about 1 min left"), (89, "about 1 min left"), (1234, "about 21 min left")],
)
def test_it_is_said_in_whole_minutes(seconds: float, words: str) -> None:
    assert about(seconds) == words
