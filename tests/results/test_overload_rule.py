"""How often short trials of the real strategies are judged overloaded, in virtual time: see results/verdicts.py.

Fixed seeds, batches of 8, Poisson arrivals at ρ times what a full queue is served at.
"""

from functools import cache
from types import ModuleType

import numpy as np
import pytest

from deployments.virtual.driver import simulate
from deployments.virtual.iteration import Iteration
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from results.metrics import with_metrics
from results.verdicts import verdicts
from strategies.registry import create

SIZE, LONGEST, TRIALS = 8, 96, 30
CASES = [("naive", "lockstep"), ("naive", "gated"), ("dynamic", "gated"), ("continuous", "gated")]


def serve(strategy: str, engine: str, planned_s: np.ndarray, rng: np.random.Generator) -> Run:
    count = len(planned_s)
    outputs = np.clip(np.rint(rng.lognormal(np.log(16), 1.0, count)), 1, LONGEST).astype(np.int64)
    requests = RequestColumns(
        planned_s=planned_s,
        prompt_tokens=rng.integers(16, 49, count),
        output_tokens=outputs,
        max_new_tokens=np.full(count, LONGEST),
    )
    knobs = {"max_batch_size": SIZE} | ({"max_wait_ms": 50} if strategy == "dynamic" else {})
    settings = (
        Lockstep(step=Linear())
        if engine == "lockstep"
        else Iteration(step=Linear(), max_num_seqs=SIZE, max_num_batched_tokens=None)
    )
    return simulate(requests, create(strategy, knobs), settings, max_batch_size=SIZE)


@cache
def capacity(strategy: str, engine: str) -> float:
    """Requests/s where all wait from the start."""
    return 2000 / serve(strategy, engine, np.zeros(2000), np.random.default_rng(0)).ended_s


def share_overloaded(
    made: ModuleType, case: tuple[str, str], load: float, count: int, trials: int = TRIALS
) -> float:
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(trials):
        planned_s = np.cumsum(rng.exponential(1 / (load * capacity(*case)), count))
        run = serve(*case, planned_s, rng)
        rows = [
            made.request_row(index=k, planned_s=planned, token_s=[first, last] if last > first else [first])
            for k, (planned, first, last) in enumerate(
                zip(planned_s.tolist(), run.first_token_s.tolist(), run.last_token_s.tolist(), strict=True)
            )
        ]
        table = with_metrics(made.request_table(rows))
        given = {verdict.name for verdict in verdicts(made.make_trial(rows), table, len(run.launches))}
        assert given & {"overloaded", "too-short"} or count >= 200
        found += "overloaded" in given
    return found / trials


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", [10, 20, 40])
def test_no_trial_at_half_load_is_overloaded_however_short(
    made_sweep: ModuleType, case: tuple[str, str], count: int
) -> None:
    """With 10 requests, those that run and gather are most of them: a share alone says nothing."""
    assert share_overloaded(made_sweep, case, 0.5, count) == 0


@pytest.mark.parametrize("case", CASES)
def test_few_short_trials_near_capacity_are_overloaded(made_sweep: ModuleType, case: tuple[str, str]) -> None:
    assert share_overloaded(made_sweep, case, 0.9, 40) <= 0.15


@pytest.mark.parametrize("case", CASES)
def test_a_gross_overload_is_found_from_forty_requests_on(
    made_sweep: ModuleType, case: tuple[str, str]
) -> None:
    assert share_overloaded(made_sweep, case, 3.0, 40) >= 0.95


@pytest.mark.parametrize("load", [0.2, 0.5])
def test_filling_up_batches_does_not_look_like_growth(made_sweep: ModuleType, load: float) -> None:
    """Naive's backlog is a sawtooth of up to a batch; over 200 arrivals its slope stays far below the limit."""
    assert share_overloaded(made_sweep, ("naive", "gated"), load, 200, trials=20) == 0
