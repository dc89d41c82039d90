"""What the changes against a chosen base show, in one sentence: of one figure, and of all of them together.

The base stays the base, whoever wins: "dynamic · 8 makes 0.46× the tokens/s of continuous · 8". Of what is drawn the
largest change that is shown is named, of a strategy on one backend or of a backend under one strategy: throughput at the
highest rate, where a side was overloaded (else both deliver what is offered), and a latency at the lowest at which
neither was overloaded or cut off.
"""

import math
from collections.abc import Mapping, Sequence

from results.comparisons import THROUGHPUT
from results.findings import Change
from results.report import glossary, headlines, numbers
from results.report.decisive import Pair
from results.report.series import Series


def of_metric(base: Series, changes: Sequence[Change], metric: str, found: Mapping[str, Series]) -> str:
    """State what the changes of one metric show; `changes` are all seen from `base`, `found` is every series by key."""
    pairs = _judged(base, changes, metric, found)
    name = headlines.capital(glossary.label(metric))
    if not pairs:
        return f"{name} against {base.name}: nothing to compare that is the server's own"
    pair = _largest(pairs)
    where = f"at {numbers.rate(pairs[0].change.rate)}"
    return (
        _said(pair) if pair else f"No difference in {glossary.label(metric)} from {base.name} shown {where}"
    )


def of_all(
    base: Series, changes: Sequence[Change], metrics: Sequence[str], found: Mapping[str, Series]
) -> str:
    """State what throughput shows, else the first latency that shows something."""
    for metric in metrics:
        if (pair := _largest(_judged(base, changes, metric, found))) is not None:
            return _said(pair)
    return f"Each setting compared with {base.name}: no difference shown"


def _judged(base: Series, changes: Sequence[Change], metric: str, found: Mapping[str, Series]) -> list[Pair]:
    """Give the changes at the rate that a heading speaks of."""
    is_latency = glossary.metric_of(metric)[0].unit == "s"
    pairs = [
        Pair(change=one, base=base, other=found[one.other])
        for one in changes
        if one.metric == metric and one.other in found and one.ratio > 0 and not (is_latency and one.censored)
    ]
    rate = (min if is_latency else max)((pair.change.rate for pair in pairs), default=None)
    return [pair for pair in pairs if pair.change.rate == rate]


def _largest(pairs: Sequence[Pair]) -> Pair | None:
    """Give the one that is farthest from no change, of those worth a heading."""
    worth = [
        pair
        for pair in pairs
        if pair.differs(max(pair.change.ratio, 1 / pair.change.ratio))
        and (pair.change.metric != THROUGHPUT or any(cell.overloaded for cell in pair.cells))
    ]
    return max(worth, key=lambda pair: abs(math.log(pair.change.ratio)), default=None)


def _said(pair: Pair) -> str:
    metric, statistic = glossary.metric_of(pair.change.metric)
    times, at = headlines.times(pair.change), f"at {numbers.rate(pair.change.rate)}"
    same_place = pair.base.place == pair.other.place
    other, base = (pair.other.setting, pair.base.setting) if same_place else (pair.other.name, pair.base.name)
    where = f"{at} on {pair.other.place}" if same_place else at
    if metric.key == THROUGHPUT:
        return (
            f"{headlines.capital(other)} makes {times} the tokens/s of {base} {where}{headlines.unlike(pair)}"
        )
    failed = " (of the requests that did not fail)" if metric.unit == "s" and pair.failed else ""
    name = headlines.capital(glossary.label(metric.of(statistic)))
    return f"{name} of {other} is {times} that of {base} {where}{failed}{headlines.unlike(pair)}"
