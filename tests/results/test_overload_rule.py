"""How often short trials of the real strategies are judged overloaded, in virtual time: see results/verdicts.py.

Fixed seeds, batches of 8, Poisson arrivals at ρ times what a full queue is served at. Of 500 arrivals a slice of what
`python -m tests.benchmarks.coverage` asks of 1,000 trials.
"""

import numpy as np
import pytest

from tests.benchmarks.seeded_trials import CASES, Case, capacity, requests, serve, share_judged, verdicts_of

TRIALS = 30


def share_overloaded(case: Case, load: float, count: int, trials: int = TRIALS) -> float:
    return share_judged("overloaded", case, load, count, trials)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", [10, 20, 40])
def test_no_trial_at_half_load_is_overloaded_however_short(case: Case, count: int) -> None:
    """With 10 requests, those that run and gather are most of them: a share alone says nothing."""
    assert share_overloaded(case, 0.5, count) == 0


@pytest.mark.parametrize("case", CASES)
def test_few_short_trials_near_capacity_are_overloaded(case: Case) -> None:
    assert share_overloaded(case, 0.9, 40) <= 0.15


@pytest.mark.parametrize("case", CASES)
def test_a_gross_overload_is_found_from_forty_requests_on(case: Case) -> None:
    assert share_overloaded(case, 3.0, 40) >= 0.95


@pytest.mark.parametrize("case", CASES)
def test_of_five_hundred_arrivals_few_are_called_overloaded_below_capacity_and_most_above(case: Case) -> None:
    assert share_judged("overloaded", case, 0.9, 500, 40, seed=1) <= 0.05
    assert share_judged("overloaded", case, 1.3, 500, 20, seed=1) >= 0.80


@pytest.mark.parametrize("load", [0.5, 0.9, 1.3, 3.0])
@pytest.mark.parametrize("case", CASES)
def test_below_two_hundred_arrivals_a_trial_is_too_short_or_grossly_overloaded(
    case: Case, load: float
) -> None:
    rng, rate = np.random.default_rng(3), load * capacity(case)
    assert all(
        len(verdicts_of(serve(case, requests(rng, count, rate))) & {"overloaded", "too-short"}) == 1
        for count in (1, 2, 20, 100, 199)
    )
    assert "too-short" not in verdicts_of(serve(case, requests(rng, 200, rate)))


@pytest.mark.parametrize("load", [0.2, 0.5])
def test_filling_up_batches_does_not_look_like_growth(load: float) -> None:
    """Naive's backlog is a sawtooth of up to a batch; over 200 arrivals its slope stays far below the limit."""
    assert share_overloaded(("naive", "gated"), load, 200, trials=20) == 0
