"""A ratio of times, told by its geometric mean and interval."""

import numpy as np
from scipy import stats


def mean_and_interval(logs: np.ndarray) -> str:
    """Of logarithms of ratios: the geometric mean with the 95 % t-interval of the logs."""
    low, high = stats.t.interval(0.95, logs.size - 1, loc=logs.mean(), scale=stats.sem(logs))
    return f"{np.exp(logs.mean()):.3f} [{np.exp(low):.3f}, {np.exp(high):.3f}]"
