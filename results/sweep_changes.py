"""What a comparison of two sweeps says, cell by cell: changes, errors of a prediction, and what is worse."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from results.comparisons import THROUGHPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One metric of one cell. `a`, `b`: geometric means over the pairs, else means; None: a side has none."""

    metric: str
    a: float | None
    b: float | None
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    censored: bool  # a latency, and a side was overloaded or cut off

    @property
    def counts(self) -> bool:
        """Whether it says something of the server."""
        return self.ratio is not None and not self.censored

    @property
    def shows_none(self) -> bool | None:
        """Whether its interval contains no change; None: it has none, or says nothing of the server."""
        if not self.counts or self.low is None or self.high is None:
            return None
        return self.low <= 1 <= self.high

    @property
    def worsening(self) -> tuple[float, float | None] | None:
        """By which share it got worse, and by which at least; None if there is none."""
        if self.ratio is None:
            return None
        if is_better_high(self.metric):
            return 1 - self.ratio, None if self.high is None else 1 - self.high
        return self.ratio - 1, None if self.low is None else self.low - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One cell of both sweeps."""

    backend: str
    strategy: str
    setting: str
    rate_a: float
    rate_b: float
    repeats: int  # that are paired
    stopped_a: bool  # overloaded, or cut off at the drain limit
    stopped_b: bool
    fails_a: bool  # some of its requests failed
    fails_b: bool
    changes: Mapping[str, Change]

    @property
    def name(self) -> str:
        """As a person reads it."""
        rate = f"{self.rate_a:g}" if self.rate_a == self.rate_b else f"{self.rate_a:g} and {self.rate_b:g}"
        return f"{self.setting} on {self.backend} at {rate} req/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """How far predictions of one metric are off, over the cells of one strategy on one backend; shares."""

    backend: str
    strategy: str
    metric: str
    cells: int
    median: float
    worst: float  # with its sign
    worst_cell: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Worse:
    """What got worse by more than was allowed, or no longer keeps up, or fails requests and did not."""

    cell: str
    metric: str  # or "missing", "stopped" or "failures"
    by: float | None  # at least; None of these three


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`a` and `b` name the sweeps; of a prediction `a` is the measured one."""

    a: str
    b: str
    prediction: bool
    metrics: tuple[str, ...]
    cells: tuple[Compared, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    simulated: tuple[str, ...] = ()  # those of `a` and `b` that ran in virtual time
    notes: tuple[str, ...] = field(default=())

    def no_difference(self, *metrics: str) -> tuple[int, int]:
        """Of how many intervals of these metrics (or all) how many show no difference: (those, all).

        Two runs of one config show one in about 5 % of theirs.
        """
        shown = [
            change.shows_none
            for cell in self.cells
            for metric, change in cell.changes.items()
            if (not metrics or metric in metrics) and change.shows_none is not None
        ]
        return sum(shown), len(shown)

    def errors(self) -> list[Error]:
        """By backend, strategy and metric, in the order of the cells."""
        groups: dict[tuple[str, str, str], list[tuple[float, str]]] = defaultdict(list)
        for cell in self.cells:
            for metric, change in cell.changes.items():
                if change.counts and change.ratio is not None:
                    groups[cell.backend, cell.strategy, metric].append((change.ratio - 1, cell.name))
        found = []
        for (backend, strategy, metric), errors in groups.items():
            worst, where = max(errors, key=lambda one: abs(one[0]))
            found.append(
                Error(
                    backend=backend,
                    strategy=strategy,
                    metric=metric,
                    cells=len(errors),
                    median=float(np.median([abs(error) for error, _ in errors])),
                    worst=worst,
                    worst_cell=where,
                )
            )
        return found

    def worse(self, than: float) -> list[Worse]:
        """What is certainly worse by more than a share: its whole interval, or it no longer keeps up, or is not there."""
        found = [Worse(cell=name, metric="missing", by=None) for name in self.only_a]
        for cell in self.cells:
            if cell.stopped_b and not cell.stopped_a:
                found.append(Worse(cell=cell.name, metric="stopped", by=None))
            if cell.fails_b and not cell.fails_a:
                found.append(Worse(cell=cell.name, metric="failures", by=None))
            for metric, change in cell.changes.items():
                if change.counts and (worsening := change.worsening) is not None:
                    least = worsening[1]
                    if least is not None and least > than:
                        found.append(Worse(cell=cell.name, metric=metric, by=least))
        return found

    def untold(self, than: float) -> list[tuple[str, str]]:
        """Metric and cell of changes that look worse by more than a share and have no interval to tell."""
        return [
            (metric, cell.name)
            for cell in self.cells
            for metric, change in cell.changes.items()
            if change.counts
            and (worse := change.worsening) is not None
            and worse[0] > than
            and worse[1] is None
        ]


def is_better_high(metric: str) -> bool:
    """Whether more of it is better."""
    return metric.startswith((THROUGHPUT, "goodput"))
