import numpy as np
import pytest
from numpy.typing import NDArray

from workloads.arrivals import PROCESSES, arrival_times
from workloads.errors import WorkloadError

RATE = 50.0
DURATION_S = 2000.0


def times(
    process: str,
    cv: float | None = None,
    seed: int = 7,
    rate: float = RATE,
    duration_s: float = DURATION_S,
) -> NDArray[np.float64]:
    return arrival_times(process, rate=rate, duration_s=duration_s, cv=cv, rng=np.random.default_rng(seed))


def lag_1(gaps: NDArray[np.float64]) -> float:
    return float(np.corrcoef(gaps[:-1], gaps[1:])[0, 1])


def dispersion(planned: NDArray[np.float64], window_s: float) -> float:
    edges = np.arange(0, DURATION_S + window_s / 2, window_s)
    counts = np.histogram(planned, edges)[0]
    return float(counts.var(ddof=1) / counts.mean())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_poisson_has_the_mean_the_variation_and_the_independence_of_poisson(seed: int) -> None:
    planned = times("poisson", seed=seed)
    gaps = np.diff(planned)
    assert gaps.mean() == pytest.approx(1 / RATE, rel=0.015)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.02)
    assert abs(lag_1(gaps)) < 0.015
    assert dispersion(planned, 1.0) == pytest.approx(1.0, abs=0.13)


@pytest.mark.parametrize("cv", [0.5, 2.0, 3.0])
def test_gamma_gaps_vary_as_asked_and_stay_independent(cv: float) -> None:
    planned = times("gamma", cv)
    gaps = np.diff(planned)
    assert gaps.mean() == pytest.approx(1 / RATE, rel=0.015 * max(1.0, cv))
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.04)
    assert abs(lag_1(gaps)) < 0.015
    assert dispersion(planned, 4.0) == pytest.approx(cv**2, rel=0.2)


def test_poisson_bursts_and_lulls_are_as_frequent_as_theory_says() -> None:
    planned = times("poisson", rate=2.0, duration_s=40_000.0)
    counts = np.histogram(planned, np.arange(40_001.0))[0]
    assert (counts >= 5).mean() == pytest.approx(0.053, abs=0.005)
    assert (np.diff(planned) >= 2.0).mean() == pytest.approx(0.018, abs=0.002)


def test_gamma_with_cv_1_is_poisson() -> None:
    np.testing.assert_array_equal(times("gamma", 1.0), times("poisson"))


@pytest.mark.parametrize(("process", "cv"), [("poisson", None), ("gamma", 3.0), ("gamma", 0.3)])
def test_short_trials_offer_the_rate_on_average(process: str, cv: float | None) -> None:
    counts = [len(times(process, cv, seed, rate=2.0, duration_s=5.0)) for seed in range(3000)]
    error = np.std(counts) / np.sqrt(len(counts))
    assert np.mean(counts) == pytest.approx(10.0, abs=4 * error)


def test_constant_arrivals_are_evenly_spaced_and_as_many_as_asked() -> None:
    planned = times("constant", rate=4.0, duration_s=10.0)
    assert len(planned) == 40
    np.testing.assert_allclose(np.diff(planned), 0.25)
    assert planned[0] == 0.125


@pytest.mark.parametrize("duration_s", [0.1, 0.3, 0.7, 1.1])
def test_constant_arrivals_do_not_depend_on_rounding(duration_s: float) -> None:
    assert len(times("constant", rate=10.0, duration_s=duration_s)) == round(10 * duration_s)


@pytest.mark.parametrize(("process", "cv"), [("poisson", None), ("gamma", 2.5), ("constant", None)])
@pytest.mark.parametrize("rate", [0.7, 3.0, 49.0])
def test_a_seed_gives_the_same_pattern_at_every_rate(process: str, cv: float | None, rate: float) -> None:
    slow = times(process, cv, rate=0.5, duration_s=100.0) * 0.5
    fast = times(process, cv, rate=rate, duration_s=100.0) * rate
    assert len(fast) > len(slow) > 10
    np.testing.assert_allclose(fast[: len(slow)], slow, rtol=1e-12)


@pytest.mark.parametrize(("process", "cv"), [("poisson", None), ("gamma", 6.0), ("constant", None)])
@pytest.mark.parametrize("seed", range(20))
def test_arrivals_are_in_order_and_within_the_duration(process: str, cv: float | None, seed: int) -> None:
    planned = times(process, cv, seed, rate=30.0, duration_s=7.0)
    assert (np.diff(planned) >= 0).all()
    assert ((planned >= 0) & (planned < 7.0)).all()


def test_other_seeds_give_other_arrivals() -> None:
    assert times("poisson", seed=1)[0] != times("poisson", seed=2)[0]


@pytest.mark.parametrize("process", sorted(PROCESSES))
def test_a_duration_shorter_than_the_first_arrival_has_none(process: str) -> None:
    cv = 1.5 if process == "gamma" else None
    assert len(times(process, cv, rate=1.0, duration_s=1e-9)) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"process": "weibull"}, "process must be one of constant, gamma, poisson, got weibull"),
        ({"rate": 0.0}, "rate must be above 0 and finite, got 0.0"),
        ({"duration_s": float("inf")}, "duration_s must be above 0 and finite, got inf"),
        ({"process": "gamma", "cv": 0.0}, "cv must be above 0 and finite, got 0.0"),
        ({"process": "poisson", "cv": 2.0}, "cv must be 1 for poisson arrivals, got 2.0"),
        ({"process": "constant", "cv": 1.0}, "cv must be 0 for constant arrivals, got 1.0"),
    ],
)
def test_an_impossible_process_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        times(**{"process": "poisson", **given})  # type: ignore[arg-type]
    assert str(caught.value) == message
