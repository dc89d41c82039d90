"""How often the interval of a paired change holds the truth: a queue in place of a server, quick enough to run each time.

Of the real strategies in virtual time a slice of what `python -m tests.benchmarks.coverage` asks in full.
"""

from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from results.statistics import paired_ratio
from tests.benchmarks import coverage
from tests.benchmarks.seeded_trials import capacity

REQUESTS, GAIN = 300, 0.85
LOADS = {
    "p50 E2E": 0.7,
    "p99 E2E": 0.7,
    "throughput": 1.3,
}  # where each is compared: throughput under overload
RUNS, SWEEPS = 2_000, 200

Floats = npt.NDArray[np.float64]


def served(service_s: Floats, gaps_s: Floats) -> dict[str, Floats]:
    """One server by Lindley's recursion, a row a trial: p50 and p99 E2E, and requests/s after a fifth of it."""
    wait_s = np.zeros_like(service_s)
    for k in range(1, service_s.shape[1]):
        wait_s[:, k] = np.maximum(0, wait_s[:, k - 1] + service_s[:, k - 1] - gaps_s[:, k])
    e2e_s = wait_s + service_s
    arrivals_s = np.cumsum(gaps_s, axis=1)
    ends_s, start_s, end_s = arrivals_s + e2e_s, arrivals_s[:, REQUESTS // 5], arrivals_s[:, -1]
    done = ((ends_s >= start_s[:, None]) & (ends_s <= end_s[:, None])).sum(axis=1)
    p50, p99 = np.percentile(e2e_s, [50, 99], axis=1)
    return {"p50 E2E": p50, "p99 E2E": p99, "throughput": done / (end_s - start_s)}


@cache
def two_strategies(trials: int, seed: int, load: float) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The same requests through a server and through one that takes 0.85 of the time and a fixed part."""
    rng = np.random.default_rng(seed)
    gaps_s = rng.exponential(1.0, (trials, REQUESTS))
    service_s = load * rng.gamma(2.0, 0.5, (trials, REQUESTS))
    return served(service_s, gaps_s), served(GAIN * service_s + 0.02, gaps_s)


def share_that_holds(base: Floats, other: Floats, repeats: int, truth: float) -> float:
    """Of the sweeps of so many repeats, how many have an interval that holds the truth."""
    hits = 0
    for sweep in range(SWEEPS):
        rows = range(sweep * repeats, (sweep + 1) * repeats)
        ratio = paired_ratio({k: float(base[k]) for k in rows}, {k: float(other[k]) for k in rows})
        assert ratio is not None
        assert ratio.low is not None
        assert ratio.high is not None
        hits += ratio.low <= truth <= ratio.high
    return hits / SWEEPS


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_the_interval_of_a_change_holds_the_truth_as_often_as_it_claims(repeats: int) -> None:
    for metric, load in LOADS.items():
        base, other = two_strategies(RUNS, 1, load)
        one, two = two_strategies(SWEEPS * repeats, 100 + repeats, load)
        truth = float(np.exp(np.log(other[metric] / base[metric]).mean()))
        assert 0.90 <= share_that_holds(one[metric], two[metric], repeats, truth) <= 0.98, metric


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_a_strategy_compared_with_itself_shows_no_difference(repeats: int) -> None:
    """On seeds of their own, as two sweeps of one config have noise of their own."""
    for metric, load in LOADS.items():
        one, two = (two_strategies(SWEEPS * repeats, seed, load)[0] for seed in (2, 3))
        assert share_that_holds(one[metric], two[metric], repeats, truth=1.0) >= 0.90, metric


@pytest.mark.parametrize(
    ("load", "metrics"), [(0.7, ("p50 E2E", "p99 E2E")), (1.3, ("steady throughput",))], ids=str
)
def test_it_holds_the_truth_of_real_strategies_too(load: float, metrics: tuple[str, ...]) -> None:
    base, other = pair = ("naive", "continuous")
    rate = load * capacity(("naive", "gated"))
    truth, sweeps = (
        [coverage.trial(first + k, rate, strategies=pair, count=150) for k in range(count)]
        for first, count in ((coverage.OF_TRUTH, 150), (coverage.OF_SWEEPS, 240))
    )
    for metric in metrics:
        sides = ([one[name][metric] for one in sweeps] for name in pair)
        held = coverage.held(*sides, 3, coverage.mean_ratio(truth, base, other, metric))
        assert 0.90 <= held <= 0.99, metric


def test_the_whole_of_it_prints_a_share_for_every_pair_metric_and_number_of_repeats(
    capsys: pytest.CaptureFixture[str],
) -> None:
    coverage.main(["--sweeps", "1", "--runs", "2"])
    said = capsys.readouterr().out
    for load in coverage.LOADS:
        assert f"{load} of naive's capacity; 2 runs, 1 sweeps of 10" in said
    assert said.count("continuous ÷ naive = ") == 2 * len(coverage.METRICS)
    assert said.count("of 36 are from 90% to 98%") == 6
    assert said.count("100.0%   naive, lockstep") == 1, "trials of 199 arrivals are too short"
