"""Classes of requests: which of them each request belongs to, and how soon its first token is wanted.

Class 0 is the most urgent. Requests are given classes independently of when they come and how long they are, so
that classes differ in nothing else.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workloads.errors import WorkloadError

MS_PER_S = 1e3


def draw(weights: Sequence[float], rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """A class for each of `count` requests, as often as its weight says; more of them continue the list."""
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative / cumulative[-1], rng.random(count), side="right").astype(np.int64)


def targets_s(targets_ms: Sequence[float], classes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The TTFT target of each request, in seconds: of its class, or the one for all."""
    seconds = np.asarray(targets_ms, dtype=np.float64) / MS_PER_S
    return seconds[classes] if len(seconds) > 1 else np.full(len(classes), seconds[0])


def check(weights: Sequence[float] | None, targets_ms: Sequence[float] | None) -> None:
    """WorkloadError, which begins with the key, unless both can be followed; None is what was left out."""
    shares = list(weights or ())
    if weights is not None and not (
        shares and all(0 <= share < float("inf") for share in shares) and sum(shares) > 0
    ):
        raise WorkloadError(f"priority must be weights, finite, at least 0 and not all 0, got {shares}")
    if targets_ms is None:
        return
    if wrong := [target for target in targets_ms if not 0 < target < float("inf")]:
        raise WorkloadError(f"ttft_target_ms must be above 0 and finite, in milliseconds, got {wrong[0]:g}")
    if len(targets_ms) not in {1, len(shares)}:
        of_classes = f", or one for each of the {len(shares)} classes of priority" if len(shares) > 1 else ""
        raise WorkloadError(f"ttft_target_ms must be one target{of_classes}, got {len(targets_ms)}")
