"""Headings that state a finding, each made from the paired changes; None where nothing can be stated.

Strategies are compared on one backend only: across two, a difference is the engine's as much as the
strategy's, and has to be split first. What an interval does not show is not ranked.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from results.findings import Change, Findings
from results.report import glossary, numbers
from results.report.series import Series, backend_name, sides

THROUGHPUT = "throughput_tokens_per_s"


def flipped(change: Change) -> Change:
    """Give the same change seen from the other side."""
    low = None if change.high is None else 1 / change.high
    high = None if change.low is None else 1 / change.low
    return replace(change, base=change.other, other=change.base, ratio=1 / change.ratio, low=low, high=high)


def on_one_backend(changes: Iterable[Change]) -> list[Change]:
    """Give the changes of strategy alone."""
    return [change for change in changes if sides(change.base)[0] == sides(change.other)[0]]


def times(change: Change) -> str:
    """Give ratio and interval, 2.13× [2.10, 2.15], or why there is no interval."""
    if change.low is None or change.high is None:
        return f"{numbers.ratio(change.ratio)} ({numbers.count(change.pairs, 'repeat')}, no interval)"
    ratio, low, high = numbers.alike(change.ratio, change.low, change.high)
    return f"{ratio}× [{low}, {high}]"


def strongest(changes: Sequence[Change]) -> Change | None:
    """Give the change to state: one with an interval clear of 1, then one from or to naive, then the largest."""
    usable = [change for change in changes if change.ratio > 0]
    if not usable:
        return None
    return max(usable, key=lambda change: (change.shown, _has_naive(change), abs(math.log(change.ratio))))


def _has_naive(change: Change) -> bool:
    return any(sides(side)[1].startswith("naive") for side in (change.base, change.other))


def throughput(findings: Findings) -> str | None:
    """State who sustains most at the highest rate, overload allowed: "… sustains 3.2× [2.9, 3.5] …"."""
    changes = [change for change in on_one_backend(findings.changes) if change.metric == THROUGHPUT]
    rate = max((change.rate for change in changes), default=None)
    return _statement([change for change in changes if change.rate == rate], "sustains", "tokens/s")


def latency(findings: Findings, name: str) -> str | None:
    """State who is slowest, and by how much, at the lowest rate at which neither side is censored."""
    changes = [c for c in on_one_backend(findings.changes) if c.metric == name and not c.censored]
    rate = min((change.rate for change in changes), default=None)
    return _statement([change for change in changes if change.rate == rate], "has", glossary.label(name))


def _statement(changes: Sequence[Change], verb: str, what: str) -> str | None:
    largest = strongest(changes)
    if largest is None:
        return None
    change = largest if largest.ratio >= 1 else flipped(largest)
    backend, setting = sides(change.other)
    where = f"at {numbers.rate(change.rate)} on {backend_name(backend)}"
    if change.low is not None and not change.shown:
        return f"No difference in {what} shown {where}"
    return f"{capital(setting)} {verb} {times(change)} the {what} of {sides(change.base)[1]} {where}"


def spread(series: Sequence[Series], metric: glossary.Metric, statistic: str, rate: float) -> str | None:
    """Describe, without ranking, how far a metric runs at one rate on the backend with most settings."""
    name = metric.of(statistic)
    by_backend: dict[str, list[tuple[float, str]]] = {}
    for one in series:
        cell = one.at(rate)
        value = None if cell is None or cell.overloaded else cell.mean(name)
        if value is not None:
            by_backend.setdefault(one.place, []).append((value, one.setting))
    if not by_backend:
        return None
    place, values = max(by_backend.items(), key=lambda item: len(item[1]))
    if len(values) < 2:
        return None
    (low, first), (high, last) = min(values), max(values)
    return (
        f"At {numbers.rate(rate)} on {place}, {glossary.label(name)} runs from {metric.text(low)} ({first}) "
        f"to {metric.text(high)} ({last})"
    )


def capital(text: str) -> str:
    """Begin a sentence with `text`."""
    return text[:1].upper() + text[1:]
