"""Which pair of strategies a finding is stated of: the winner's, compared like for like.

On one backend and, where such a pair exists, with an equal max_batch_size, so that neither an engine nor a knob passes
for a strategy.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from results.comparisons import THROUGHPUT
from results.findings import CellSummary, Change, Findings, Split
from results.report.series import Series, series_of

LEAST = 1.05  # times: a smaller difference is not worth a heading


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A change between two strategies, with the two series that it compares."""

    change: Change
    base: Series
    other: Series

    @property
    def cells(self) -> tuple[CellSummary, ...]:
        """The two cells that it compares."""
        found = (self.base.at(self.change.rate), self.other.at(self.change.rate))
        return tuple(cell for cell in found if cell is not None)

    @property
    def failed(self) -> bool:
        """Whether requests failed or were rejected in either: its latency is that of the others."""
        return any(trial.has("failures") for cell in self.cells for trial in cell.trials)

    def turned(self) -> "Pair":
        """The same, seen from the other side."""
        return Pair(change=flipped(self.change), base=self.other, other=self.base)

    @property
    def sizes(self) -> tuple[float | None, float | None]:
        """The max_batch_size of base and other."""
        return size_of(self.base), size_of(self.other)

    def is_alike(self) -> bool:
        """Whether both have one max_batch_size."""
        return self.sizes[0] == self.sizes[1]

    def differs(self, gain: float) -> bool:
        """Whether `gain` times is worth a heading and the interval, if there is one, excludes no change."""
        return gain >= LEAST and (self.change.low is None or self.change.shown)


def most_throughput(findings: Findings) -> Pair | None:
    """Give the pair of who makes most at the highest rate; None where nobody is shown to.

    None too where neither of the two is overloaded there: both then deliver what is offered.
    """
    pair = decisive(highest(findings), max)
    if pair is None or not any(cell.overloaded for cell in pair.cells):
        return None
    base, other = (one.at(pair.change.rate) for one in (pair.base, pair.other))
    means = [None if cell is None else cell.mean(THROUGHPUT) for cell in (base, other)]
    if (
        means[0] is None
        or means[1] is None
        or means[1] < LEAST * means[0]
        or not pair.differs(pair.change.ratio)
    ):
        return None
    return pair


def quickest(findings: Findings, name: str) -> Pair | None:
    """Give the pair of who has the least of a latency at the lowest rate without censoring, the change being
    how many times as long the loser takes; None where nobody is shown to.
    """
    pair = decisive(lowest(findings, name), min)
    if pair is None:
        return None
    gain = Pair(change=flipped(pair.change), base=pair.base, other=pair.other)
    return gain if gain.differs(gain.change.ratio) else None


def highest(findings: Findings) -> list[Pair]:
    """Give the pairs at the highest rate of the sweep, overload allowed, with their changes of throughput."""
    pairs = _alike(findings, [one for one in findings.changes if one.metric == THROUGHPUT])
    rate = max((pair.change.rate for pair in pairs), default=None)
    return [pair for pair in pairs if pair.change.rate == rate]


def lowest(findings: Findings, name: str) -> list[Pair]:
    """Give the pairs at the lowest rate where neither side is overloaded or cut off, with their changes of a latency."""
    changes = [one for one in findings.changes if one.metric == name and not one.censored]
    pairs = _alike(findings, changes)
    rate = min((pair.change.rate for pair in pairs), default=None)
    return [pair for pair in pairs if pair.change.rate == rate]


def decisive_split(findings: Findings, pair: Pair | None) -> Split | None:
    """Give the split of throughput that the answer states: at the highest rate, to the winner, from the strategy of its pair.

    None without any; where none fits the pair, any at the highest rate.
    """
    splits = [one for one in findings.splits if one.metric == THROUGHPUT and one.total.ratio > 0]
    if pair is not None:
        splits = [one for one in splits if one.total.other == pair.other.key] or splits
        splits = [one for one in splits if one.policy.base == pair.base.key] or splits
    return max(splits, key=lambda one: one.rate, default=None)


def _alike(findings: Findings, changes: Sequence[Change]) -> list[Pair]:
    """Give the pairs of strategies on the backend where most ran, of equal max_batch_size if there are any."""
    found = {one.key: one for one in series_of(findings)}
    places: dict[str, list[Pair]] = defaultdict(list)
    for one in changes:
        base, other = found.get(one.base), found.get(one.other)
        if base is None or other is None or base.place != other.place or base.strategy == other.strategy:
            continue
        if one.ratio > 0:
            places[base.place].append(Pair(change=one, base=base, other=other))
    if not places:
        return []
    ran = {place: {one.strategy for one in found.values() if one.place == place} for place in places}
    pairs = places[max(places, key=lambda place: len(ran[place]))]
    return [pair for pair in pairs if pair.is_alike()] or pairs


def decisive(pairs: Sequence[Pair], best: Callable[..., tuple[float, str]]) -> Pair | None:
    """Give the winner's pair, the winner as `other`: against naive, else against the worst.

    `best` is max where more is better and min where less is. A side without a mean cannot win or lose.
    """
    values: dict[str, float] = {}
    for pair in pairs:
        for one in (pair.base, pair.other):
            cell = one.at(pair.change.rate)
            value = None if cell is None else cell.mean(pair.change.metric)
            if value is not None:
                values[one.key] = value
    ranked = [pair for pair in pairs if pair.base.key in values and pair.other.key in values]
    if not ranked:
        return None
    keys = {one.key for pair in ranked for one in (pair.base, pair.other)}
    winner = best((values[key], key) for key in keys)[1]
    against = [
        pair if pair.other.key == winner else pair.turned()
        for pair in ranked
        if winner in (pair.base.key, pair.other.key)
    ]
    rivals = [pair for pair in against if pair.base.strategy == "naive"] or against
    worst = (min if best is max else max)((values[pair.base.key], pair.base.key) for pair in rivals)[1]
    return next(pair for pair in rivals if pair.base.key == worst)


def size_of(series: Series) -> float | None:
    """Give the max_batch_size of a series."""
    return series.cells[0].trials[0].trial.knobs.get("max_batch_size")


def flipped(change: Change) -> Change:
    """Give the same change seen from the other side."""
    low = None if change.high is None else 1 / change.high
    high = None if change.low is None else 1 / change.low
    return replace(change, base=change.other, other=change.base, ratio=1 / change.ratio, low=low, high=high)
