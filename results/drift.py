"""Whether a machine was as fast in a trial as it is in most: its step-time probe against its lane's median.

Each trial begins with the step time of one request on an idle engine. A lane is one engine with one model on
one device, so its probes should agree; where one does not, what the trial measured is in part the machine.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from results.findings import TrialSummary, Verdict

LIMIT = 0.05  # of the lane's median
FEWEST = 3  # probes: the median of two is as far from one as from the other


def with_drift(summaries: Sequence[TrialSummary]) -> list[TrialSummary]:
    """The trials, `drifted` where |probe ÷ the lane's median − 1| > 5 %; needs the whole sweep."""
    probes: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for one in summaries:
        if one.trial.step_probe_s is not None:
            probes[_lane(one)].append(one.trial.step_probe_s)
    medians = {lane: median(found) for lane, found in probes.items() if len(found) >= FEWEST}
    return [_judged(one, medians.get(_lane(one))) for one in summaries]


def _lane(summary: TrialSummary) -> tuple[str, ...]:
    trial = summary.trial
    return trial.lane, trial.backend, trial.model, trial.device, repr(sorted(trial.engine.items()))


def _judged(summary: TrialSummary, usual_s: float | None) -> TrialSummary:
    probe_s = summary.trial.step_probe_s
    if not usual_s or probe_s is None or abs(probe_s / usual_s - 1) <= LIMIT:
        return summary
    detail = (
        f"a step took {probe_s * 1000:.1f} ms just before, {100 * (probe_s / usual_s - 1):+.0f} % off the "
        f"lane's median of {usual_s * 1000:.1f} ms"
    ).replace("-", "−")
    return replace(summary, verdicts=(*summary.verdicts, Verdict(name="drifted", detail=detail)))
