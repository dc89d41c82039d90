from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import lengths
from workloads.errors import WorkloadError
from workloads.lengths import LONGEST_TOKENS, LengthLaw

LAWS = {
    "fixed": lengths.fixed(tokens=17),
    "uniform": lengths.uniform(low=3, high=9),
    "long tail": lengths.lognormal(median=20, sigma=1.8, minimum=1, maximum=600),
    "empirical": lengths.empirical(values=[50, 120, 500, 80]),
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
        st.lists(st.tuples(tokens, st.floats(0.01, 10)), min_size=1, max_size=20).map(
            lambda pairs: lengths.empirical(values=[v for v, _ in pairs], weights=[w for _, w in pairs])
        ),
    )


@given(law=law_strategy(), seed=st.integers(0, 2**32), count=st.integers(0, 200))
def test_lengths_are_whole_positive_and_within_the_law(law: LengthLaw, seed: int, count: int) -> None:
    drawn = law.draw(np.random.default_rng(seed), count)
    assert len(drawn) == count
    assert all(type(n) is int and n in set(law.values.tolist()) for n in drawn)
    assert all(1 <= n <= law.maximum for n in drawn)


@given(law=law_strategy(), n=st.integers(1, 64))
def test_the_longest_of_more_draws_is_expected_no_shorter_and_never_above_the_top(
    law: LengthLaw, n: int
) -> None:
    one, few, more = law.mean(), law.mean_of_maximum(n), law.mean_of_maximum(n + 1)
    slack = 1e-9 * law.maximum
    assert law.values[0] - slack <= one <= few + slack
    assert few <= more + slack
    assert more <= law.maximum + slack


@given(law=law_strategy(), seed=st.integers(0, 2**32))
def test_more_draws_continue_the_same_list(law: LengthLaw, seed: int) -> None:
    few = law.draw(np.random.default_rng(seed), 10)
    assert law.draw(np.random.default_rng(seed), 30)[:10] == few


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [1, 4, 32])
def test_expectations_are_those_of_what_is_drawn(name: str, n: int) -> None:
    law = LAWS[name]
    longest = np.array(law.draw(np.random.default_rng(5), n * 4000)).reshape(-1, n).max(axis=1)
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
    drawn = np.array(law.draw(np.random.default_rng(3), 100_000))
    rounded = np.rint(20 * np.exp(1.8 * np.random.default_rng(4).standard_normal(100_000)))
    expected = np.clip(rounded, 5, 600)
    assert np.median(drawn) == pytest.approx(20, abs=1)
    assert drawn.mean() == pytest.approx(expected.mean(), rel=0.03)
    assert (drawn == 5).mean() == pytest.approx((expected == 5).mean(), abs=0.01)
    assert (drawn == 600).mean() == pytest.approx((expected == 600).mean(), abs=0.004)


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
