"""Token lengths: integer laws from which prompt and output lengths are drawn.

Every law is a table of values and their probabilities, and lengths are drawn by inverting its cumulative
table with one uniform number each. So the means below are those of exactly what is drawn, and
changing a law keeps each request's place in it: the request with the longest output stays the longest.

E[max of n] = Σ v·(F(v)ⁿ − F(v−)ⁿ), the steps a lockstep batch of n takes to decode.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from workloads.errors import WorkloadError

LONGEST_TOKENS = 1 << 20  # a table has one entry a length; no model reads more
SIGMA_PER_SKEW, LEAST_SKEW = 3.0, 1e-9  # of long_tail; below the least, rounding leaves one length


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LengthLaw:
    """A law over whole numbers of tokens: `values` increasing, `cumulative` their F, ending at 1."""

    values: NDArray[np.int64]
    cumulative: NDArray[np.float64]

    @property
    def maximum(self) -> int:
        """The top of the law, in tokens."""
        return int(self.values[-1])

    def mean(self) -> float:
        """Expected length in tokens."""
        return self.mean_of_maximum(1)

    def mean_of_maximum(self, n: int) -> float:
        """Expected longest of `n` independent draws, in tokens."""
        if n < 1:
            raise WorkloadError(f"n must be at least 1, got {n}")
        return float(self.values @ np.diff(self.cumulative**n, prepend=0.0))

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """`count` independent lengths in tokens; more of them continue the same list."""
        return self.values[np.searchsorted(self.cumulative, rng.random(count), side="right")]


def fixed(*, tokens: int) -> LengthLaw:
    """Always `tokens`."""
    _check_bounds("tokens", tokens, "tokens", tokens)
    return _law(np.array([tokens]), np.array([1.0]))


def uniform(*, low: int, high: int) -> LengthLaw:
    """Each whole number from `low` to `high`, both included, equally often."""
    _check_bounds("low", low, "high", high)
    values = np.arange(low, high + 1)
    return _law(values, np.arange(1, len(values) + 1) / len(values))


def lognormal(*, median: float, sigma: float, minimum: int, maximum: int) -> LengthLaw:
    """A long tail: exp(N(ln median, sigma²)) rounded to whole tokens and clipped to minimum..maximum.

    Clipped, not cut: what falls outside is counted at the bound, so the top is a length that occurs.
    """
    from scipy.special import ndtr  # slow to import, and every trial process imports this module

    _check_bounds("minimum", minimum, "maximum", maximum)
    for name, value in (("median", median), ("sigma", sigma)):
        if not 0 < value < np.inf:
            raise WorkloadError(f"{name} must be above 0 and finite, got {value}")
    values = np.arange(minimum, maximum + 1)
    cumulative = np.asarray(ndtr((np.log(values + 0.5) - np.log(median)) / sigma), dtype=np.float64)
    cumulative[-1] = 1.0
    return _law(values, cumulative)


@lru_cache(maxsize=64)
def long_tail(*, mean: int, skew: float, maximum: int) -> LengthLaw:
    """Lengths of one mean and any spread, from all equal (`skew` 0) to a few that hold most tokens (1).

    exp(N(ln m, σ²)) with σ = 3·skew, rounded to whole tokens and clipped to 1..`maximum`; m is solved for, so
    that `mean` is the mean of the clipped law itself. So the work offered stays the same, and what
    changes with skew is how unequally the requests share it. Skew 0.6 is the σ of 1.8 of a chat load.
    """
    from scipy.optimize import brentq  # as above

    _check_bounds("mean", mean, "maximum", maximum)
    if not 0 <= skew <= 1:
        raise WorkloadError(f"skew must be in 0..1, got {skew:g}")
    if skew < LEAST_SKEW or mean in (1, maximum):  # a mean at a bound leaves no room for other lengths
        return fixed(tokens=mean)

    def law(log_median: float) -> LengthLaw:
        median = math.exp(log_median)
        return lognormal(median=median, sigma=SIGMA_PER_SKEW * skew, minimum=1, maximum=maximum)

    widest = math.log(LONGEST_TOKENS) + 10 * SIGMA_PER_SKEW  # there the law is all at one bound
    return law(brentq(lambda x: law(x).mean() - mean, -widest, widest, xtol=1e-12))


def empirical(*, values: Sequence[int], weights: Sequence[float] | None = None) -> LengthLaw:
    """The given lengths, each as often as its weight says (equally often without weights)."""
    if not values:
        raise WorkloadError("values must hold at least 1 length, got none")
    if weights is not None and len(weights) != len(values):
        raise WorkloadError(f"weights must be as many as values, {len(values)}, got {len(weights)}")
    shares = np.asarray(weights if weights is not None else np.ones(len(values)), dtype=np.float64)
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.sum() > 0):
        raise WorkloadError(f"weights must be finite, at least 0 and not all 0, got {shares.tolist()}")
    _check_bounds("values", min(values), "values", max(values))
    possible = shares > 0  # the top of the law must be a length that occurs
    distinct, places = np.unique(np.asarray(values)[possible], return_inverse=True)
    cumulative = np.cumsum(np.bincount(places, weights=shares[possible]))
    return _law(distinct, cumulative / cumulative[-1])


def _law(values: NDArray[np.int64], cumulative: NDArray[np.float64]) -> LengthLaw:
    return LengthLaw(values=values.astype(np.int64), cumulative=cumulative)


def _check_bounds(low_name: str, low: int, high_name: str, high: int) -> None:
    if low < 1:
        raise WorkloadError(f"{low_name} must be at least 1, got {low}")
    if high < low:
        raise WorkloadError(f"{high_name} must be at least {low_name}, {low}, got {high}")
    if high > LONGEST_TOKENS:
        raise WorkloadError(f"{high_name} must be at most {LONGEST_TOKENS}, got {high}")
