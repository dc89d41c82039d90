"""Arrival processes: when requests come, in an open loop that does not look at the server.

Each process is drawn at unit rate (mean gap 1) up to a horizon of `rate · duration_s` and divided by the
rate, so one seed gives the same pattern at every rate, and a higher rate only shows more of it.

Time 0 is a moment picked without regard to the arrivals, not an arrival: the first one comes after what is
left of a gap already under way. That makes the process stationary, so the expected number of
arrivals is exactly `rate · duration_s`; beginning a gamma process with a full gap would add about
(cv² − 1) ÷ 2 arrivals, a tenth of a short trial at cv = 3.

gaps: gamma with shape k = 1/cv² and scale cv² (mean 1, standard deviation cv); cv = 1 is the exponential law,
hence Poisson. What is left of a gap has density 1 − F(x) (Cox, Renewal Theory, 1962, ch. 5), which is a
uniform share of a gap drawn from the length-biased law, here gamma with shape k + 1.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from workloads.errors import WorkloadError

Times = NDArray[np.float64]

GAPS_PER_DRAW = 1024  # any size gives the same arrivals: draws continue one stream


def gamma(rng: np.random.Generator, horizon: float, cv: float) -> Times:
    """Unit-rate arrival times in [0, horizon) with gamma gaps of coefficient of variation `cv` > 0."""
    if not 0 < cv < np.inf:
        raise WorkloadError(f"cv must be above 0 and finite, got {cv}")
    shape, scale = cv**-2, cv**2
    end = rng.random() * rng.standard_gamma(shape + 1) * scale
    parts: list[Times] = [np.array([end])]
    while end < horizon:
        gaps = rng.standard_gamma(shape, GAPS_PER_DRAW) * scale
        gaps[0] += end
        parts.append(np.cumsum(gaps))
        end = parts[-1][-1]
    times = np.concatenate(parts)
    return times[times < horizon]


def poisson(rng: np.random.Generator, horizon: float, cv: float = 1.0) -> Times:
    """Unit-rate Poisson arrival times in [0, horizon); `cv` is 1 by definition."""
    if cv != 1.0:
        raise WorkloadError(f"cv must be 1 for poisson arrivals, got {cv}")
    return gamma(rng, horizon, 1.0)


def constant(rng: np.random.Generator, horizon: float, cv: float = 0.0) -> Times:
    """Evenly spaced unit-rate arrival times ½, 1½, 2½, … in [0, horizon); draws nothing."""
    if cv != 0.0:
        raise WorkloadError(f"cv must be 0 for constant arrivals, got {cv}")
    return np.arange(max(0, int(np.ceil(horizon - 0.5))), dtype=np.float64) + 0.5


PROCESSES: dict[str, Callable[..., Times]] = {
    "constant": constant,
    "gamma": gamma,
    "poisson": poisson,
}


def arrival_times(
    process: str, *, rate: float, duration_s: float, cv: float | None, rng: np.random.Generator
) -> Times:
    """Planned arrivals in seconds, never decreasing, in [0, duration_s), at `rate` per second.

    `cv` is for gamma alone (None otherwise). WorkloadError on an unknown process or an impossible number.
    """
    if process not in PROCESSES:
        raise WorkloadError(f"process must be one of {', '.join(PROCESSES)}, got {process}")
    check_period(rate, duration_s)
    horizon = rate * duration_s
    draw = PROCESSES[process]
    times = (draw(rng, horizon) if cv is None else draw(rng, horizon, cv)) / rate
    return times[times < duration_s]  # a division can round up to the end itself


def check_period(rate: float, duration_s: float) -> None:
    """WorkloadError unless both are above 0 and finite."""
    for name, value in (("rate", rate), ("duration_s", duration_s)):
        if not 0 < value < np.inf:
            raise WorkloadError(f"{name} must be above 0 and finite, got {value}")
