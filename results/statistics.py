"""Changes between two settings, paired on common random numbers.

Both sides of a pair served the same requests at the same moments (same seed), so what the seed does to
both cancels. The change is the log ratio of the two values per repeat, its mean, and Student's t-interval,
exponentiated: a ratio, 1 = no change, symmetric in "twice" and "half".
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
FEWEST_PAIRS = 3

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """other ÷ base with its 95 % interval, which is null with fewer than 3 pairs."""

    ratio: float
    low: float | None
    high: float | None
    pairs: int


def paired_ratio(base: Mapping[Key, float | None], other: Mapping[Key, float | None]) -> Ratio | None:
    """Compare the values under the keys (seeds) that both sides have; None if there is no such pair.

    A value that does not exist or is not above 0 has no logarithm and drops its pair.
    """
    in_base, in_other = comparable(base), comparable(other)
    keys = sorted(in_base & in_other, key=repr)
    if not keys:
        return None
    logs = np.array([math.log(_value(other, key)) - math.log(_value(base, key)) for key in keys])
    mean = float(logs.mean())
    if len(logs) < FEWEST_PAIRS:
        return Ratio(ratio=math.exp(mean), low=None, high=None, pairs=len(logs))
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, df=len(logs) - 1))
    half = quantile * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return Ratio(ratio=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half), pairs=len(logs))


def mean_interval(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Give the mean with its 95 % t-interval; None with fewer than 3 values."""
    if len(values) < FEWEST_PAIRS:
        return None
    mean = float(np.mean(values))
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, df=len(values) - 1))
    half = quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def comparable(values: Mapping[Key, float | None]) -> set[Key]:
    """Give the keys whose value has a logarithm."""
    return {key for key, value in values.items() if value is not None and value > 0}


def _value(values: Mapping[Key, float | None], key: Key) -> float:
    value = values[key]
    assert value is not None
    return value
