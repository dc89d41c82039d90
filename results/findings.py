"""What a sweep found, as plain values: the one thing that the page, the terminal table and exports read.

`results.summary.find(store)` makes it. Definitions of all metrics: `results.metrics`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from results.goodput import Slo
from results.padded_batches import PaddedBatches
from results.price import Price, Spent
from results.records import Failure, Trial
from results.served import Served

VerdictName = Literal[
    "overloaded",
    "too-short",
    "not-stationary",
    "unfinished",
    "failures",
    "client-bound",
    "clock-vague",
    "drifted",
    "shared-gpu",
    "cap-fell",
    "replica-changed",
]

Outcome: TypeAlias = Literal["confirmed", "refuted", "not shown"]
Judged: TypeAlias = Literal["confirmed", "refuted", "not shown", "not tested"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a trial may not be used for, with the numbers behind it."""

    name: VerdictName
    detail: str  # one line with the figures: "backlog grows 0.31 requests per arrival"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """One trial: its metrics by name (None where it does not exist) and verdicts.

    Metric names: `throughput_tokens_per_s`, `throughput_requests_per_s` (first planned arrival → last
    completion), `steady_throughput_tokens_per_s`, `steady_throughput_requests_per_s`, `offered_rate`,
    `achieved_rate`, `backlog_slope`, `batch_size_mean`, `padding_waste`, `lockstep_waste`,
    `bandwidth_utilisation`, `kv_use_mean`, `kv_use_peak`, `kv_preemptions` (results.kv_cache), and `<metric>_<statistic>` with metric in queue_wait_s, ttft_s, tpot_s, itl_s, e2e_s,
    held_s, delivered_s, dispatch_lag_s, transport_s and statistic in p50, p90, p95, p99, mean, count;
    `requests_in_system`, `little_error`, `identity_error`, `miscounted_requests` (results.conservation), and for each SLO of the sweep `goodput_share@<slo>` and its like
    (results.goodput).
    """

    trial: Trial
    metrics: Mapping[str, float | None]
    verdicts: tuple[Verdict, ...]
    triggers: Mapping[str, int]  # batches by trigger
    batch_sizes: Mapping[int, int]  # batches (steps, for continuous) by size
    padded: PaddedBatches | None = None  # where batches are padded, or memory ended some
    served: Served | None = None  # what goodput at any SLO needs

    @property
    def counts(self) -> bool:
        """Whether it is a repeat of its cell; one whose replica changed is of two replicas, and is invalid."""
        return not self.has("replica-changed")

    def has(self, name: VerdictName) -> bool:
        """Whether the trial got this verdict."""
        return any(verdict.name == name for verdict in self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """The repeats of one strategy setting on one backend at one rate."""

    strategy: str
    setting: str
    backend: str
    model: str
    device: str
    rate: float
    trials: tuple[TrialSummary, ...]  # by repeat
    sweep: str = ""  # its name where several are shown together

    @property
    def overloaded(self) -> bool:
        """True if most of the repeats were overloaded: no steady-state percentiles are offered."""
        return self._mostly("overloaded")

    @property
    def undecided(self) -> bool:
        """True if it cannot be told whether the setting keeps up: repeats disagree, or most were too short."""
        kept_up = sum(not (trial.has("overloaded") or trial.has("too-short")) for trial in self.trials)
        return not self.overloaded and (self._some("overloaded") or 2 * kept_up <= len(self.trials))

    @property
    def standing(self) -> str:
        """Whether it keeps up, in words; empty if it does."""
        if self.overloaded:
            number, of = sum(trial.has("overloaded") for trial in self.trials), len(self.trials)
            return "overloaded" if number == of else f"overloaded in {number} of {of} repeats"
        if not self.undecided:
            return ""
        return f"not judged, {'repeats disagree' if self._some('overloaded') else 'too short'}"

    @property
    def censored(self) -> bool:
        """True if most of the repeats were overloaded or had requests cut off: the slowest are not in their
        percentiles, which a slow setting would so look better for.
        """
        return self.overloaded or self._mostly("unfinished")

    def _some(self, name: VerdictName) -> bool:
        return any(trial.has(name) for trial in self.trials)

    def _mostly(self, name: VerdictName) -> bool:
        return 2 * sum(trial.has(name) for trial in self.trials) > len(self.trials)

    def mean(self, metric: str) -> float | None:
        """Mean over repeats of the metric (of each repeat's percentile), None if a repeat has none.

        Leaving out a repeat whose percentile was cut off would flatter the cell.
        """
        values = [v for trial in self.trials if (v := trial.metrics.get(metric)) is not None]
        return sum(values) / len(values) if values and len(values) == len(self.trials) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The paired change of `metric` from `base` to `other` at one rate: a ratio, 1 = no change.

    Each side is "backend / setting". The interval (95 %) is null with fewer than 3 pairs.
    """

    metric: str
    rate: float
    base: str
    other: str
    ratio: float
    low: float | None
    high: float | None
    pairs: int
    censored: bool  # a side was overloaded or cut off: its latency describes the drain limit, not the server

    @property
    def shown(self) -> bool:
        """Whether the interval excludes no change."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """total = policy × engine, exactly, in log ratios.

    total: naive or dynamic on one backend → continuous on a joinable one. policy: the same change of
    strategy on the joinable backend. engine: the same strategy, from one backend to the other.
    """

    metric: str
    rate: float
    total: Change
    policy: Change
    engine: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One comparison in words; `kind` says which: strategies on one backend, engines, or the split.

    `notes`: what qualifies it, whole sentences that many comparisons share.
    """

    kind: Literal["policy", "engine", "split"]
    base: str
    other: str
    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One case of an expectation: what was compared, with its interval, and what that says."""

    outcome: Outcome
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What was expected before anything was measured, and what became of it."""

    name: str  # H1 to H6
    claim: str
    verdict: Judged
    evidence: tuple[Evidence, ...]  # every case that the sweep has


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """What theory says of one setting on one backend, to be drawn thin over what was measured.

    `lines`: points (arrival rate, value) by metric name, as in `TrialSummary`. Made by whoever knows the theory.
    """

    backend: str
    setting: str
    capacity: float  # requests/s
    basis: str  # the step times that it rests on, in words
    lines: Mapping[str, tuple[tuple[float, float], ...]]
    sweep: str = ""  # its name where several are shown together


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One request in one slot doing one thing over the steps [first_step, end_step).

    `holding`: prefill, decode, padding, finished, waiting (deployments/virtual/occupancy.py says what they are).
    """

    slot: int
    request: int
    holding: str
    first_step: int
    end_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Who held which slot of one simulated trial, up to the step `steps`."""

    backend: str
    setting: str
    rate: float
    repeat: int
    slots: int
    steps: int
    utilisation: float | None  # of the run, whole or cut
    requests: int = 0  # that were run
    planned: int = 0  # that the trial had
    stretches: tuple[Stretch, ...]
    sweep: str = ""  # its name where several are shown together


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that a page about one sweep says."""

    sweep: Mapping[str, Any]  # sweep.json: name, config as written, resolved rates, provenance
    trials: tuple[TrialSummary, ...]
    cells: tuple[CellSummary, ...]
    changes: tuple[Change, ...]
    splits: tuple[Split, ...]
    sentences: tuple[Sentence, ...]
    knees: Mapping[
        str, tuple[float | None, float | None]
    ]  # "backend / setting" → (kept up with, overloaded); None: no rate was judged so
    failures: tuple[Failure, ...]
    planned_cells: int
    slos: tuple[Slo, ...] = ()  # that goodput is counted for
    expectations: tuple[Expectation, ...] = ()
    price: Price | None = None
    spent: Spent | None = None
    guides: tuple[Guide, ...] = ()  # theory, not measured
    occupancy: tuple[Occupancy, ...] = ()  # of a simulated sweep
    invalid: tuple[CellSummary, ...] = ()  # the trials that do not count, which are in no cell
