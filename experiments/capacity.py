"""Where the knees will be: capacities from measured step times, and the rates that stand on both sides.

A step of B sequences takes step(B) = fixed + per_sequence·B, and prefill adds c seconds per prompt token.
With o the output and p the prompt length of a request, in requests/s at cap B:

    lockstep    B ÷ (B·E[max p of B]·c + E[max o of B]·step(B))   padded prefill; runs to its longest row
    iteration   B ÷ (B·E[p]·c + E[o]·step(B))                     a finished row frees its slot

Approximate by design (results/, not this, says where the knee was): a request takes o steps because the
prefill step emits the first token. With c = 0 the second is the saturated throughput
B ÷ (fixed + per_sequence·B) tokens/s ÷ E[o]. Naive on an engine that re-forms its batch is gated: it
waits for the longest row too, so the lockstep formula holds for it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from typing import Any, Protocol

import numpy as np
from scipy.optimize import nnls

from deployments.models import Dtype, ModelSpec
from experiments.cells import lane_key
from experiments.config import SweepConfig
from experiments.grid import Setting
from experiments.resolved import Resolved
from workloads.workload import WorkloadSpec

LOW_UTILISATION = 0.5  # lowest rate: every setting keeps up, and naive waits long for a full batch
NEAR_UTILISATION = 0.9  # middle rate: the slowest setting only just keeps up
HIGH_UTILISATION = 3.0  # highest rate, in the highest capacity of naive
BEYOND_ALL = 1.2  # and in the highest capacity of any setting, so that its knee is passed too
AUTO_RATES = ("low", "near", "high")  # what `auto` resolves to, in this order
FILLS = 3  # a measured period holds at least that many batches of naive …
REQUESTS = 40  # … and requests


class Sample(Protocol):
    """One timed batch of equal rows."""

    @property
    def batch_size(self) -> int:
        """Rows."""

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of each row."""

    @property
    def prefill_s(self) -> float:
        """From launch to the first token."""

    @property
    def step_s(self) -> float:
        """From one token to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """The linear step model of one engine: fixed + per_sequence·B, and prefill per prompt token."""

    fixed_s: float
    per_sequence_s: float
    prefill_s_per_token: float

    def step_s(self, batch_size: int) -> float:
        """One forward pass that decodes `batch_size` sequences."""
        return self.fixed_s + self.per_sequence_s * batch_size

    def to_dict(self) -> dict[str, float]:
        """Plain JSON values; `StepTimes(**values)` is the inverse."""
        return {
            "fixed_s": self.fixed_s,
            "per_sequence_s": self.per_sequence_s,
            "prefill_s_per_token": self.prefill_s_per_token,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What must be timed before `auto` can be resolved: one lane of a backend, at some batch sizes."""

    backend: str
    engine: Mapping[str, Any]
    model: ModelSpec | None
    max_batch_size: int
    batch_sizes: tuple[int, ...]
    prompt_tokens: int  # of each row: about the workload's mean

    @property
    def lane_key(self) -> str:
        """The lane to load, one that the sweep uses too."""
        return lane_key(self.backend, self.model, self.engine)


def probes(config: SweepConfig, dtype: Dtype | None = None) -> tuple[Probe, ...]:
    """One probe for each backend, on the lane with the most slots; none if the rates are written."""
    if config.arrival_rate is not None:
        return ()
    widest: dict[str, Setting] = {}
    for setting in config.settings:
        known = widest.get(setting.backend)
        if known is None or setting.max_batch_size > known.max_batch_size:
            widest[setting.backend] = setting
    prompt_tokens = round(config.workload.prompts.tokens.law().mean())
    return tuple(
        Probe(
            backend=setting.backend,
            engine=setting.engine,
            model=Resolved(rates=(), durations_s=(), dtype=dtype).fixed(setting.model),
            max_batch_size=setting.max_batch_size,
            batch_sizes=tuple(sorted({1, setting.max_batch_size})),
            prompt_tokens=prompt_tokens,
        )
        for setting in widest.values()
    )


def fit(samples: Sequence[Sample]) -> StepTimes:
    """Least squares with no negative cost: step times first, then what prefill adds to a step.

    ValueError without samples, or if they say that a step takes no time.
    """
    if not samples:
        raise ValueError("at least 1 sample is needed, got none")
    sizes = np.array([sample.batch_size for sample in samples], dtype=np.float64)
    steps_s = np.array([sample.step_s for sample in samples])
    (fixed_s, per_sequence_s), _ = nnls(np.column_stack([np.ones_like(sizes), sizes]), steps_s)
    if fixed_s + per_sequence_s <= 0:
        raise ValueError(f"a step must take time, got {steps_s.max()} s at most")
    tokens = sizes * np.array([sample.prompt_tokens for sample in samples])
    extra_s = np.array([sample.prefill_s for sample in samples]) - steps_s
    per_token_s = max(0.0, float(tokens @ extra_s / (tokens @ tokens)))
    return StepTimes(
        fixed_s=float(fixed_s), per_sequence_s=float(per_sequence_s), prefill_s_per_token=per_token_s
    )


def lockstep_capacity(workload: WorkloadSpec, times: StepTimes, cap: int) -> float:
    """Requests/s of full batches of `cap`, each run to its longest row."""
    prompts, outputs = workload.prompts.tokens.law(), workload.output_tokens.law()
    prefill_s = cap * prompts.mean_of_maximum(cap) * times.prefill_s_per_token
    return cap / (prefill_s + outputs.mean_of_maximum(cap) * times.step_s(cap))


def iteration_capacity(workload: WorkloadSpec, times: StepTimes, cap: int) -> float:
    """Requests/s of an engine that keeps `cap` slots filled."""
    prompts, outputs = workload.prompts.tokens.law(), workload.output_tokens.law()
    prefill_s = cap * prompts.mean() * times.prefill_s_per_token
    return cap / (prefill_s + outputs.mean() * times.step_s(cap))


def capacity(setting: Setting, workload: WorkloadSpec, times: StepTimes) -> float:
    """Requests/s that a setting can sustain, by the formula that fits its strategy."""
    formula = lockstep_capacity if setting.lockstep_bound else iteration_capacity
    return formula(workload, times, setting.max_batch_size)


def resolve_rates(config: SweepConfig, step_times: Mapping[str, StepTimes]) -> Resolved:
    """Rates and durations as numbers. `step_times` by backend; not needed where the rates are written.

    KeyError if a backend of an automatic sweep was not measured.
    """
    rates = tuple(sorted(config.arrival_rate)) if config.arrival_rate else _auto_rates(config, step_times)
    return Resolved(rates=rates, durations_s=tuple(_duration_s(config, rate) for rate in rates))


def _auto_rates(config: SweepConfig, step_times: Mapping[str, StepTimes]) -> tuple[float, ...]:
    """Well below, just below and far above what the slowest setting can do."""
    by_setting = [
        (setting, capacity(setting, config.workload, step_times[setting.backend]))
        for setting in config.settings
    ]
    everyone = [value for _, value in by_setting]
    naive = [value for setting, value in by_setting if setting.strategy == "naive"] or everyone
    lowest = LOW_UTILISATION * min(everyone)
    highest = max(HIGH_UTILISATION * max(naive), BEYOND_ALL * max(everyone))
    middle = NEAR_UTILISATION * min(everyone)
    return (two_digits(lowest), two_digits(middle), two_digits(highest, up=True))


def _duration_s(config: SweepConfig, rate: float) -> float:
    if config.duration_s is not None:
        return config.duration_s
    return max(config.minimum_duration_s, float(math.ceil(fewest_requests(config) / rate)))


def fewest_requests(config: SweepConfig) -> int:
    """How many requests an automatic duration expects at least."""
    naive: Iterable[int] = (s.max_batch_size for s in config.settings if s.strategy == "naive")
    return max(REQUESTS, FILLS * max(naive, default=0))


def two_digits(value: float, *, up: bool = False) -> float:
    """A positive number rounded to 2 significant digits, or up to the next such number."""
    exact = Decimal(repr(value))
    unit = Decimal(1).scaleb(exact.adjusted() - 1)
    return float(exact.quantize(unit, rounding=ROUND_CEILING if up else ROUND_HALF_EVEN))
