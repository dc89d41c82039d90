"""What an interval says of a claim: that it holds, that it does not, or neither.

A ratio comes with its 95 % interval [low, high]; without one (fewer than 3 repeats) nothing is shown.

    far higher   low ≥ 2                       refuted: high < 2
    higher       low > 1                       refuted: high < 1
    lower        high < 1                      refuted: low > 1
    similar      1/1.05 ≤ low, high ≤ 1.05     refuted: the interval lies outside
    not lower    low ≥ 1/1.05                  refuted: high < 1 and low < 1/1.05

"Similar" is two one-sided tests (Schuirmann 1987), each at 2.5 %, with a margin of 5 % that is the same from both
sides; an interval that merely contains 1 shows neither a difference nor that there is none.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from results.findings import Judged, Outcome
from results.statistics import Ratio
from results.wording import factor

Rule: TypeAlias = Callable[[Ratio], Outcome]

_WORST_FIRST: tuple[Outcome, ...] = ("refuted", "not shown", "confirmed")
FAR = 2.0
MARGIN = 1.05


def far_higher(ratio: Ratio) -> Outcome:
    """Whether it is at least twice."""
    return _outcome(ratio, lambda low, high: low >= FAR, lambda low, high: high < FAR)


def higher(ratio: Ratio, than: float = 1.0) -> Outcome:
    """Whether it is above `than`."""
    return _outcome(ratio, lambda low, high: low > than, lambda low, high: high < than)


def lower(ratio: Ratio) -> Outcome:
    """Whether it is below 1."""
    return _outcome(ratio, lambda low, high: high < 1, lambda low, high: low > 1)


def similar(ratio: Ratio) -> Outcome:
    """Whether it is within 5 % of 1."""
    return _outcome(
        ratio,
        lambda low, high: low >= 1 / MARGIN and high <= MARGIN,
        lambda low, high: high < 1 / MARGIN or low > MARGIN,
    )


def not_lower(ratio: Ratio) -> Outcome:
    """Whether it is above 1, or below it by less than 5 %."""
    return _outcome(ratio, lambda low, high: low >= 1 / MARGIN, lambda low, high: high < 1)


def together(outcomes: Iterable[Outcome]) -> Judged:
    """A claim about many cases holds if it does in all, and falls with one; without any it was not tested."""
    found = set(outcomes)
    return next((one for one in _WORST_FIRST if one in found), "not tested")


def in_words(ratio: Ratio) -> str:
    """×3.2 [2.9, 3.5], or the bare ratio and why it has no interval."""
    if ratio.low is None or ratio.high is None:
        return f"×{factor(ratio.ratio)} ({ratio.pairs} of the 3 repeats that an interval takes)"
    return f"×{factor(ratio.ratio)} [{factor(ratio.low)}, {factor(ratio.high)}]"


def _outcome(
    ratio: Ratio, holds: Callable[[float, float], bool], falls: Callable[[float, float], bool]
) -> Outcome:
    if ratio.low is None or ratio.high is None:
        return "not shown"
    if holds(ratio.low, ratio.high):
        return "confirmed"
    return "refuted" if falls(ratio.low, ratio.high) else "not shown"
