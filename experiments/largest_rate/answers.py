"""How the search of each setting stands, derived from the trials that its folder holds."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.cells import Cell
from experiments.largest_rate.question import Question
from experiments.largest_rate.search import Bracket, Judged, Try, Verdicts, bracket, next_try
from experiments.resolved import Resolved
from results.patience import patience_s
from results.records import Trial
from results.service_level import Judgement, judge
from results.store import Store
from results.summary import summarise_all, what_counts
from results.sweep_folder import AT_ONCE

FIRST_SHARE = 0.7  # of the rate that a saturated engine completes: where a search begins without a guess
FEWEST_REQUESTS = 10  # of a trial: below them a percentile says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One trial of a setting, judged."""

    rate: float
    repeat: int
    within: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One setting. `wanted`: the cell that would be run next, its saturation run first; None: the bracket is there."""

    index: int
    backend: str
    setting: str
    saturation: float | None  # requests/s completed when all are there at once
    bracket: Bracket
    tried: tuple[Tried, ...]
    wanted: Cell | None
    saturates: bool  # whether what is wanted is the saturation run

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        at = {one.rate: one.why for one in self.tried if not one.within}
        return {
            "backend": self.backend,
            "setting": self.setting,
            "within": self.bracket.within,
            "beyond": self.bracket.beyond,
            "saturation": self.saturation,
            "complete": self.wanted is None,
            "settled": self.bracket.settled,
            "trials": len(self.tried),
            "why_beyond": at.get(self.bracket.beyond) if self.bracket.beyond is not None else None,
            "tried": [
                {"rate": one.rate, "repeat": one.repeat, "within": one.within, "why": one.why}
                for one in self.tried
            ],
        }


class Answers:
    """Reads each trial once; `now` is asked again after more of them were run."""

    def __init__(
        self, question: Question, store: Store, resolved: Resolved, guesses: Mapping[int, float] | None = None
    ) -> None:
        """`guesses`: by place of the setting, a rate to begin at; else a share of its saturation."""
        self._question, self._store, self._resolved = question, store, resolved
        self._at_once = Store(store.place / AT_ONCE, wait_s=patience_s(store.place))
        self._guesses = guesses or {}
        self._judged: dict[str, Judgement] = {}
        self._saturations: dict[str, float | None] = {}

    def now(self) -> tuple[Answer, ...]:
        """One answer for each setting, in order of the config."""
        trials = self._store.trials()
        return tuple(self._answer(index, trials) for index in self._question.settings)

    def _answer(self, index: int, trials: Sequence[Trial]) -> Answer:
        setting = self._question.settings[index]
        own = [one for one in trials if (one.backend, one.setting) == (setting.backend, setting.label)]
        at_once = self._question.at_once(index, self._resolved)
        saturated = at_once.cell_id in self._at_once.done_cells({at_once.cell_id})
        saturation = self._saturation(at_once.cell_id) if saturated else None
        tried = tuple(self._tried(index, own))
        found: Verdicts = defaultdict(dict)
        for one in tried:
            found[one.rate][one.repeat] = one.within
        edges: Bracket = bracket(found)
        wanted: Cell | None = at_once
        if saturated:
            # A setting whose saturated engine completed nothing begins somewhere all the same.
            start = self._guesses.get(index) or FIRST_SHARE * (saturation or 1.0)
            judged = [Judged(rate=one.rate, repeat=one.repeat, within=one.within) for one in tried]
            step = next_try(
                judged,
                start=start,
                width=self._question.width,
                most_trials=self._question.max_trials,
                least_rate=FEWEST_REQUESTS / (self._question.config.duration_s or math.inf),
            )
            if isinstance(step, Try):
                wanted = self._question.cell(index, step.rate, step.repeat, self._resolved)
            else:
                edges, wanted = step, None
        return Answer(
            index=index,
            backend=setting.backend,
            setting=setting.label,
            saturation=saturation,
            bracket=edges,
            tried=tried,
            wanted=wanted,
            saturates=not saturated,
        )

    def _tried(self, index: int, trials: Sequence[Trial]) -> Iterator[Tried]:
        """Those that are cells of the search, by rate and repeat."""
        for trial in sorted(trials, key=lambda one: (one.rate, one.repeat)):
            cell = self._question.cell(index, trial.rate, trial.repeat, self._resolved)
            if cell.cell_id == trial.cell_id:
                found = self._judgement(trial)
                yield Tried(rate=trial.rate, repeat=trial.repeat, within=found.within, why=found.why)

    def _judgement(self, trial: Trial) -> Judgement:
        if trial.cell_id not in self._judged:
            one = {trial.cell_id}
            self._judged[trial.cell_id] = judge(
                trial, self._store.requests(one), self._store.batches(one), self._question.targets
            )
        return self._judged[trial.cell_id]

    def _saturation(self, cell_id: str) -> float | None:
        if cell_id not in self._saturations:
            [summary] = summarise_all(*what_counts(self._at_once, {cell_id}))
            self._saturations[cell_id] = summary.metrics["throughput_requests_per_s"]
        return self._saturations[cell_id]
