"""Costs are found again in rows that were made from them, through noise, stalls and a machine whose speed drifts."""

from dataclasses import fields

import numpy as np
import pytest

from deployments.virtual.step_model import Linear
from experiments.calibration.fit import TooFewRows, fit
from experiments.calibration.observations import TERMS, Observations

TRUE = Linear(fixed_s=0.05, per_sequence_s=0.002, per_prefill_token_s=4e-4)


def rows(*, trials: int = 20, each: int = 60, seed: int = 1, size: int | None = None) -> Observations:
    """Steps of some trials: each with batches of about one size, some with a prompt."""
    rng = np.random.default_rng(seed)
    trial = np.repeat(np.arange(trials), each)
    sizes = np.clip(rng.integers(1, 9, trials)[trial] + rng.integers(-2, 3, len(trial)), 1, 8)
    if size is not None:
        sizes[:] = size
    prompt = np.where(rng.random(len(trial)) < 0.3, rng.integers(16, 200, len(trial)), 0)
    context = sizes * rng.integers(20, 60, len(trial))
    terms = np.column_stack([np.ones(len(trial)), sizes, context, prompt, prompt**2.0])
    return Observations(duration_s=terms @ costs_of(TRUE), terms=terms, trial=trial)


def costs_of(model: Linear) -> np.ndarray:
    assert {field.name for field in fields(Linear)} == set(TERMS)
    return np.array([getattr(model, term) for term in TERMS])


def slowed(observed: Observations, factors: np.ndarray) -> Observations:
    return Observations(duration_s=observed.duration_s * factors, terms=observed.terms, trial=observed.trial)


def test_exact_rows_give_exact_costs():
    found = fit(rows())
    assert costs_of(found.costs) == pytest.approx(costs_of(TRUE), rel=1e-6, abs=1e-12)
    assert found.r_squared == pytest.approx(1)
    assert found.residual_p90 < 1e-6
    assert sum(found.shares.values()) == pytest.approx(1)


def test_noise_and_stalls_do_not_throw_it():
    observed, rng = rows(), np.random.default_rng(2)
    noise = np.exp(rng.normal(0, 0.08, len(observed)))
    noise[rng.random(len(observed)) < 0.02] = 20  # stalls of a second and more
    found = fit(slowed(observed, noise))
    for term, near in (("fixed_s", 0.06), ("per_sequence_s", 0.15), ("per_prefill_token_s", 0.1)):
        assert getattr(found.costs, term) == pytest.approx(getattr(TRUE, term), rel=near), term
        assert abs(getattr(found.costs, term) / 1.04 - getattr(TRUE, term)) < 4 * found.errors[term], term
    assert found.costs.per_context_token_s == found.costs.per_prefill_token_sq_s == 0
    assert set(found.left_out) == {"per_context_token_s", "per_prefill_token_sq_s"}


def test_a_machine_that_is_slow_with_large_batches_by_chance_does_not_make_a_sequence_dear():
    observed = rows()
    sizes = np.array([observed.terms[observed.trial == trial, 1].mean() for trial in range(20)])
    speeds = np.exp(0.5 * (sizes - sizes.mean()) / sizes.max())  # the larger its batches, the slower a trial
    found = fit(slowed(observed, speeds[observed.trial]))
    assert found.costs.per_sequence_s / found.costs.fixed_s == pytest.approx(0.04, rel=0.05)
    assert found.costs.per_prefill_token_s / found.costs.fixed_s == pytest.approx(0.008, rel=0.05)
    assert found.within_p50 < 0.01 < found.residual_p50
    assert found.fastest < 0.95
    assert found.slowest > 1.05


def test_slow_moments_count_in_the_level():
    observed, rng = rows(), np.random.default_rng(3)
    factors = np.exp(rng.normal(0, 0.03, len(observed))) * np.where(rng.random(len(observed)) < 0.2, 2.0, 1.0)
    assert fit(slowed(observed, factors)).total == pytest.approx(1, abs=0.02)


def test_the_skew_of_many_rows_does_not_throw_the_level_of_trials_that_differ():
    observed, rng = rows(each=400), np.random.default_rng(5)
    speeds = np.exp(rng.normal(0, 0.1, 20))[observed.trial]
    slow = np.exp(rng.exponential(0.1, len(observed)))  # nothing is ever quicker than an undisturbed step
    found = fit(slowed(observed, speeds * slow))
    assert found.total == pytest.approx(1, abs=0.03)
    assert found.costs.fixed_s == pytest.approx(TRUE.fixed_s * (speeds * slow).mean(), rel=0.05)


def test_what_cannot_be_told_apart_is_none_and_said():
    found = fit(rows(size=4))
    assert found.costs.per_sequence_s == 0
    assert "does not vary apart from fixed_s" in found.left_out["per_sequence_s"]
    assert found.costs.fixed_s == pytest.approx(TRUE.step_s(4), rel=1e-6)
    bare = rows()
    bare.terms[:, 3:] = 0
    found = fit(
        slowed(
            Observations(duration_s=bare.terms @ costs_of(TRUE), terms=bare.terms, trial=bare.trial),
            np.ones(len(bare)),
        )
    )
    assert found.left_out["per_prefill_token_s"] == "there is nothing of it in the rows"


@pytest.mark.parametrize("trials", [1, 3])
def test_few_trials_have_standard_errors_too(trials: int):
    observed, rng = rows(trials=trials), np.random.default_rng(4)
    found = fit(slowed(observed, np.exp(rng.normal(0, 0.05, len(observed)))))
    assert found.errors["fixed_s"] > 0
    assert found.trials == trials


def test_too_few_rows_are_refused():
    observed = rows()
    with pytest.raises(TooFewRows, match="at least 10 rows are needed, got 9"):
        fit(observed.some(np.arange(9)))
