"""What theory says on average, with a fixed seed: the answer lies in the interval of independent repeats.

Each repeat is a run of its own, so that their means are independent; the interval is Student's t at 99.9 %,
and a run that begins empty is long enough for its start not to matter.
"""

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from deployments.virtual.driver import simulate
from deployments.virtual.iteration import Iteration
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from strategies.registry import create

Floats = npt.NDArray[np.float64]
STEP_S = 2**-10
TICKS = Linear(fixed_s=STEP_S, per_sequence_s=0.0, per_prefill_token_s=0.0)
REPEATS, LEVEL = 20, 0.999


def poisson(rng: np.random.Generator, rate: float, outputs: npt.NDArray[np.int64]) -> RequestColumns:
    return RequestColumns(
        planned_s=np.cumsum(rng.exponential(1 / rate, len(outputs))),
        prompt_tokens=np.ones(len(outputs), dtype=np.int64),
        output_tokens=outputs,
        max_new_tokens=np.full(len(outputs), outputs.max()),
    )


def generators(seed: int) -> list[np.random.Generator]:
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(REPEATS)]


def run(name: str, requests: RequestColumns, engine: Lockstep | Iteration, size: int, **knobs: float) -> Run:
    return simulate(requests, create(name, {"max_batch_size": size, **knobs}), engine, max_batch_size=size)


def interval(values: list[float]) -> tuple[float, float]:
    low, high = stats.t.interval(LEVEL, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    return float(low), float(high)


def assert_within(values: list[float], answer: float, *, width: float) -> None:
    """The interval holds the answer, and is narrow enough to say something."""
    low, high = interval(values)
    assert low <= answer <= high
    assert high - low <= width * answer


@pytest.mark.parametrize(("rate", "mean_s"), [(1, 7.5), (20, 0.375), (50, 0.15)])
def test_naive_waits_for_its_batch_to_fill(rate, mean_s):
    """Request k of N waits (N − k)/λ for the last one; the engine is always free."""
    size, waits = 16, []
    for rng in generators(1):
        requests = poisson(rng, rate, np.ones(16 * 100, dtype=np.int64))
        free = Lockstep(step=Linear(fixed_s=1e-9, per_sequence_s=0.0, per_prefill_token_s=0.0))
        result = run("naive", requests, free, size)
        waits.append((result.scheduled_s - requests.planned_s).reshape(-1, size).mean(axis=0))
    assert_within([float(wait.mean()) for wait in waits], mean_s, width=0.1)
    by_place = np.mean(waits, axis=0) * rate
    assert by_place == pytest.approx(np.arange(size - 1, -1, -1), rel=0.05)


def geometric(rng: np.random.Generator, mean: float, count: int) -> npt.NDArray[np.int64]:
    return rng.geometric(1 / mean, count)


@pytest.mark.parametrize(
    ("utilisation", "count", "width"), [(0.5, 5_000, 0.3), (0.8, 10_000, 0.3), (0.9, 5_000, 0.6)]
)
def test_one_at_a_time_exponential_service_waits_as_in_m_m_1(utilisation, count, width):
    """ρ/(μ − λ) in the queue, 1/(μ − λ) in the system. Tokens make geometric service: ρ is taken at its mean."""
    mean_tokens, waits, sojourns = 1000.0, [], []
    service_s = mean_tokens * STEP_S
    for rng in generators(2):
        requests = poisson(rng, utilisation / service_s, geometric(rng, mean_tokens, count))
        result = run("dynamic", requests, Lockstep(step=TICKS), 1, max_wait_ms=0)
        waits.append(float((result.scheduled_s - requests.planned_s).mean()) / service_s)
        sojourns.append(float((result.returned_s - requests.planned_s).mean()) / service_s)
    assert_within(waits, utilisation / (1 - utilisation), width=width)
    assert_within(sojourns, 1 / (1 - utilisation), width=width)


def test_one_at_a_time_equal_service_waits_half_as_long():
    waits = []
    for rng in generators(3):
        requests = poisson(rng, 0.8 / STEP_S, np.ones(10_000, dtype=np.int64))
        engine = Iteration(step=TICKS, max_num_seqs=1)
        result = run("continuous", requests, engine, 1)
        waits.append(float((result.scheduled_s - requests.planned_s).mean()) / STEP_S)
    assert_within(waits, 0.5 * 0.8 / 0.2, width=0.2)


def test_one_at_a_time_any_service_waits_as_pollaczek_and_khinchine_say():
    """λE[S²] / (2(1 − ρ)), with services of 1 and 9 steps."""
    waits = []
    for rng in generators(4):
        outputs = rng.choice([1, 9], 10_000, p=[0.75, 0.25])
        requests = poisson(rng, 0.7 / (3 * STEP_S), outputs)
        result = run("naive", requests, Lockstep(step=TICKS), 1)
        waits.append(float((result.scheduled_s - requests.planned_s).mean()) / STEP_S)
    second_moment = 0.75 * 1 + 0.25 * 81
    assert_within(waits, (0.7 / 3) * second_moment / (2 * 0.3), width=0.2)


@pytest.mark.parametrize(("rate", "mean"), [(5, 1.25), (50, 3.5), (400, 15.75)])
def test_dynamic_on_a_free_server_launches_what_came_while_it_waited(rate, mean):
    """E[B] = 1 + Σ_{k<cap} P(Poisson(λw) ≥ k); min(1 + λw, cap) is only an upper bound."""
    cap, wait_s, sizes = 16, 0.05, []
    exact = 1 + sum(stats.poisson.sf(k - 1, rate * wait_s) for k in range(1, cap))
    assert exact == pytest.approx(mean, abs=0.005)
    for rng in generators(5):
        requests = poisson(rng, rate, np.ones(4_000, dtype=np.int64))
        free = Lockstep(step=Linear(fixed_s=1e-9, per_sequence_s=0.0, per_prefill_token_s=0.0))
        result = run("dynamic", requests, free, cap, max_wait_ms=1e3 * wait_s)
        sizes.append(float(result.launches["size"][:-1].mean()))
    assert_within(sizes, exact, width=0.1)


@pytest.mark.parametrize("rows", [4, 16])
def test_lockstep_is_as_efficient_as_the_mean_is_to_the_mean_maximum(rows):
    """E[X] ÷ E[max of B]; for geometric lengths E[max] = Σ_n 1 − (1 − (1 − p)ⁿ)^B, near 1/H_B."""
    mean = 50.0
    beyond = (1 - 1 / mean) ** np.arange(10_000)
    exact = mean / (1 - (1 - beyond) ** rows).sum()
    assert exact == pytest.approx(1 / (1 / np.arange(1, rows + 1)).sum(), rel=0.02)
    shares = []
    for rng in generators(6):
        requests = poisson(rng, 1e6, geometric(rng, mean, rows * 250))
        result = run("naive", requests, Lockstep(step=TICKS), rows)
        shares.append(result.utilisation or 0.0)
    assert_within(shares, float(exact), width=0.05)


@pytest.mark.parametrize(("cap", "tokens_per_s"), [(16, 580), (32, 964)])
def test_saturated_continuous_makes_cap_tokens_a_step(cap, tokens_per_s):
    """cap ÷ (c0 + c1·cap), prefill free, once all slots are taken and before they empty."""
    model = Linear(per_prefill_token_s=0.0)
    exact = cap / model.step_s(cap)
    assert exact == pytest.approx(tokens_per_s, rel=0.001)
    rates = []
    for rng in generators(7):
        requests = poisson(rng, 1e6, geometric(rng, 100, 500))
        result = run("continuous", requests, Iteration(step=model, max_num_seqs=cap), cap)
        full = result.runs["resident"] == cap
        tokens = (result.runs["decoding"] * result.runs["steps"] + result.runs["first_tokens"])[full]
        rates.append(float(tokens.sum() / (result.runs["end_s"] - result.runs["start_s"])[full].sum()))
    assert rates == pytest.approx([exact] * REPEATS, rel=1e-9)


def long_tail(rng: np.random.Generator, count: int, skew: float) -> npt.NDArray[np.int64]:
    """Lognormal of median 20 and σ = 3·skew, clipped at 600; equal lengths at skew 0."""
    return np.clip(np.round(20 * np.exp(3 * skew * rng.standard_normal(count))), 1, 600).astype(np.int64)


def test_the_gain_of_continuous_grows_with_the_skew_of_the_lengths():
    """64 requests in 8 slots: nothing at no variance, about 2.3 and 3.1 in one published trace."""
    gains: dict[float, list[float]] = {skew: [] for skew in (0.0, 0.3, 0.6)}
    static_shares, continuous_shares = [], []
    for rng in generators(8):
        for skew, of_skew in gains.items():
            outputs = long_tail(rng, 64, skew)
            requests = RequestColumns(
                planned_s=np.zeros(64),
                prompt_tokens=np.ones(64, dtype=np.int64),
                output_tokens=outputs,
                max_new_tokens=np.full(64, 600),
            )
            static = run("naive", requests, Lockstep(step=TICKS), 8)
            continuous = run("continuous", requests, Iteration(step=TICKS, max_num_seqs=8), 8)
            of_skew.append(static.passes / continuous.passes)
            if skew == 0.6:
                static_shares.append(static.utilisation or 0.0)
                continuous_shares.append(continuous.utilisation or 0.0)
    assert set(gains[0.0]) == {1.0}
    assert interval(gains[0.3])[0] > 1.0
    assert interval(gains[0.3])[1] < interval(gains[0.6])[0]
    assert interval(static_shares)[0] < 0.30
    assert interval(static_shares)[1] < 0.40
    assert interval(continuous_shares)[0] > 0.55
