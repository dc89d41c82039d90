"""What was expected of the strategies before anything was measured, and what the sweep says of it.

Compared are settings on one backend and of one max_batch_size (of any, where no two have the same), paired by
repeat. Low and high are the lowest and the highest rate of the sweep. Latency is compared where neither side is
overloaded or cut off, throughput anywhere. The rules (far higher, similar, …) are those of results/judgement.py.
An expectation is confirmed if every case that the sweep has confirms it, refuted if one refutes it, not tested
without a case. With many cases one in forty intervals lies on the wrong side by chance: the page lists them all.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from results.comparisons import THROUGHPUT, by_seed, joinable_backends, knees, labels
from results.findings import CellSummary, Evidence, Expectation, Outcome
from results.judgement import Rule, far_higher, higher, in_words, lower, not_lower, similar, together
from results.statistics import Ratio, mean_interval, paired_ratio
from results.wording import number

TTFT, E2E, TAIL = "ttft_s_p50", "e2e_s_p50", "e2e_s_p99"
STATIC = ("naive", "dynamic")

CLAIMS: Mapping[str, str] = {
    "H1": "At low load naive has a far higher TTFT (twice and more) than dynamic and continuous.",
    "H2": "At high load naive and dynamic have similar throughput (within 5 %), and both show head-of-line "
    "blocking: requests wait longer than they are served, and finished answers are held by their batch.",
    "H3": "Continuous is never lower in throughput, higher where the other is overloaded, lower in p99 E2E where "
    "neither is, and its knee is furthest right.",
    "H4": "Dynamic's gain over naive in p50 E2E shrinks as load grows.",
    "H5": "With one slot continuous gains nothing over static batching: similar throughput.",
    "H6": "Continuous has a price: TPOT rises with load, and a request may finish later than on an idle machine.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One setting in one place: its cells by rate."""

    name: str  # "naive · 8 on vllm"
    key: str  # as in knees
    strategy: str
    place: tuple[str, str, str]
    size: int | None
    cells: Mapping[float, CellSummary]


def expectations(cells: Sequence[CellSummary]) -> tuple[Expectation, ...]:
    """Judge H1 to H6; cells as `results.comparisons.ordered` gives them."""
    curves = _curves(cells)
    rates = sorted({cell.rate for cell in cells})
    cases: Mapping[str, Iterator[Evidence]] = {
        "H1": _first_token(curves, rates),
        "H2": _static_at_high_load(curves, rates, joinable_backends(cells)),
        "H3": _continuous_ahead(curves, knees(cells)),
        "H4": _shrinking_gain(curves),
        "H5": _one_slot(curves),
        "H6": _price(curves),
    }
    found = {name: tuple(evidence) for name, evidence in cases.items()}
    return tuple(
        Expectation(
            name=name,
            claim=CLAIMS[name],
            verdict=together(one.outcome for one in evidence),
            evidence=evidence,
        )
        for name, evidence in found.items()
    )


def _curves(cells: Sequence[CellSummary]) -> list[Curve]:
    names = labels(cells)
    by_key: dict[str, list[CellSummary]] = defaultdict(list)
    for cell in cells:
        by_key[names[id(cell)]].append(cell)
    return [
        Curve(
            name=f"{members[0].setting} on {members[0].backend}",
            key=key,
            strategy=members[0].strategy,
            place=(members[0].backend, members[0].model, members[0].device),
            size=members[0].trials[0].trial.knobs.get("max_batch_size"),
            cells={cell.rate: cell for cell in members},
        )
        for key, members in by_key.items()
    ]


def _alike(curves: Sequence[Curve], base: str, other: str) -> list[tuple[Curve, Curve]]:
    """Pairs of two strategies in one place, of one size where there are any."""
    pairs = [
        (one, two)
        for one in curves
        for two in curves
        if (one.strategy, two.strategy) == (base, other) and one.place == two.place
    ]
    return [(one, two) for one, two in pairs if one.size == two.size] or pairs


def _ratio(metric: str, base: CellSummary | None, other: CellSummary | None) -> Ratio | None:
    """other ÷ base, paired by repeat; for latency only where neither is overloaded or cut off."""
    if base is None or other is None:
        return None
    if metric in (TTFT, E2E, TAIL) and (base.censored or other.censored):
        return None
    return paired_ratio(by_seed(base, metric), by_seed(other, metric))


def _case(rule: Rule, metric: str, what: str, base: Curve, other: Curve, rate: float) -> Iterator[Evidence]:
    """`other` against `base` at a rate, if it can be compared there."""
    ratio = _ratio(metric, base.cells.get(rate), other.cells.get(rate))
    if ratio is not None:
        text = f"{what} of {other.name} is {in_words(ratio)} that of {base.name} at {number(rate)} req/s"
        yield Evidence(outcome=rule(ratio), text=text)


def _first_token(curves: Sequence[Curve], rates: Sequence[float]) -> Iterator[Evidence]:
    for other_strategy in ("dynamic", "continuous"):
        for naive, other in _alike(curves, "naive", other_strategy):
            yield from _case(far_higher, TTFT, "p50 TTFT", other, naive, rates[0])


def _static_at_high_load(
    curves: Sequence[Curve], rates: Sequence[float], joinable: set[str]
) -> Iterator[Evidence]:
    pairs = _alike(curves, "naive", "dynamic")
    compared = [one for pair in pairs for one in _case(similar, THROUGHPUT, "Throughput", *pair, rates[-1])]
    if not compared:
        return  # what one of them does alone says nothing of the two
    yield from compared
    for curve in curves:
        if curve.strategy in STATIC and rates[-1] in curve.cells:
            yield from _blocking(curve, curve.cells[rates[-1]])
            if curve.place[0] not in joinable:
                yield from _holding(curve)


def _blocking(curve: Curve, cell: CellSummary) -> Iterator[Evidence]:
    """Whether more than half of the median E2E is queue wait."""
    at = f"at {number(cell.rate)} req/s"
    waits, ends = by_seed(cell, "queue_wait_s_p50"), by_seed(cell, E2E)
    cut = [key for key, wait in waits.items() if wait is None and _counted(cell, "queue_wait_s", key)]
    if cut:
        text = f"half of the requests of {curve.name} were still waiting when the trial was cut off, {at}"
        many = len(cut) == len(waits)
        yield Evidence(outcome="confirmed" if many else "not shown", text=text + _of(len(cut), len(waits)))
        return
    ratio = paired_ratio(ends, waits)
    if ratio is not None:
        text = f"p50 queue wait of {curve.name} is {in_words(ratio)} its p50 E2E {at}"
        yield Evidence(outcome=higher(ratio, than=0.5), text=text)


def _counted(cell: CellSummary, metric: str, key: tuple[int, int]) -> bool:
    counts = by_seed(cell, f"{metric}_count")
    return bool(counts.get(key))


def _of(some: int, of_all: int) -> str:
    return "" if some == of_all else f" (in {some} of {of_all} repeats)"


def _holding(curve: Curve) -> Iterator[Evidence]:
    """Whether finished answers are kept by their batch, on an engine that runs it to its longest row.

    At the highest rate where enough repeats finished some of their steady window.
    """
    for rate in sorted(curve.cells, reverse=True):
        held = [value for value in by_seed(curve.cells[rate], "held_s_mean").values() if value is not None]
        found = mean_interval(held)
        if found is not None:
            mean, low, high = found
            outcome: Outcome = "confirmed" if low > 0 else "refuted" if high <= 0 else "not shown"
            text = (
                f"answers of {curve.name} at {number(rate)} req/s are held {number(mean)} s "
                f"[{number(low)}, {number(high)}] on average"
            )
            yield Evidence(outcome=outcome, text=text)
            return


def _continuous_ahead(
    curves: Sequence[Curve], found_knees: Mapping[str, tuple[float | None, float | None]]
) -> Iterator[Evidence]:
    for strategy in STATIC:
        for static, continuous in _alike(curves, strategy, "continuous"):
            cases = list(_at_each_rate(static, continuous))
            yield from cases
            if cases:  # a knee has no interval, and is no evidence alone
                yield from _knee_further_right(static, continuous, found_knees)


def _at_each_rate(static: Curve, continuous: Curve) -> Iterator[Evidence]:
    for rate in sorted(static.cells.keys() & continuous.cells.keys()):
        over = static.cells[rate].overloaded
        rule, note = (higher, ", which is overloaded") if over else (not_lower, "")
        for one in _case(rule, THROUGHPUT, "Throughput", static, continuous, rate):
            yield Evidence(outcome=one.outcome, text=one.text + note)
        yield from _case(lower, TAIL, "p99 E2E", static, continuous, rate)


def _knee_further_right(
    static: Curve, continuous: Curve, found: Mapping[str, tuple[float | None, float | None]]
) -> Iterator[Evidence]:
    """Knees are intervals: one is right of another if they do not overlap."""
    (low, high), (own_low, own_high) = found[static.key], found[continuous.key]
    if high is None and own_high is None:
        return  # neither was driven to its knee
    outcome: Outcome = "not shown"
    if own_low is not None and high is not None and own_low >= high:
        outcome = "confirmed"
    elif low is not None and own_high is not None and own_high <= low:
        outcome = "refuted"
    text = f"the knee of {continuous.name} is {_bracket(own_low, own_high)}, that of {static.name} {_bracket(low, high)}"
    yield Evidence(outcome=outcome, text=text)


def _bracket(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"between {number(low)} and {number(high)} req/s"
    if low is not None:
        return f"above {number(low)} req/s"
    return f"below {number(high)} req/s" if high is not None else "not judged"


def _shrinking_gain(curves: Sequence[Curve]) -> Iterator[Evidence]:
    """The gain (naive ÷ dynamic) at the lowest rate over that at the highest where both keep up, per repeat."""
    for naive, dynamic in _alike(curves, "naive", "dynamic"):
        shared = sorted(naive.cells.keys() & dynamic.cells.keys())
        calm = [rate for rate in shared if not (naive.cells[rate].censored or dynamic.cells[rate].censored)]
        if len(calm) < 2:
            continue
        gains = []
        for rate in (calm[-1], calm[0]):
            over, under = by_seed(naive.cells[rate], E2E), by_seed(dynamic.cells[rate], E2E)
            gains.append(
                {
                    key: over[key] / under[key]  # type: ignore[operator]
                    for key in over.keys() & under.keys()
                    if over[key] and under[key]
                }
            )
        ratio = paired_ratio(*gains)
        if ratio is not None:
            text = (
                f"the gain of {dynamic.name} over {naive.name} in p50 E2E at {number(calm[0])} req/s is "
                f"{in_words(ratio)} that at {number(calm[-1])} req/s"
            )
            yield Evidence(outcome=higher(ratio), text=text)


def _one_slot(curves: Sequence[Curve]) -> Iterator[Evidence]:
    for strategy in STATIC:
        for static, continuous in _alike(curves, strategy, "continuous"):
            if static.size == continuous.size == 1:
                for rate in sorted(static.cells.keys() & continuous.cells.keys()):
                    yield from _case(similar, THROUGHPUT, "Throughput", static, continuous, rate)


def _price(curves: Sequence[Curve]) -> Iterator[Evidence]:
    for curve in curves:
        if curve.strategy != "continuous" or len(curve.cells) < 2:
            continue
        rates = sorted(curve.cells)
        calm = [rate for rate in rates if not curve.cells[rate].censored]
        yield from _over_rates("tpot_s_p50", "p50 TPOT", curve, rates[0], rates[-1])
        if len(calm) > 1:
            yield from _over_rates(E2E, "p50 E2E", curve, calm[0], calm[-1])


def _over_rates(metric: str, what: str, curve: Curve, low: float, high: float) -> Iterator[Evidence]:
    ratio = _ratio(metric, curve.cells[low], curve.cells[high])
    if ratio is not None:
        text = (
            f"{what} of {curve.name} at {number(high)} req/s is {in_words(ratio)} that at {number(low)} req/s"
        )
        yield Evidence(outcome=higher(ratio), text=text)
