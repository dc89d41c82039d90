"""Paired changes, by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from results.statistics import paired_ratio


def test_the_change_is_the_geometric_mean_of_the_pairs() -> None:
    found = paired_ratio({0: 1.0, 1: 2.0, 2: 4.0}, {0: 2.0, 1: 2.0, 2: 16.0})
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    # log2 ratios 1, 0, 2: mean 1, standard error 1/√3, t(0.975, 2) = 4.3027
    half = 4.302653 / math.sqrt(3)
    assert found.low == pytest.approx(2 ** (1 - half), rel=1e-6)
    assert found.high == pytest.approx(2 ** (1 + half), rel=1e-6)
    assert found.pairs == 3


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    base = dict(enumerate(rng.lognormal(size=6).tolist()))
    other = {key: value * math.exp(0.3 + 0.05 * key) for key, value in base.items()}
    found = paired_ratio(base, other)
    logs = [[math.log(side[key]) for key in base] for side in (other, base)]
    expected = stats.ttest_rel(*logs).confidence_interval(0.95)
    assert found is not None
    assert found.low == pytest.approx(math.exp(expected.low))
    assert found.high == pytest.approx(math.exp(expected.high))


@pytest.mark.parametrize("pairs", [1, 2])
def test_few_pairs_have_a_ratio_and_no_interval(pairs: int) -> None:
    found = paired_ratio(dict.fromkeys(range(pairs), 1.0), dict.fromkeys(range(pairs), 3.0))
    assert found is not None
    assert found.ratio == pytest.approx(3.0)
    assert (found.low, found.high, found.pairs) == (None, None, pairs)


def test_only_common_seeds_are_paired() -> None:
    found = paired_ratio({0: 1.0, 1: 5.0, 2: None, 3: 0.0}, {0: 2.0, 2: 1.0, 3: 1.0, 4: 9.0})
    assert found is not None
    assert (found.ratio, found.pairs) == (pytest.approx(2.0), 1)


def test_no_pair_no_change() -> None:
    assert paired_ratio({0: 1.0}, {1: 1.0}) is None
    assert paired_ratio({0: None}, {0: 1.0}) is None


def test_equal_pairs_give_an_interval_without_width() -> None:
    found = paired_ratio(dict.fromkeys(range(3), 2.0), dict.fromkeys(range(3), 2.0))
    assert found is not None
    assert found.low == found.ratio == found.high == 1.0
