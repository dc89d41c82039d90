"""What puts a finding in doubt, ordered by what it could do to the finding: the worst first."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from results.findings import Findings, TrialSummary, VerdictName
from results.report import numbers
from results.sentences import OF_LATENCY
from results.statistics import FEWEST_PAIRS

_WORST: tuple[tuple[VerdictName, str, str], ...] = (  # first what could turn a finding round
    ("failures", "some requests failed", "requests failed or were rejected: latency is that of the others"),
    ("shared-gpu", "GPU was shared", "another process computed on the GPU"),
    ("drifted", "machine speed changed", "the machine's speed changed"),
    ("client-bound", "client was late", "the client was late"),
    ("clock-vague", "clocks agreed vaguely", "the clocks agreed only vaguely"),
    ("not-stationary", "TTFT not settled", "the time to first token had not settled"),
    ("too-short", "trials too short", "trials were too short to tell whether the queue had settled"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """What is wrong, in a few words, in three at most, and of how many trials, with the figures of one of them."""

    words: str
    short: str
    detail: str


def caveats(findings: Findings, behind: Sequence[TrialSummary], *, of_latency: bool = True) -> list[Caveat]:
    """Give what puts a finding in doubt that rests on the trials `behind`, else the sweep; the worst first.

    Overload is none: sweeps overload on purpose, and what it excludes is not stated. `of_latency`: whether the finding
    is of a latency, which alone has to settle.
    """
    return [
        *_of_the_whole(findings),
        *_of_trials(behind, "behind this finding", () if of_latency else OF_LATENCY),
    ] or list(_of_trials(findings.trials, "of the sweep"))


def in_one_line(behind: Sequence[TrialSummary], *, of_latency: bool) -> str:
    """Give what puts in doubt what rests on these trials, the worst first, each with its count; "" without any."""
    without = () if of_latency else OF_LATENCY
    return "; ".join(
        f"{words} ({len(marked):,} of {numbers.count(len(behind), 'trial')})"
        for _, _, words, marked in _marked(behind, without)
    )


def _of_the_whole(findings: Findings) -> Iterator[Caveat]:
    if "simulated" in findings.sweep or any(
        one.trial.backend.startswith("simulated") for one in findings.trials
    ):
        yield Caveat(
            words="nothing was measured: a simulation",
            short="simulated, not measured",
            detail=_premise(findings),
        )
    done = sum(one.counts for one in findings.trials)
    if 2 * done < findings.planned_cells:
        cells = numbers.count(findings.planned_cells, "planned cell")
        words = "most of the sweep is still to be done"
        yield Caveat(words=words, short="mostly not done", detail=f"{done:,} of {cells}")
    repeats = [len(cell.trials) for cell in findings.cells if cell.trials]
    if repeats and max(repeats) < FEWEST_PAIRS:
        few = numbers.count(max(repeats), "repeat")
        yield Caveat(
            words="too few repeats for an interval",
            short="too few repeats",
            detail=f"{few}: nothing here is shown to differ",
        )


def _of_trials(
    trials: Sequence[TrialSummary], where: str, without: Collection[VerdictName] = ()
) -> Iterator[Caveat]:
    for name, short, words, marked in _marked(trials, without):
        count = f"{len(marked):,} of {numbers.count(len(trials), 'trial')} {where}"
        yield Caveat(words=words, short=short, detail=f"{name}: {count}; {_detail(marked, trials, name)}")


def _marked(
    trials: Sequence[TrialSummary], without: Collection[VerdictName]
) -> Iterator[tuple[VerdictName, str, str, list[TrialSummary]]]:
    for name, short, words in _WORST:
        marked = [one for one in trials if one.has(name)]
        if marked and name not in without:
            yield name, short, words, marked


def _detail(marked: Sequence[TrialSummary], trials: Sequence[TrialSummary], name: VerdictName) -> str:
    """Give the figures of one of them; of drift how far apart the machine's speeds were."""
    probes = [probe for one in trials if (probe := one.trial.step_probe_s) is not None]
    if name == "drifted" and len(probes) > 1:
        return (
            f"a step took {numbers.duration(min(probes))} to {numbers.duration(max(probes))} just before them"
        )
    return f"such as {next(one.detail for one in marked[0].verdicts if one.name == name)}"


def _premise(findings: Findings) -> str:
    simulated = findings.sweep.get("simulated", {})
    texts = dict.fromkeys(str(one["text"]) for one in simulated.get("backends", {}).values())
    return "; ".join(texts) or "Backends ran in a model of a server, not on one."
