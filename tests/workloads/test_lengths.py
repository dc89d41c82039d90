import heapq
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import lengths
from workloads.errors import WorkloadError
from workloads.lengths import LONGEST_TOKENS, LengthLaw

examples = settings(deadline=None)  # a shared machine has pauses

LAWS = {
    "fixed": lengths.fixed(tokens=17),
    "uniform": lengths.uniform(low=3, high=9),
    "long tail": lengths.lognormal(median=20, sigma=1.8, minimum=1, maximum=600),
    "empirical": lengths.empirical(values=[50, 120, 500, 80]),
    "skewed": lengths.long_tail(mean=72, skew=0.6, maximum=600),
    "weighted": lengths.empirical(values=[10, 400, 10, 30], weights=[1, 2, 3, 0]),
}


def law_strategy() -> st.SearchStrategy[LengthLaw]:
    tokens = st.integers(1, 3000)
    bounds = st.tuples(tokens, tokens).map(sorted)
    return st.one_of(
        tokens.map(lambda n: lengths.fixed(tokens=n)),
        bounds.map(lambda b: lengths.uniform(low=b[0], high=b[1])),
        st.builds(
            lambda b, median, sigma: lengths.lognormal(
                median=median, sigma=sigma, minimum=b[0], maximum=b[1]
            ),
            bounds,
            st.floats(0.1, 1e4),
            st.floats(0.01, 5),
        ),
        st.builds(
            lambda b, skew: lengths.long_tail(mean=b[0], skew=skew, maximum=b[1]), bounds, st.floats(0, 1)
        ),
        st.lists(st.tuples(tokens, st.floats(0.01, 10)), min_size=1, max_size=20).map(
            lambda pairs: lengths.empirical(values=[v for v, _ in pairs], weights=[w for _, w in pairs])
        ),
    )


@examples
@given(law=law_strategy(), seed=st.integers(0, 2**32), count=st.integers(0, 200))
def test_lengths_are_whole_positive_and_within_the_law(law: LengthLaw, seed: int, count: int) -> None:
    drawn = law.draw(np.random.default_rng(seed), count)
    assert len(drawn) == count
    assert drawn.dtype == np.int64
    assert set(drawn.tolist()) <= set(law.values.tolist())
    assert all(1 <= n <= law.maximum for n in drawn)


@examples
@given(law=law_strategy(), n=st.integers(1, 64))
def test_the_longest_of_more_draws_is_expected_no_shorter_and_never_above_the_top(
    law: LengthLaw, n: int
) -> None:
    one, few, more = law.mean(), law.mean_of_maximum(n), law.mean_of_maximum(n + 1)
    slack = 1e-9 * law.maximum
    assert law.values[0] - slack <= one <= few + slack
    assert few <= more + slack
    assert more <= law.maximum + slack


@examples
@given(law=law_strategy(), seed=st.integers(0, 2**32))
def test_more_draws_continue_the_same_list(law: LengthLaw, seed: int) -> None:
    few = law.draw(np.random.default_rng(seed), 10)
    np.testing.assert_array_equal(law.draw(np.random.default_rng(seed), 30)[:10], few)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [1, 4, 32])
def test_expectations_are_those_of_what_is_drawn(name: str, n: int) -> None:
    law = LAWS[name]
    longest = law.draw(np.random.default_rng(5), n * 4000).reshape(-1, n).max(axis=1)
    error = longest.std() / np.sqrt(len(longest))
    assert law.mean_of_maximum(n) == pytest.approx(longest.mean(), abs=4 * error + law.maximum / 2000)


def test_longest_of_uniform_draws_has_its_closed_form() -> None:
    law, n, top = lengths.uniform(low=1, high=6), 3, 6
    assert law.mean() == pytest.approx(3.5)
    assert law.mean_of_maximum(n) == pytest.approx(top - sum((k / top) ** n for k in range(1, top)))


def test_longest_of_geometric_draws_has_its_closed_form() -> None:
    q, n, top = 0.9, 4, 2000
    values = np.arange(1, top + 1)
    law = lengths.empirical(values=values.tolist(), weights=((1 - q) * q ** (values - 1.0)).tolist())
    exact = 1 / (1 - q**1) * 4 - 6 / (1 - q**2) + 4 / (1 - q**3) - 1 / (1 - q**4)
    assert law.mean_of_maximum(n) == pytest.approx(exact, rel=1e-9)


def test_a_batch_of_fixed_lengths_wastes_nothing() -> None:
    assert LAWS["fixed"].mean_of_maximum(64) == LAWS["fixed"].mean() == 17


def test_weights_count_repeated_values_together() -> None:
    law = LAWS["weighted"]
    assert law.values.tolist() == [10, 400]
    assert law.mean() == pytest.approx((4 * 10 + 2 * 400) / 6)
    assert law.mean_of_maximum(2) == pytest.approx((4 / 6) ** 2 * 10 + (1 - (4 / 6) ** 2) * 400)


def test_the_lognormal_keeps_its_median_and_piles_up_at_its_bounds() -> None:
    law = lengths.lognormal(median=20, sigma=1.8, minimum=5, maximum=600)
    drawn = law.draw(np.random.default_rng(3), 100_000)
    rounded = np.rint(20 * np.exp(1.8 * np.random.default_rng(4).standard_normal(100_000)))
    expected = np.clip(rounded, 5, 600)
    assert np.median(drawn) == pytest.approx(20, abs=1)
    assert drawn.mean() == pytest.approx(expected.mean(), rel=0.03)
    assert (drawn == 5).mean() == pytest.approx((expected == 5).mean(), abs=0.01)
    assert (drawn == 600).mean() == pytest.approx((expected == 600).mean(), abs=0.004)


@examples
@given(
    bounds=st.tuples(st.integers(1, 3000), st.integers(1, 3000)).map(sorted),
    skews=st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    n=st.integers(2, 64),
)
def test_a_long_tail_keeps_its_mean_as_its_skew_grows_and_its_longest_grows(
    bounds: list[int], skews: list[float], n: int
) -> None:
    mean, maximum = bounds
    less, more = (lengths.long_tail(mean=mean, skew=skew, maximum=maximum) for skew in skews)
    assert less.mean() == pytest.approx(mean, rel=1e-9)
    assert more.mean() == pytest.approx(mean, rel=1e-9)
    assert less.mean_of_maximum(n) <= more.mean_of_maximum(n) * (1 + 1e-9)


def test_a_long_tail_without_skew_is_all_equal() -> None:
    law = lengths.long_tail(mean=72, skew=0.0, maximum=600)
    assert law.values.tolist() == [72]
    assert law.mean_of_maximum(64) == 72


def test_a_long_tail_is_the_lognormal_of_its_skew() -> None:
    same = lengths.lognormal(median=20, sigma=1.8, minimum=1, maximum=600)
    rounded = round(same.mean())  # 72: the mean of a long tail is a whole number
    law = lengths.long_tail(mean=rounded, skew=0.6, maximum=600)
    np.testing.assert_allclose(law.cumulative, same.cumulative, atol=0.002)
    assert law.mean_of_maximum(8) == pytest.approx(same.mean_of_maximum(8), rel=0.005)


def passes(output_tokens: list[int], slots: int) -> tuple[int, int]:
    """Forward passes of all requests at once, batch by batch and with each slot refilled when it is free."""
    static = sum(max(output_tokens[i : i + slots]) for i in range(0, len(output_tokens), slots))
    ends = [0] * slots
    for tokens in output_tokens:
        heapq.heapreplace(ends, ends[0] + tokens)
    return static, max(ends)


def test_the_published_long_tail_has_its_shape_and_order() -> None:
    """64 requests in 8 slots: throughput ×1.00, ×2.31, ×3.11 at skew 0, 0.3, 0.6, and there 0.22 and 0.69 of
    the slots used. Ours is another draw of a like law, so a band, not its digits.
    """
    slots, gains, used = 8, [], []
    for skew in (0.0, 0.3, 0.6):
        law = lengths.long_tail(mean=72, skew=skew, maximum=600)
        drawn = [law.draw(np.random.default_rng(seed), 64).tolist() for seed in range(200)]
        counted = [passes(tokens, slots) for tokens in drawn]
        gains.append(np.mean([static / refilled for static, refilled in counted]))
        used.append(
            [np.mean([sum(t) / slots / c[i] for t, c in zip(drawn, counted, strict=True)]) for i in (0, 1)]
        )
    assert gains[0] == 1.0
    assert gains[1] == pytest.approx(2.31, abs=0.3)
    assert gains[2] == pytest.approx(3.11, abs=0.4)
    assert used[2] == pytest.approx([0.22, 0.69], abs=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lengths.fixed(tokens=0), "tokens must be at least 1, got 0"),
        (lambda: lengths.uniform(low=0, high=3), "low must be at least 1, got 0"),
        (lambda: lengths.uniform(low=5, high=3), "high must be at least low, 5, got 3"),
        (
            lambda: lengths.uniform(low=5, high=LONGEST_TOKENS + 1),
            f"high must be at most {LONGEST_TOKENS}, got {LONGEST_TOKENS + 1}",
        ),
        (
            lambda: lengths.lognormal(median=0, sigma=1, minimum=1, maximum=9),
            "median must be above 0 and finite, got 0",
        ),
        (
            lambda: lengths.lognormal(median=4, sigma=float("nan"), minimum=1, maximum=9),
            "sigma must be above 0 and finite, got nan",
        ),
        (lambda: lengths.long_tail(mean=0, skew=0.5, maximum=9), "mean must be at least 1, got 0"),
        (lambda: lengths.long_tail(mean=9, skew=0.5, maximum=8), "maximum must be at least mean, 9, got 8"),
        (lambda: lengths.long_tail(mean=4, skew=1.5, maximum=9), "skew must be in 0..1, got 1.5"),
        (lambda: lengths.long_tail(mean=4, skew=-0.1, maximum=9), "skew must be in 0..1, got -0.1"),
        (lambda: lengths.long_tail(mean=4, skew=float("nan"), maximum=9), "skew must be in 0..1, got nan"),
        (lambda: lengths.empirical(values=[]), "values must hold at least 1 length, got none"),
        (lambda: lengths.empirical(values=[3, 0]), "values must be at least 1, got 0"),
        (
            lambda: lengths.empirical(values=[3, 4], weights=[1.0]),
            "weights must be as many as values, 2, got 1",
        ),
        (
            lambda: lengths.empirical(values=[3, 4], weights=[0.0, 0.0]),
            "weights must be finite, at least 0 and not all 0, got [0.0, 0.0]",
        ),
        (
            lambda: lengths.empirical(values=[3, 4], weights=[2.0, -1.0]),
            "weights must be finite, at least 0 and not all 0, got [2.0, -1.0]",
        ),
        (lambda: lengths.fixed(tokens=3).mean_of_maximum(0), "n must be at least 1, got 0"),
    ],
)
def test_an_impossible_law_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        make()
    assert str(caught.value) == message
