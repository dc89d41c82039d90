"""How long a trial takes: its arrivals, then what is left behind until it is served or the drain limit is over.

At the least everything is served as it comes, at the most the whole drain limit passes. In between, what is
likely: at a rate λ over the capacity μ a backlog of D·(λ − μ) is left after D seconds of arrivals, which takes
D·(λ ÷ μ − 1) to serve, and at any rate the last batch takes B ÷ μ. A trial whose twin (the same setting, rate
and duration) is done takes as long as that did.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from deployments.virtual.step_model import StepModel
from experiments.capacity import capacity
from experiments.cells import Cell
from experiments.config import SweepConfig
from experiments.theory import Work
from results.records import Trial

AROUND_S = 4.0  # handshake, warm-up, probe and handing over: 2.5 s with 4 warm-up requests, more with 8

Twin: TypeAlias = tuple[str, str, float, float, float]  # backend, setting, rate, duration, drain limit


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds: the least, what is likely (None: nothing says), and the most."""

    low_s: float
    likely_s: float | None
    high_s: float

    def __add__(self, other: "Span") -> "Span":
        known = self.likely_s is not None and other.likely_s is not None
        return Span(
            self.low_s + other.low_s,
            self.likely_s + other.likely_s if known else None,  # type: ignore[operator]
            self.high_s + other.high_s,
        )

    def __mul__(self, factor: float) -> "Span":
        """So many times as much, or as much of something else for each second."""
        likely_s = None if self.likely_s is None else self.likely_s * factor
        return Span(self.low_s * factor, likely_s, self.high_s * factor)

    def __truediv__(self, lanes: int) -> "Span":
        """Spread evenly over so many lanes."""
        likely_s = None if self.likely_s is None else self.likely_s / lanes
        return Span(self.low_s / lanes, likely_s, self.high_s / lanes)

    @classmethod
    def of(cls, seconds: float) -> "Span":
        """No doubt about it."""
        return cls(seconds, seconds, seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialTimes:
    """What is known of a sweep's trials before they run."""

    took_s: Mapping[Twin, float] = field(
        default_factory=dict
    )  # of those that are done, here or in an earlier run
    capacities: Mapping[tuple[str, str], float] = field(
        default_factory=dict
    )  # requests/s by backend and setting
    rates: Mapping[float, float] = field(
        default_factory=dict
    )  # what a rate that only holds a place is taken to be

    def of(self, cell: Cell) -> Span:
        """Of one cell, with what surrounds it."""
        if (known_s := self.took_s.get(twin(cell))) is not None:
            return Span.of(known_s)
        least_s = cell.duration_s + AROUND_S
        drain_s = self._drain_s(cell)
        likely_s = None if drain_s is None else least_s + min(drain_s, cell.drain_limit_s)
        return Span(least_s, likely_s, least_s + cell.drain_limit_s)

    def _drain_s(self, cell: Cell) -> float | None:
        sustained = self.capacities.get((cell.backend, cell.setting))
        if sustained is None:
            return None
        utilisation = self.rates.get(cell.rate, cell.rate) / sustained
        last_s: float = cell.knobs["max_batch_size"] / sustained
        return max(0.0, utilisation - 1) * cell.duration_s + last_s


def capacities(config: SweepConfig, step_times: Mapping[str, StepModel]) -> dict[tuple[str, str], float]:
    """Requests/s of each setting whose backend has step times, by backend and setting."""
    work = Work.of(config.workload)
    return {
        (setting.backend, setting.label): capacity(setting, work, step_times[setting.backend])
        for setting in config.settings
        if setting.backend in step_times
    }


def took(trials: Iterable[Trial]) -> dict[Twin, float]:
    """Mean seconds of trials that are done."""
    by_twin: dict[Twin, list[float]] = defaultdict(list)
    for trial in trials:
        key = (trial.backend, trial.setting, trial.rate, trial.duration_s, trial.drain_limit_s)
        by_twin[key].append(trial.total_s)
    return {key: sum(lengths_s) / len(lengths_s) for key, lengths_s in by_twin.items()}


def twin(cell: Cell) -> Twin:
    """What its repeats have in common, whichever run of a sweep they are of."""
    return cell.backend, cell.setting, cell.rate, cell.duration_s, cell.drain_limit_s
