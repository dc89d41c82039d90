"""`batchyard capacity --dry-run`: what a search would try and how long that may take. Nothing is started or written.

How often it looks follows from what it finds: usually 6 to 12 trials of a setting, at the most its limit. A trial near
the edge keeps up, so that little is left to drain; one beyond it may drain to its limit.
"""

import math
from collections.abc import Mapping
from typing import Any

from deployments.virtual.step_model import StepModel
from experiments.capacity import fewest_requests
from experiments.cells import DRAIN_LIMIT_AT_LEAST_S, lane_key
from experiments.console import emit, show, show_prose, table, tell
from experiments.dry_run import minutes
from experiments.explain.basis import Basis
from experiments.grid import Setting
from experiments.largest_rate.answers import FIRST_SHARE, Answer, Answers
from experiments.largest_rate.question import ARRIVALS, AT_ONCE_BATCHES, SIMULATED_ARRIVALS, Question
from experiments.largest_rate.run import begun
from experiments.plan import load_span
from experiments.preflight import check
from experiments.resolved import Resolved
from experiments.trial_time import AROUND_S, Span, capacities
from experiments.where import HERE, Where, check_where, kind_so_far
from results.address import Place
from results.place import check_place
from results.report import numbers
from results.store import Store

FEWEST, USUAL, MANY = (
    6,
    9,
    12,
)  # trials of a setting: of an edge that is where it was looked for, and of others
VIRTUAL_TRIAL_S = 0.3  # processor time of one in virtual time, with 2,000 requests
_TITLES = ("backend", "strategy", "begins at req/s", "a trial lasts", "trials so far")


def dry_run(
    question: Question,
    results: Place,
    bases: Mapping[str, Basis],
    *,
    fresh: bool,
    as_json: bool,
    where: Where = HERE,
) -> None:
    """Say it. Errors where the search would be refused; a hub is not asked, nor who uses a GPU now."""
    root = question.root(results)
    store = Store(root)
    info = None if fresh else begun(question, store)
    if question.premises is None:
        check_where(question.config, where, kind_so_far(store.trials() if info else ()))
        check(question.config, tell, offline=True, gpus_here=where.address is None)
    check_place(root)
    resolved = Resolved.from_dict(info["resolved"]) if info else Resolved(rates=(), durations_s=())
    known = {one.index: one for one in Answers(question, store, resolved).now()} if info else {}
    timed = {
        name: basis.model for name, basis in bases.items() if question.premises or basis.kind != "default"
    }
    settings = [_Planned(question, index, timed, known.get(index)) for index in question.settings]
    whole = _whole(question, settings)
    if as_json:
        emit(_to_dict(question, root, settings, whole))
        return
    limits = ", ".join(target.text for target in question.targets)
    show_prose(
        f"{question.name}: largest rate with {limits}, to {100 * question.width:g} %, results in {root}"
    )
    for line in table(_TITLES, [one.row() for one in settings], right=2):
        show(line)
    for line in _lines(question, settings, whole):
        show_prose(line)
    show("Nothing was started, and nothing was written.")


class _Planned:
    """One setting, as far as it is known."""

    def __init__(
        self, question: Question, index: int, timed: Mapping[str, StepModel], answer: Answer | None
    ) -> None:
        self.setting: Setting = question.settings[index]
        capacity = capacities(question.config, timed).get((self.setting.backend, self.setting.label))
        saturation = (answer and answer.saturation) or capacity
        self.starts_at = None if saturation is None else FIRST_SHARE * saturation
        self.done = len(answer.tried) if answer else 0
        self.complete = answer is not None and answer.wanted is None
        self.lasts_s = question.config.duration_s
        if self.lasts_s is None and self.starts_at is not None:
            least_s = question.config.minimum_duration_s
            self.lasts_s = max(least_s, float(math.ceil(arrivals(question) / self.starts_at)))
        self.at_once_s = 0.0  # a saturation run: all its requests at the rate of a full engine
        if not (answer and answer.saturation) and saturation is not None:
            batch = self.setting.max_batch_size
            self.at_once_s = max(fewest_requests(question.config), AT_ONCE_BATCHES * batch) / saturation

    def row(self) -> tuple[str, ...]:
        starts = "once timed" if self.starts_at is None else f"about {self.starts_at:.2g}"
        lasts = "not known" if self.lasts_s is None else numbers.duration(self.lasts_s)
        done = f"{self.done}, complete" if self.complete else str(self.done)
        return (self.setting.backend, self.setting.label, starts, lasts, done)

    def span(self, question: Question) -> Span | None:
        """Of what is left of it; None where nothing says how long a trial is."""
        if self.complete:
            return Span.of(0.0)
        if self.lasts_s is None:
            return None
        drains_s = question.config.drain_limit_s or max(DRAIN_LIMIT_AT_LEAST_S, self.lasts_s)
        one_s = self.lasts_s + AROUND_S
        likely, low = (max(0, count - self.done) for count in (USUAL, FEWEST))
        most = max(0, question.max_trials - self.done)
        once_s = self.at_once_s + AROUND_S
        return Span(once_s + low * one_s, once_s + likely * one_s, 2 * once_s + most * (one_s + drains_s))


def arrivals(question: Question) -> int:
    """Requests of a trial whose length the config leaves open."""
    return ARRIVALS if question.premises is None else SIMULATED_ARRIVALS


def _whole(question: Question, settings: list[_Planned]) -> Span | None:
    """On one lane; processor time in virtual time."""
    if question.premises is not None:
        left = [one for one in settings if not one.complete]
        counts = (FEWEST, USUAL, question.max_trials)
        return Span(*(len(left) * (1 + count) * VIRTUAL_TRIAL_S for count in counts))
    spans = [one.span(question) for one in settings]
    waiting = (one.setting for one in settings if not one.complete)
    lanes = {lane_key(one.backend, one.model, one.engine): one for one in waiting}
    loads = [load_span(one.backend, one.engine) for one in lanes.values()]
    if any(span is None for span in spans):
        return None
    return sum([span for span in spans if span is not None] + loads, start=Span.of(0.0))


def _lines(question: Question, settings: list[_Planned], whole: Span | None) -> list[str]:
    if all(one.complete for one in settings):
        return ["This search is complete; another level or a narrower --width goes on from its trials."]
    usual = f"usually {FEWEST} to {MANY} trials, {question.max_trials} at the most"
    lines = [f"Each setting is given all its requests at once, and then rates around its edge: {usual}."]
    if question.config.duration_s is None:
        least_s = question.config.minimum_duration_s
        lines.append(f"A trial sends about {arrivals(question):,} requests, for {least_s:g} s at least.")
    if question.premises is not None:
        assert whole is not None
        lines.append(f"In virtual time, on one core: {_seconds(whole)}.")
    elif whole is None:
        lines.append(
            "How long that takes is not known: nothing in the results folder has timed these engines. A sweep of this "
            "config with arrival_rate: auto does, and --calibration FILE says it too."
        )
    else:
        lines.append(f"Time on one lane: {minutes(whole)}; n GPUs take about an n-th.")
    return lines


def _seconds(span: Span) -> str:
    assert span.likely_s is not None
    return f"about {span.likely_s:.0f} s, {span.low_s:.0f} to {span.high_s:.0f} s in any case"


def _to_dict(question: Question, root: str, settings: list[_Planned], whole: Span | None) -> dict[str, Any]:
    """Plain JSON values; seconds."""
    return {
        "name": question.name,
        "folder": root,
        "max_trials": question.max_trials,
        "settings": [
            {
                "backend": one.setting.backend,
                "setting": one.setting.label,
                "starts_at": one.starts_at,
                "trial_s": one.lasts_s,
                "trials": one.done,
                "complete": one.complete,
            }
            for one in settings
        ],
        "time_s": whole and {"low": whole.low_s, "likely": whole.likely_s, "high": whole.high_s},
    }
