"""Headings that state a finding, each made from the paired changes; None where nothing can be stated.

Strategies are compared like for like (results/report/decisive.py), and where their max_batch_size differ that is said.
The winner is the subject. Below a difference of 5 %, or where the interval contains no change, nobody wins.
"""

from collections.abc import Sequence

from results.comparisons import THROUGHPUT
from results.findings import Change, Findings
from results.report import glossary, largest_rate, numbers
from results.report.decisive import Pair, decisive, highest, lowest, most_throughput, quickest
from results.report.series import Series

LATENCY = "ttft_s_p50"
_QUICKER = {
    "ttft_s": "quicker to the first token",
    "e2e_s": "quicker to the last token",
    "delivered_s": "quicker to return the whole answer",
}


def main(findings: Findings) -> str | None:
    """State the finding: of a search its answer; throughput where it tells strategies apart, else p50 TTFT, else that neither does."""
    return (
        largest_rate.headline(findings)
        or throughput(findings)
        or _quicker(findings, LATENCY)
        or no_throughput(findings)
    )


def throughput(findings: Findings) -> str | None:
    """State who makes most at the highest rate: "… makes 3.20× [2.90, 3.50] the tokens/s of …"."""
    pair = most_throughput(findings)
    return None if pair is None else of_pair(pair)


def of_pair(pair: Pair) -> str:
    """State what a pair shows of throughput, or, as `quickest` gives it, of a latency."""
    metric, statistic = glossary.metric_of(pair.change.metric)
    if metric.unit != "s":
        return (
            f"{capital(pair.other.setting)} makes {times(pair.change)} the tokens/s of {pair.base.setting} "
            f"at {numbers.rate(pair.change.rate)} on {pair.other.place}{unlike(pair)}"
        )
    gain = pair.change
    ratio, notes = numbers.ratio(gain.ratio), [statistic]
    if gain.low is None:
        notes.append(unsure(gain))
    else:
        ratio = times(gain)
    if pair.failed:
        notes.append("of the requests that did not fail")
    return (
        f"{capital(pair.other.setting)} is {ratio} {quicker(metric)} than {pair.base.setting} at "
        f"{numbers.rate(gain.rate)} on {pair.other.place} ({', '.join(note for note in notes if note)}){unlike(pair)}"
    )


def no_throughput(findings: Findings) -> str | None:
    """Say why throughput tells nobody apart; None if no two strategies can be compared, or if it does."""
    pairs = highest(findings)
    if not pairs or throughput(findings):
        return None
    until = numbers.rate(pairs[0].change.rate)
    compared = {one.key: one for pair in pairs for one in (pair.base, pair.other)}
    cells = [cell for one in compared.values() for cell in one.cells]
    pair = decisive(pairs, max)
    if pair is not None and any(cell.overloaded for cell in cells):
        return _no_difference(pair, THROUGHPUT)
    if not any(trial.has("too-short") for cell in cells for trial in cell.trials):
        return f"Throughput tells nobody apart: every strategy delivers what is offered, up to {until}"
    if pair is not None and pair.change.low is None:
        return _no_difference(pair, THROUGHPUT)
    return f"No difference in throughput shown up to {until}: some trials are too short to judge"


def latency(findings: Findings, name: str) -> str | None:
    """State who is quickest, or that no difference is shown, at the lowest rate where neither is censored."""
    pair = decisive(lowest(findings, name), min)
    if pair is None:
        return None
    return _quicker(findings, name) or _no_difference(pair, name)


def _no_difference(pair: Pair, name: str) -> str:
    """Say that no difference is shown; without an interval nothing can be, and the bare ratio is stated."""
    where = f"at {numbers.rate(pair.change.rate)} on {pair.base.place}"
    if pair.change.low is None:
        return (
            f"{capital(glossary.label(name))} of {pair.other.setting} is {numbers.ratio(pair.change.ratio)} "
            f"that of {pair.base.setting} {where} ({unsure(pair.change)})"
        )
    return f"No difference in {glossary.label(name)} shown between {_both(pair)} {where}"


def _quicker(findings: Findings, name: str) -> str | None:
    pair = quickest(findings, name)
    return None if pair is None else of_pair(pair)


def quicker(metric: glossary.Metric) -> str:
    """Say what less of a metric is: quicker to the first token."""
    return _QUICKER.get(metric.key, f"lower in {metric.name}")


def unlike(pair: Pair) -> str:
    """Say that the two differ in a knob too; nothing where they do not."""
    if pair.is_alike():
        return ""
    base, other = (numbers.NOTHING if size is None else f"{size:g}" for size in pair.sizes)
    return f", with max_batch_size {other} against {base}"


def _both(pair: Pair) -> str:
    return f"{pair.other.setting} and {pair.base.setting}"


def times(change: Change) -> str:
    """Give ratio and interval, 2.13× [2.10, 2.15], or why there is no interval."""
    if change.low is None or change.high is None:
        return f"{numbers.ratio(change.ratio)} ({unsure(change)})"
    ratio, low, high = numbers.alike(change.ratio, change.low, change.high)
    return f"{ratio}× [{low}, {high}]"


def judged(change: Change) -> str:
    """Give ratio and interval, and that nothing is shown where the interval contains no change."""
    return f"{times(change)} (not shown)" if change.low is not None and not change.shown else times(change)


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
