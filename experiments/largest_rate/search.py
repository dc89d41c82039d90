"""Bisection for the largest rate that is within a service level: from what was tried to what is tried next.

A pure function of the trials so far, so that an interrupted search goes on where it was. Rates have three
digits.

1. From the start upwards by 1.5 while rates are within, downwards while they are not: by 1.4 twice, then by 2.
   Before the second step down once up by 1.3. A strategy that waits for full batches is slow at low rates too, and
   long steps down would pass over the rates that are within.
2. Between the highest rate that is within and the lowest above it that is not: their geometric mean, until the two
   are within `width` of each other.
3. A trial may mislead, most of all near the edge: each of the two is tried again, with other requests. Where two
   trials of a rate disagree a third decides, and if that turns an edge the search goes on from there.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

UP, FIRST_DOWN, DOWN, ONCE_UP = 1.5, 1.4, 2.0, 1.3
MOST_UP, MOST_DOWN = 16, 6  # steps from the start: beyond them there is no edge worth looking for


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One trial that was run, and whether it was within."""

    rate: float
    repeat: int
    within: bool


@dataclass(frozen=True, slots=True)
class Try:
    """The trial to run next."""

    rate: float
    repeat: int  # from 0: how often this rate has been tried


@dataclass(frozen=True, slots=True)
class Bracket:
    """The largest rate within lies between these two; None: none was found within, or beyond."""

    within: float | None
    beyond: float | None


def next_try(trials: Iterable[Judged], *, start: float, width: float) -> Try | Bracket:
    """What to try next, or the bracket once it is narrow enough: beyond ÷ within ≤ 1 + width."""
    found: dict[float, list[bool]] = defaultdict(list)
    for trial in sorted(trials, key=lambda one: one.repeat):
        found[trial.rate].append(trial.within)
    for split, verdicts in sorted(found.items()):
        if 2 * sum(verdicts) == len(verdicts):
            return Try(split, len(verdicts))
    if not found:
        return Try(three_digits(start), 0)
    edges = bracket(found)
    if edges.within is None and len(found) > 1 and (up := three_digits(start * ONCE_UP)) not in found:
        return Try(up, 0)
    if (rate := _between(edges, start, width)) is not None:
        return Try(rate, 0)
    for known in filter(None, (edges.within, edges.beyond)):
        if len(found[known]) < 2:
            return Try(known, 1)
    return edges


def bracket(found: dict[float, list[bool]]) -> Bracket:
    """By the majority of each rate's trials: the highest that is within, and the lowest above it that is not."""
    within = max((rate for rate, verdicts in found.items() if _within(verdicts)), default=None)
    above = [rate for rate, verdicts in found.items() if not _within(verdicts) and rate > (within or 0.0)]
    return Bracket(within, min(above, default=None))


def three_digits(rate: float) -> float:
    """A rate above 0 as it is tried and written."""
    return float(f"{rate:.3g}")


def _between(edges: Bracket, start: float, width: float) -> float | None:
    """A rate that narrows the bracket; None if it is narrow enough, or there is no use in looking."""
    low, high = edges.within, edges.beyond
    if low is None:
        assert high is not None, "one of the two is known as soon as a rate has been tried"
        down = FIRST_DOWN if high > start / FIRST_DOWN**1.5 else DOWN
        return three_digits(high / down) if high > start / DOWN**MOST_DOWN else None
    if high is None:
        return three_digits(low * UP) if low < start * UP**MOST_UP else None
    middle = three_digits(math.sqrt(low * high))
    return middle if high > low * (1 + width) and low < middle < high else None


def _within(verdicts: list[bool]) -> bool:
    return 2 * sum(verdicts) > len(verdicts)
