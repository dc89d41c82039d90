"""Bisection for the largest rate that is within a service level: from what was tried to what is tried next.

A pure function of the trials so far, so that an interrupted search goes on where it was. Rates have three
digits.

1. From the start upwards by 1.5 while rates are within, downwards while they are not: by 1.4 twice, then by 2.
   Before the second step down once up by 1.3. A strategy that waits for full batches is slow at low rates too, and
   long steps down would pass over the rates that are within.
   Not below `least_rate`, where a trial would have too few requests to say anything.
2. Between the highest rate that is within and the lowest above it that is not: their geometric mean, until the two
   are within `width` of each other.
3. A trial may mislead, most of all near the edge: each of the two is tried again, with other requests. Where two
   trials of a rate disagree a third decides, and if that turns an edge the search goes on from there. A repeat that
   was outvoted is the last to be asked from then on, and an edge that rests on it is looked at again at once.
4. After `most_trials` of them it ends: the bracket is then not settled, and as wide as no trial speaks against.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

UP, FIRST_DOWN, DOWN, ONCE_UP = 1.5, 1.4, 2.0, 1.3
MOST_TRIALS = 30  # of a setting: where the edges of repeats scatter by 30 %, half end by 12 and 95 % by 26
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
    repeat: int  # which requests, from 0


@dataclass(frozen=True, slots=True)
class Bracket:
    """The largest rate within lies between these two; None: none was found within, or beyond.

    Not settled: the search was ended by its number of trials, and this is what none of them speaks against.
    """

    within: float | None
    beyond: float | None
    settled: bool = True


Verdicts: TypeAlias = dict[float, dict[int, bool]]  # rate → repeat → whether it was within


def next_try(
    trials: Iterable[Judged],
    *,
    start: float,
    width: float,
    most_trials: int = MOST_TRIALS,
    least_rate: float = 0.0,
) -> Try | Bracket:
    """What to try next, or the bracket once it is narrow enough (beyond ÷ within ≤ 1 + width) or not settled."""
    found: Verdicts = defaultdict(dict)
    for trial in trials:
        found[trial.rate][trial.repeat] = trial.within
    step = _step(found, start, width, least_rate)
    if isinstance(step, Try) and sum(map(len, found.values())) >= most_trials:
        return without_doubt(found)
    return step


def _step(found: "Verdicts", start: float, width: float, least_rate: float) -> Try | Bracket:
    """Without a limit."""
    doubt = _misled(found)
    for split, verdicts in sorted(found.items()):
        if 2 * sum(verdicts.values()) == len(verdicts):
            return Try(split, _next_repeat(verdicts, doubt))
    first = _next_repeat({}, doubt)
    if not found:
        return Try(three_digits(start), first)
    edges = bracket(found)
    if edges.within is None and len(found) > 1 and (up := three_digits(start * ONCE_UP)) not in found:
        return Try(up, first)
    known = [rate for rate in (edges.within, edges.beyond) if rate is not None]
    for rate in known:
        if all(doubt[repeat] for repeat in found[rate]):
            return Try(rate, _next_repeat(found[rate], doubt))
    if (between := _between(edges, start, width, least_rate)) is not None:
        return Try(between, first)
    for rate in known:
        if len(found[rate]) < 2:
            return Try(rate, _next_repeat(found[rate], doubt))
    return edges


def _misled(found: "Verdicts") -> Counter[int]:
    """How often each repeat was outvoted by others at its rate: its requests are lenient, or harsh."""
    return Counter(
        repeat
        for verdicts in found.values()
        for repeat, within in verdicts.items()
        if within != _within(verdicts) and len(verdicts) % 2
    )


def _next_repeat(verdicts: Mapping[int, bool], doubt: Counter[int]) -> int:
    """Of the repeats that a rate has not had, the one that was outvoted least, else the first."""
    untried = set(range(len(doubt) + len(verdicts) + 1)) - verdicts.keys()
    return min(untried, key=lambda repeat: (doubt[repeat], repeat))


def bracket(found: "Verdicts") -> Bracket:
    """By the majority of each rate's trials: the highest that is within, and the lowest above it that is not."""
    within = max((rate for rate, verdicts in found.items() if _within(verdicts)), default=None)
    above = [rate for rate, verdicts in found.items() if not _within(verdicts) and rate > (within or 0.0)]
    return Bracket(within, min(above, default=None))


def without_doubt(found: "Verdicts") -> Bracket:
    """What no trial speaks against: none above is within, and none between here and there is not.

    A rate is at the lower end only if all its trials are within, and at the upper end only if none is.
    """
    some = {rate for rate, verdicts in found.items() if any(verdicts.values())}
    not_all = {rate for rate, verdicts in found.items() if not all(verdicts.values())}
    beyond = min((rate for rate in found if not some or rate > max(some)), default=None)
    contrary = min((rate for rate in not_all if some and rate >= min(some)), default=math.inf)
    within = max((rate for rate in some - not_all if rate < contrary), default=None)
    return Bracket(within, beyond, settled=False)


def three_digits(rate: float) -> float:
    """A rate above 0 as it is tried and written."""
    return float(f"{rate:.3g}")


def _between(edges: Bracket, start: float, width: float, least_rate: float) -> float | None:
    """A rate that narrows the bracket; None if it is narrow enough, or there is no use in looking."""
    low, high = edges.within, edges.beyond
    if low is None:
        assert high is not None, "one of the two is known as soon as a rate has been tried"
        down = FIRST_DOWN if high > start / FIRST_DOWN**1.5 else DOWN
        lower = three_digits(high / down)
        return lower if high > start / DOWN**MOST_DOWN and lower >= least_rate else None
    if high is None:
        return three_digits(low * UP) if low < start * UP**MOST_UP else None
    middle = three_digits(math.sqrt(low * high))
    return middle if high > low * (1 + width) and low < middle < high else None


def _within(verdicts: Mapping[int, bool]) -> bool:
    return 2 * sum(verdicts.values()) > len(verdicts)
