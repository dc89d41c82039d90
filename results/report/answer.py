"""The answer at the top: sentences, the scoreboard of all settings, how much of the plan is done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from results.comparisons import THROUGHPUT
from results.findings import CellSummary, Findings, Sentence
from results.footnotes import with_marks
from results.report import headlines, numbers
from results.report.decisive import most_throughput, size_of
from results.report.gated import gated_notes
from results.report.glance import Fact, glance, knee
from results.report.series import Series, main_place, rates_of, series_of
from results.report.within import Goodput, goodput

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
    knee: str
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
    notes: tuple[str, ...]  # of all sentences, each once
    scores: tuple[Score, ...]
    columns: tuple[str, ...]
    rates: tuple[float | None, ...]  # that each column is of, where it is of one
    facts: tuple[Fact, ...]
    goodputs: tuple[Goodput, ...]
    gated: tuple[str, ...]  # notes on the settings
    simulated: bool


def answer(findings: Findings, series: Sequence[Series] | None = None) -> Answer:
    """Give the top of the page; with nothing measured it says that and no more.

    `series`: those of these findings as the page draws them, where it has other sweeps too.
    """
    series = series_of(findings) if series is None else series
    rates = rates_of(series)
    sentences, notes = with_marks(findings.sentences)
    pair = most_throughput(findings)
    size = None if pair is None else size_of(pair.other)
    return Answer(
        headline=headline(findings, series),
        progress=_progress(findings),
        repeats=_repeats(findings),
        groups=tuple(_group(sentences, series, kind, title, size) for kind, title in _KINDS),
        notes=tuple(notes),
        scores=tuple(_score(one, findings, rates) for one in series),
        columns=_columns(rates) if rates else (),
        rates=(None, None, rates[-1], rates[0], None) if rates else (),
        facts=glance(findings, series),
        goodputs=tuple(goodput(slo, series, rates) for slo in findings.slos) if rates else (),
        gated=gated_notes(series),
        simulated=any(trial.trial.backend.startswith("simulated") for trial in findings.trials),
    )


def headline(findings: Findings, series: Sequence[Series]) -> str:
    """State the finding of a sweep, or why there is none yet."""
    if not findings.trials:
        return "Every attempt failed so far" if findings.failures else "Nothing measured yet"
    found = headlines.main(findings)
    if found:
        return found
    if len({one.strategy for one in series}) == 1:
        return f"Only {series[0].strategy} has been measured so far: nothing to compare yet"
    return "No two strategies have been measured at the same rate yet"


def _progress(findings: Findings) -> str:
    done = sum(trial.counts for trial in findings.trials)
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


def _group(
    sentences: Sequence[Sentence], series: Sequence[Series], kind: str, title: str, size: float | None
) -> SentenceGroup:
    """Show one sentence for each pair of strategies, where most of them ran, with one max_batch_size if there are such
    and that of the finding; fold the others.
    """
    found, main = {one.key: one for one in series}, main_place(series)
    of_kind = [sentence for sentence in sentences if sentence.kind == kind]
    shown: dict[tuple[str, str], Sentence] = {}

    def order(one: Sentence) -> tuple[bool, bool, bool]:
        base, other = found.get(one.base), found.get(one.other)
        if base is None or other is None:
            return True, True, True
        return other.place != main, size_of(base) != size_of(other), size_of(other) != size

    for sentence in sorted(of_kind, key=order):
        pair = (_family(found, sentence.base), _family(found, sentence.other))
        if pair[0] != pair[1] or kind != "policy":
            shown.setdefault(pair, sentence)
    first = list(shown.values()) if kind == "policy" else list(shown.values())[:1]
    return SentenceGroup(
        kind=kind,
        title=title,
        shown=tuple(first or of_kind),
        more=tuple(sentence for sentence in of_kind if sentence not in first) if first else (),
    )


def _family(found: Mapping[str, Series], side: str) -> str:
    return found[side].strategy if side in found else side


def _columns(rates: list[float]) -> tuple[str, ...]:
    return (
        "strategy",
        "knee (req/s)",
        f"tokens/s at {numbers.rate(rates[-1])}",
        f"p50 TTFT at {numbers.rate(rates[0])}",
        "p99 E2E at its highest rate without overload",
    )


def _score(one: Series, findings: Findings, rates: list[float]) -> Score:
    top, bottom = one.at(rates[-1]), one.at(rates[0])
    fine = [cell for cell in one.cells if not cell.overloaded]
    quick = "not run" if bottom is None else _overload(bottom) if bottom.overloaded else _ttft(bottom)
    return Score(
        series=one,
        knee=knee(one, findings),
        throughput="not run" if top is None else numbers.number(top.mean(THROUGHPUT)),
        quick=quick,
        tail=_tail(fine[-1]) if fine else "overloaded at each rate tried",
    )


def _ttft(cell: CellSummary) -> str:
    value = cell.mean("ttft_s_p50")
    return "no request finished" if value is None else numbers.duration(value)


def _tail(cell: CellSummary) -> str:
    """Give p99 E2E of a cell and its rate, or why there is none."""
    value = cell.mean("e2e_s_p99")
    if value is not None:
        return f"{numbers.duration(value)} at {numbers.rate(cell.rate)}"
    cut_off = any(trial.has("unfinished") for trial in cell.trials)
    why = "more than 1 % cut off" if cut_off else "no request finished"
    return f"{why} at {numbers.rate(cell.rate)}"


def _overload(cell: CellSummary) -> str:
    """An overloaded cell has no steady state to take a percentile of: how fast its backlog grows."""
    slope = cell.mean("backlog_slope")
    return "overloaded" if slope is None else f"overloaded: {numbers.number(slope)} left behind per arrival"
