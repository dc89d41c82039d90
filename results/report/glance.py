"""The answer in ten seconds: who wins, by how much and how surely, where it bends, and what to doubt most."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from results.findings import Findings, Split
from results.goodput import Slo
from results.report import glossary, headlines, numbers
from results.report.caveats import caveats, in_one_line
from results.report.decisive import Pair, decisive_split, most_throughput, quickest, size_of
from results.report.expected import MEANINGS
from results.report.largest_rate import LargestRates, largest_rates
from results.report.series import Series, main_place, side_name
from results.report.within import SHARE, largest_within

_MOST_SEARCHED = 5  # settings of a search
NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One question with its answer in a few words, what stands behind it, and where on the page there is more."""

    question: str
    answer: str
    detail: tuple[str, ...] = ()
    doubt: bool = False
    more: str = ""  # the id of a section


def glance(findings: Findings, series: Sequence[Series]) -> tuple[Fact, ...]:
    """Give the facts in the order in which they are asked for; nothing with nothing measured."""
    if not findings.cells:
        return ()
    if (asked := largest_rates(findings)) is not None:
        return (*_searched(asked), _doubt(findings, None, of_latency=True))
    most, quick = most_throughput(findings), quickest(findings, headlines.LATENCY)
    pair = most or quick
    found = [
        _winner(findings, most, quick),
        *_gain(most, quick),
        _knees(findings, series, pair),
        *_split(findings, series, pair),
        *_within(findings, series),
        _doubt(findings, pair, of_latency=most is None),
        _expected(findings),
    ]
    return tuple(found)


def _searched(asked: LargestRates) -> Iterator[Fact]:
    """Of a search for the largest rate: what it found; who wins at a rate that it came past is another question."""
    for name, text in asked.found[:_MOST_SEARCHED]:
        yield Fact(question=f"Up to which rate, {name}?", answer=text, detail=(asked.level,), more="largest")


def _winner(findings: Findings, most: Pair | None, quick: Pair | None) -> Fact:
    question = "Which strategy wins?"
    if most is None and quick is None:
        strategies = dict.fromkeys(cell.strategy for cell in findings.cells)
        if len(strategies) == 1:
            return Fact(question=question, answer=f"only {next(iter(strategies))} has run")
        said = headlines.no_throughput(findings) or "No two strategies have run at one rate yet."
        return Fact(question=question, answer="none is shown to", detail=(said,))
    winners = [
        (pair, what) for pair, what in ((most, "most tokens/s"), (quick, "quickest")) if pair is not None
    ]
    names = list(dict.fromkeys(pair.other.setting for pair, _ in winners))
    detail = [
        f"{what} at {numbers.rate(pair.change.rate)}: {pair.other.setting} on {pair.other.place}"
        for pair, what in winners
    ]
    if most is None and quick is not None:
        detail.append(headlines.no_throughput(findings) or "")
    unsure = any(pair.change.low is None for pair, _ in winners)
    answer = " and ".join(names) + (", not yet surely" if unsure else "")
    return Fact(question=question, answer=answer, detail=tuple(filter(None, detail)))


def _gain(most: Pair | None, quick: Pair | None) -> list[Fact]:
    gains = []
    if most is not None:
        gains.append((most, "the tokens/s", "of"))
    if quick is not None:
        gains.append((quick, headlines.quicker(glossary.metric_of(headlines.LATENCY)[0]), "than"))
    if not gains:
        return []
    first, what, _ = gains[0]
    detail = []
    for pair, words, joint in gains:
        where = f"{joint} {pair.base.setting} at {numbers.rate(pair.change.rate)}{headlines.unlike(pair)}"
        said = where if pair is first else f"{numbers.ratio(pair.change.ratio)} {words} {where}"
        detail.append(f"{said}: {_interval(pair)}")
    if quick is not None and (why := _gathering(quick)):
        detail.append(why)
    return [
        Fact(
            question="By how much, how surely?",
            answer=f"{numbers.ratio(first.change.ratio)} {what}",
            detail=tuple(detail),
            more="changes",
        )
    ]


def _gathering(pair: Pair) -> str:
    """Say how long naive waits for its batch to fill, (N − 1) ÷ 2λ on average, where that is half of its TTFT or more."""
    size, cell = size_of(pair.base), pair.base.at(pair.change.rate)
    ttft_s = None if cell is None else cell.mean(headlines.LATENCY)
    if pair.base.strategy != "naive" or size is None or cell is None or cell.overloaded or ttft_s is None:
        return ""
    fills_s = (size - 1) / (2 * cell.rate)
    if 2 * fills_s < ttft_s or size < 2:
        return ""
    return (
        f"{pair.base.setting} waits there until {size:g} requests have come: "
        f"{numbers.duration(fills_s)} on average, ({size:g} − 1) ÷ 2λ"
    )


def _interval(pair: Pair) -> str:
    change = pair.change
    if change.low is None or change.high is None:
        return f"{headlines.unsure(change)}, so not shown to differ"
    _, low, high = numbers.alike(change.ratio, change.low, change.high)
    return f"95 % interval {low}× to {high}×, {numbers.count(change.pairs, 'paired repeat')}"


def _knees(findings: Findings, series: Sequence[Series], pair: Pair | None) -> Fact:
    """Name the knee of the winner, and those of the others on its backend."""
    place = pair.other.place if pair is not None else main_place(series)
    there = [one for one in series if one.place == place]
    first = pair.other if pair is not None else there[0]
    knees = {one.key: knee(one, findings) for one in there}
    others = [f"{one.setting}: {knees[one.key]}" for one in _nearest(there, first)]
    judged = knees[first.key] != NOT_JUDGED
    bounds, _, rest = knees[first.key].partition(", ")
    highest = max(first.cells, key=lambda cell: cell.rate)
    why = highest.standing.removeprefix(f"{NOT_JUDGED}, ") if not judged else ""
    own = f"{first.setting} on {place}" + (f" ({why} at {numbers.rate(highest.rate)})" if why else "")
    return Fact(
        question="Where does it stop keeping up?",
        answer=f"{bounds} req/s{', ' if rest else ''}{rest}" if judged else NOT_JUDGED,
        detail=("; ".join((own, *others)),),
        more="curves",
    )


def _nearest(there: Sequence[Series], first: Series) -> list[Series]:
    """Give one setting of each other strategy, of the same max_batch_size where there is one; the table has all."""
    found: dict[str, Series] = {}
    for one in sorted(there, key=lambda one: size_of(one) != size_of(first)):
        if one.strategy != first.strategy:
            found.setdefault(one.strategy, one)
    return list(found.values())


def knee(one: Series, findings: Findings) -> str:
    """Give the knee as the interval that it lies in (req/s); a rate that is not judged bounds nothing."""
    low, high = findings.knees.get(one.key, (None, None))
    unjudged = [cell.rate for cell in one.cells if cell.undecided]
    if low is not None and high is not None:
        return f"{numbers.number(low)} to {numbers.number(high)}"
    if low is not None:
        return f"above {numbers.number(low)}" + (
            ", higher not judged" if any(rate > low for rate in unjudged) else ""
        )
    if high is not None:
        return f"below {numbers.number(high)}" + (
            ", lower not judged" if any(rate < high for rate in unjudged) else ""
        )
    return NOT_JUDGED


def _split(findings: Findings, series: Sequence[Series], pair: Pair | None) -> list[Fact]:
    """Say what the policy gave and what the engine, of the throughput that the winner gains from furthest away."""
    chosen = decisive_split(findings, pair)
    if chosen is None:
        return []
    base, other = (side_name(side) for side in (chosen.total.base, chosen.total.other))
    keys = (chosen.total.base, chosen.policy.base, chosen.total.other)
    cells = [cell for one in series if one.key in keys and (cell := one.at(chosen.rate)) is not None]
    over = sum(cell.overloaded for cell in cells)
    whole = (
        f"together {headlines.judged(chosen.total)} the tokens/s of {base}, with {other} at {numbers.rate(chosen.rate)}"
        + (
            f", {'all' if over == len(cells) else f'{over} of'} {len(cells)} settings overloaded"
            if over
            else ""
        )
    )
    parts = f"policy {headlines.judged(chosen.policy)}, engine {headlines.judged(chosen.engine)}"
    doubt = in_one_line([trial for cell in cells for trial in cell.trials], of_latency=False)
    return [
        Fact(
            question="Policy or engine?",
            answer=_parted(chosen),
            detail=tuple(filter(None, (whole, parts, doubt and f"in doubt: {doubt}"))),
            more="splits",
        )
    ]


def _parted(split: Split) -> str:
    """Give each part with its ratio where one is shown; without intervals the ratios, and that they are not sure."""
    parts = (("policy", split.policy), ("engine", split.engine))
    if any(one.low is None for _, one in parts):
        return ", ".join(f"{name} {numbers.ratio(one.ratio)}" for name, one in parts) + ", not yet surely"
    if not any(one.shown for _, one in parts):
        return "not determined"
    return ", ".join(
        f"{name} {numbers.ratio(one.ratio) if one.shown else 'not shown'}" for name, one in parts
    )


def _within(findings: Findings, series: Sequence[Series]) -> list[Fact]:
    """Of each SLO of the config the setting that keeps it at the largest rate."""
    facts = []
    for slo in findings.slos:
        largest = {one.key: largest_within(one, slo) for one in series}
        rates = sorted({rate for rate in largest.values() if rate is not None}, reverse=True)
        at_most = (
            _keepers([one for one in series if largest[one.key] == rates[0]], slo, rates[0]) if rates else []
        )
        facts.append(
            Fact(
                question=f"Up to which rate within {slo.text}?",
                answer=numbers.rate(rates[0]) if rates else "at no rate of the sweep",
                detail=(
                    ", ".join(at_most[:3]) + (f" and {len(at_most) - 3} more" if len(at_most) > 3 else ""),
                    f"for at least {SHARE} of the offered requests",
                ),
                more="within",
            )
        )
    return facts


def _keepers(keeping: Sequence[Series], slo: Slo, rate: float) -> list[str]:
    """Name those that keep an SLO at a rate: the larger share first, then what is judged; what is not says so."""
    found = []
    for one in keeping:
        cell = one.at(rate)
        assert cell is not None
        share = cell.mean(slo.of("goodput_share")) or 0.0
        found.append((-share, cell.standing, one.name + (f" ({cell.standing})" if cell.standing else "")))
    return [name for *_, name in sorted(found, key=lambda one: one[:2])]


def _doubt(findings: Findings, pair: Pair | None, *, of_latency: bool) -> Fact:
    behind = [trial for cell in pair.cells for trial in cell.trials] if pair is not None else []
    found = caveats(findings, behind, of_latency=of_latency)
    question = "What to doubt most?"
    if not found:
        return Fact(question=question, answer="no reservation about any trial", more="trust")
    worst, *others = found
    also = f"also: {'; '.join(one.words for one in others)}" if others else ""
    detail = tuple(filter(None, (worst.detail, also)))
    return Fact(question=question, answer=worst.words, detail=detail, doubt=True, more="trust")


def _expected(findings: Findings) -> Fact:
    counts = Counter[str](one.verdict for one in findings.expectations)
    named = {
        verdict: ", ".join(one.name for one in findings.expectations if one.verdict == verdict)
        for verdict in MEANINGS
        if counts[verdict]
    }
    return Fact(
        question="Was that expected?",
        answer=", ".join(f"{counts[verdict]} {verdict}" for verdict in named),
        detail=("; ".join(f"{verdict}: {names}" for verdict, names in named.items()),),
        more="expected",
    )
