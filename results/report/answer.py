"""The answer at the top: sentences, the scoreboard of all settings, how much of the plan is done."""

from dataclasses import dataclass

from results.findings import Findings, Sentence
from results.report import headlines, numbers
from results.report.curves import is_too_short
from results.report.series import Series, rates_of, series_of

_SHOWN = 4  # sentences of a kind before the rest is folded away
_KINDS = (
    ("policy", "Strategies, on one backend"),
    ("engine", "Backends, under one strategy"),
    ("split", "Policy and engine, split"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceGroup:
    """Sentences of one kind; those in `more` are folded away."""

    kind: str
    title: str
    shown: tuple[Sentence, ...]
    more: tuple[Sentence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One row of the scoreboard."""

    series: Series
    keeps_up: str
    throughput: str
    quick: str
    tail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything above the first figure."""

    headline: str
    progress: str
    repeats: str
    groups: tuple[SentenceGroup, ...]
    scores: tuple[Score, ...]
    columns: tuple[str, ...]
    simulated: bool


def answer(findings: Findings) -> Answer:
    """Give the top of the page; with nothing measured it says that and no more."""
    series = series_of(findings)
    rates = rates_of(series)
    return Answer(
        headline=_headline(findings, series),
        progress=_progress(findings),
        repeats=_repeats(findings),
        groups=tuple(_group(findings, kind, title) for kind, title in _KINDS),
        scores=tuple(_score(one, findings, rates) for one in series),
        columns=_columns(rates) if rates else (),
        simulated=any(trial.trial.backend.startswith("simulated") for trial in findings.trials),
    )


def _headline(findings: Findings, series: tuple[Series, ...]) -> str:
    if not findings.trials:
        return "Every attempt failed so far" if findings.failures else "Nothing measured yet"
    found = headlines.throughput(findings) or headlines.latency(findings, "ttft_s_p50")
    if found:
        return found
    if len({one.strategy for one in series}) == 1:
        return f"Only {series[0].strategy} has been measured so far: nothing to compare yet"
    return "No two strategies have been measured at the same rate yet"


def _progress(findings: Findings) -> str:
    done = sum(not trial.has("replica-changed") for trial in findings.trials)
    planned = findings.planned_cells
    failed = f", {numbers.count(len(findings.failures), 'failed attempt')}" if findings.failures else ""
    return f"{done:,} of {numbers.count(planned, 'planned cell')} done{failed}"


def _repeats(findings: Findings) -> str:
    counts = {len(cell.trials) for cell in findings.cells if cell.trials}
    if not counts:
        return "no repeat so far"
    low, high = min(counts), max(counts)
    if high == 1:
        return "one repeat so far: no intervals"
    text = numbers.count(high, "repeat") if low == high else f"{low} to {high} repeats"
    return f"{text} so far: no intervals below 3" if low < 3 else f"{text}, intervals at 95 %"


def _group(findings: Findings, kind: str, title: str) -> SentenceGroup:
    of_kind = tuple(sentence for sentence in findings.sentences if sentence.kind == kind)
    return SentenceGroup(kind=kind, title=title, shown=of_kind[:_SHOWN], more=of_kind[_SHOWN:])


def _columns(rates: list[float]) -> tuple[str, ...]:
    return (
        "strategy",
        "keeps up",
        f"tokens/s at {numbers.rate(rates[-1])}",
        f"p50 TTFT at {numbers.rate(rates[0])}",
        "p99 E2E at its highest rate not overloaded",
    )


def _score(one: Series, findings: Findings, rates: list[float]) -> Score:
    top, bottom = one.at(rates[-1]), one.at(rates[0])
    fine = [cell for cell in one.cells if not cell.overloaded]
    tail = numbers.NOTHING
    if fine and fine[-1].mean("e2e_s_p99") is not None:
        tail = f"{numbers.duration(fine[-1].mean('e2e_s_p99'))} at {numbers.rate(fine[-1].rate)}"
    quick = numbers.NOTHING
    if bottom is not None:
        text = numbers.duration(bottom.mean("ttft_s_p50"))
        quick = f"{text} (overloaded)" if bottom.overloaded else text
    return Score(
        series=one,
        keeps_up=_keeps_up(one, findings),
        throughput=numbers.NOTHING if top is None else numbers.number(top.mean(headlines.THROUGHPUT)),
        quick=quick,
        tail=tail,
    )


def _keeps_up(one: Series, findings: Findings) -> str:
    low, high = findings.knees.get(one.key, (None, None))
    doubt = " (some trials too short to judge)" if any(is_too_short(cell) for cell in one.cells) else ""
    if low is not None and high is not None:
        return f"at {numbers.rate(low)}, not at {numbers.rate(high)}{doubt}"
    if low is not None:
        return f"up to {numbers.rate(low)}, the highest tried{doubt}"
    if high is not None:
        return f"not even at {numbers.rate(high)}{doubt}"
    return f"unknown{doubt}"
