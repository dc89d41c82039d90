"""Which setting is best by a metric at one rate, and which are not shown to differ from it.

The best has the best mean over repeats. Another one is shown to differ from it if the interval of the paired change
contains no change (results/statistics.py), or that of the paired difference where a value has no logarithm: a share or a
count may be 0. With fewer than three repeats there is no interval, and nothing is shown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from results.comparisons import by_seed
from results.findings import CellSummary
from results.report import glossary, numbers
from results.statistics import FEWEST_PAIRS, mean_interval, paired_ratio

T = TypeVar("T")
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead(Generic[T]):
    """The best of some, with its mean, and those not shown to differ from it.

    `pairs`: the fewest repeats that it has in common with another; None where there is no other.
    """

    best: T
    value: float
    alike: tuple[T, ...]
    pairs: int | None

    @property
    def unsure(self) -> str:
        """Why there is no interval; "" where there is one, or nothing to compare."""
        if self.pairs is None or self.pairs >= FEWEST_PAIRS:
            return ""
        return f"{numbers.count(self.pairs, 'repeat')}, no interval"

    def is_shown(self) -> bool:
        """Whether the best is shown to differ from every other."""
        return not self.alike and not self.unsure


def lead(among: Sequence[tuple[T, CellSummary]], name: str) -> Lead[T] | None:
    """Give the best by the mean of a metric; None if none has one.

    Of a time, among those that neither are overloaded nor cut off: the latency of those is the drain limit's.
    """
    metric, _ = glossary.metric_of(name)
    known = [
        (one, cell, value)
        for one, cell in among
        if (value := cell.mean(name)) is not None and not (metric.unit == "s" and cell.censored)
    ]
    if not known:
        return None
    pick = max if metric.better == "higher" else min
    best, cell, value = pick(known, key=lambda item: item[2])
    others = [(one, other) for one, other, _ in known if other is not cell]
    return Lead(
        best=best,
        value=value,
        alike=tuple(one for one, other in others if not is_shown(name, cell, other)),
        pairs=min((len(_both(name, cell, other)) for _, other in others), default=None),
    )


def is_shown(name: str, base: CellSummary, other: CellSummary) -> bool:
    """Whether two cells are shown to differ in a metric, over the repeats that both have."""
    both = _both(name, base, other)
    if all(min(pair) > 0 for pair in both.values()):
        ratio = paired_ratio(*({key: pair[side] for key, pair in both.items()} for side in (0, 1)))
        return (
            ratio is not None
            and ratio.low is not None
            and ratio.high is not None
            and not (ratio.low <= 1 <= ratio.high)
        )
    interval = mean_interval([after - before for before, after in both.values()])
    return interval is not None and not interval[1] <= 0 <= interval[2]


def said(found: Lead[T], name: str, where: str, named: Callable[[T], str]) -> str:
    """State who is best: "P95 TTFT at … is lowest with …: 12 ms", or from whom it is not shown to differ."""
    metric, _ = glossary.metric_of(name)
    end = "highest" if metric.better == "higher" else "lowest"
    subject = f"{glossary.label(name)[:1].upper()}{glossary.label(name)[1:]} {where}"
    if found.unsure or not found.alike:
        note = f" ({found.unsure})" if found.unsure else ""
        return f"{subject} is {end} with {named(found.best)}: {metric.text(found.value)}{note}"
    return (
        f"{subject}: no difference shown between {named(found.best)} ({end} mean, {metric.text(found.value)}) "
        f"and {listed([named(one) for one in found.alike])}"
    )


def listed(names: Sequence[str]) -> str:
    """Give a few names, and how many more there are."""
    if len(names) > _NAMED + 1:
        return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _both(name: str, base: CellSummary, other: CellSummary) -> Mapping[tuple[int, int], tuple[float, float]]:
    before, after = by_seed(base, name), by_seed(other, name)
    return {
        key: (value, than)
        for key, value in before.items()
        if value is not None and (than := after.get(key)) is not None
    }
