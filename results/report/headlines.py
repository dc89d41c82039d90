"""Headings that state a finding, each made from the paired changes; None where nothing can be stated.

Strategies are compared like for like: on one backend and, where such a pair exists, with an equal
max_batch_size, so that neither an engine nor a knob passes for a strategy. The winner is the subject. Below
a difference of 5 %, or where the interval contains no change, nobody wins.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from results.comparisons import THROUGHPUT
from results.findings import CellSummary, Change, Findings
from results.report import glossary, numbers
from results.report.series import Series, series_of

LATENCY = "ttft_s_p50"
_LEAST = 1.05  # times: a smaller difference is not worth a heading
_QUICKER = {
    "ttft_s": "quicker to the first token",
    "e2e_s": "quicker to the last token",
    "delivered_s": "quicker to return the whole answer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A change between two strategies, with the two series that it compares."""

    change: Change
    base: Series
    other: Series

    @property
    def cells(self) -> tuple[CellSummary, ...]:
        found = (self.base.at(self.change.rate), self.other.at(self.change.rate))
        return tuple(cell for cell in found if cell is not None)

    def turned(self) -> "_Pair":
        return _Pair(change=flipped(self.change), base=self.other, other=self.base)

    def is_alike(self) -> bool:
        return _size(self.base) == _size(self.other)

    def differs(self, gain: float) -> bool:
        """Whether `gain` times is worth a heading and the interval, if there is one, excludes no change."""
        return gain >= _LEAST and (self.change.low is None or self.change.shown)


def main(findings: Findings) -> str | None:
    """State the finding: throughput where it tells strategies apart, else p50 TTFT, else that neither does."""
    return throughput(findings) or _quicker(findings, LATENCY) or no_throughput(findings)


def throughput(findings: Findings) -> str | None:
    """State who sustains most at the highest rate: "… sustains 3.20× [2.90, 3.50] the tokens/s of …".

    None where neither of the two is overloaded there: both then deliver what is offered.
    """
    pair = _decisive(_highest(findings), max)
    if pair is None or not any(cell.overloaded for cell in pair.cells):
        return None
    change = pair.change
    base, other = (one.at(change.rate) for one in (pair.base, pair.other))
    means = [None if cell is None else cell.mean(THROUGHPUT) for cell in (base, other)]
    if means[0] is None or means[1] is None or means[1] < _LEAST * means[0] or not pair.differs(change.ratio):
        return None
    return (
        f"{capital(pair.other.setting)} sustains {times(change)} the tokens/s of {pair.base.setting} "
        f"at {numbers.rate(change.rate)} on {pair.other.place}"
    )


def no_throughput(findings: Findings) -> str | None:
    """Say why throughput tells nobody apart; None if no two strategies can be compared, or if it does."""
    pairs = _highest(findings)
    if not pairs or throughput(findings):
        return None
    until = numbers.rate(pairs[0].change.rate)
    compared = {one.key: one for pair in pairs for one in (pair.base, pair.other)}
    cells = [cell for one in compared.values() for cell in one.cells]
    pair = _decisive(pairs, max)
    if pair is not None and any(cell.overloaded for cell in cells):
        return _no_difference(pair, THROUGHPUT)
    if not any(trial.has("too-short") for cell in cells for trial in cell.trials):
        return f"Throughput tells nobody apart: every strategy delivers what is offered, up to {until}"
    if pair is not None and pair.change.low is None:
        return _no_difference(pair, THROUGHPUT)
    return f"No difference in throughput shown up to {until}: some trials are too short to judge"


def latency(findings: Findings, name: str) -> str | None:
    """State who is quickest, or that no difference is shown, at the lowest rate where neither is censored."""
    pair = _decisive(_lowest(findings, name), min)
    if pair is None:
        return None
    return _quicker(findings, name) or _no_difference(pair, name)


def _no_difference(pair: _Pair, name: str) -> str:
    """Say that no difference is shown; without an interval nothing can be, and the bare ratio is stated."""
    where = f"at {numbers.rate(pair.change.rate)} on {pair.base.place}"
    if pair.change.low is None:
        return (
            f"{capital(glossary.label(name))} of {pair.other.setting} is {numbers.ratio(pair.change.ratio)} "
            f"that of {pair.base.setting} {where} ({unsure(pair.change)})"
        )
    return f"No difference in {glossary.label(name)} shown between {_both(pair)} {where}"


def _quicker(findings: Findings, name: str) -> str | None:
    pair = _decisive(_lowest(findings, name), min)
    if pair is None:
        return None
    gain = flipped(pair.change)  # how many times as long the loser takes
    if not pair.differs(gain.ratio):
        return None
    metric, statistic = glossary.metric_of(name)
    quicker = _QUICKER.get(metric.key, f"lower in {metric.name}")
    ratio, notes = numbers.ratio(gain.ratio), [statistic]
    if gain.low is None:
        notes.append(unsure(gain))
    else:
        ratio = times(gain)
    return (
        f"{capital(pair.other.setting)} is {ratio} {quicker} than {pair.base.setting} at "
        f"{numbers.rate(gain.rate)} on {pair.other.place} ({', '.join(note for note in notes if note)})"
    )


def _highest(findings: Findings) -> list[_Pair]:
    pairs = _alike(findings, [one for one in findings.changes if one.metric == THROUGHPUT])
    rate = max((pair.change.rate for pair in pairs), default=None)
    return [pair for pair in pairs if pair.change.rate == rate]


def _lowest(findings: Findings, name: str) -> list[_Pair]:
    changes = [one for one in findings.changes if one.metric == name and not one.censored]
    pairs = _alike(findings, changes)
    rate = min((pair.change.rate for pair in pairs), default=None)
    return [pair for pair in pairs if pair.change.rate == rate]


def _alike(findings: Findings, changes: Sequence[Change]) -> list[_Pair]:
    """Give the pairs of strategies on the backend where most ran, of equal max_batch_size if there are any."""
    found = {one.key: one for one in series_of(findings)}
    places: dict[str, list[_Pair]] = defaultdict(list)
    for one in changes:
        base, other = found.get(one.base), found.get(one.other)
        if base is None or other is None or base.place != other.place or base.strategy == other.strategy:
            continue
        if one.ratio > 0:
            places[base.place].append(_Pair(change=one, base=base, other=other))
    if not places:
        return []
    ran = {place: {one.strategy for one in found.values() if one.place == place} for place in places}
    pairs = places[max(places, key=lambda place: len(ran[place]))]
    return [pair for pair in pairs if pair.is_alike()] or pairs


def _decisive(pairs: Sequence[_Pair], best: Callable[..., tuple[float, str]]) -> _Pair | None:
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


def _both(pair: _Pair) -> str:
    return f"{pair.other.setting} and {pair.base.setting}"


def _size(series: Series) -> object:
    return series.cells[0].trials[0].trial.knobs.get("max_batch_size")


def flipped(change: Change) -> Change:
    """Give the same change seen from the other side."""
    low = None if change.high is None else 1 / change.high
    high = None if change.low is None else 1 / change.low
    return replace(change, base=change.other, other=change.base, ratio=1 / change.ratio, low=low, high=high)


def times(change: Change) -> str:
    """Give ratio and interval, 2.13× [2.10, 2.15], or why there is no interval."""
    if change.low is None or change.high is None:
        return f"{numbers.ratio(change.ratio)} ({unsure(change)})"
    ratio, low, high = numbers.alike(change.ratio, change.low, change.high)
    return f"{ratio}× [{low}, {high}]"


def unsure(change: Change) -> str:
    """Say why there is no interval."""
    return f"{numbers.count(change.pairs, 'repeat')}, no interval"


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
