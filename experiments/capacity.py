"""Where the knees will be: step times from a few timed batches, and the rates that stand on both sides.

The capacities are those of experiments/theory.py, approximate by design: results/, not this, says where
the knee was.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from typing import Any, Protocol

import numpy as np

from deployments.models import Dtype, ModelSpec
from deployments.virtual.step_model import Linear, StepModel
from experiments.cells import lane_key
from experiments.config import AUTO, SweepConfig
from experiments.grid import Setting
from experiments.resolved import Resolved
from experiments.theory import Work, gated_capacity, iteration_capacity, lockstep_capacity

LOW_UTILISATION = 0.5  # lowest rate: every setting keeps up, and naive waits long for a full batch
NEAR_UTILISATION = 0.9  # middle rate: the slowest setting only just keeps up
HIGH_UTILISATION = 3.0  # highest rate, in the highest capacity of naive
BEYOND_ALL = 1.2  # and in the highest capacity of any setting, so that its knee is passed too
AUTO_RATES = ("low", "near", "high")  # what `auto` resolves to, in this order
BUDGET = "kv_budget_bytes"  # the engine argument
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
class Probe:
    """What must be measured before `auto` can be resolved: one lane of a backend, at some batch sizes."""

    backend: str
    engine: Mapping[str, Any]
    model: ModelSpec | None
    max_batch_size: int
    batch_sizes: tuple[int, ...]  # none: it is not timed
    prompt_tokens: int  # of each row: about the workload's mean
    reserve: bool  # whether what its padded batches take beside keys and values is measured too

    @property
    def lane_key(self) -> str:
        """The lane to load, one that the sweep uses too."""
        return lane_key(self.backend, self.model, self.engine)


def probes(config: SweepConfig, dtype: Dtype | None = None) -> tuple[Probe, ...]:
    """One probe for each backend that must be measured, on the lane with the most slots.

    Its step times, unless the rates are written; its reserve, if it pads and its KV budget is not given in bytes.
    """
    timed = config.arrival_rate is None
    widest: dict[str, Setting] = {}
    for setting in config.settings:
        known = widest.get(setting.backend)
        if known is None or setting.max_batch_size > known.max_batch_size:
            widest[setting.backend] = setting
    prompt_tokens = round(config.workload.prompt_law().mean())
    return tuple(
        Probe(
            backend=setting.backend,
            engine=setting.engine,
            model=Resolved(rates=(), durations_s=(), dtype=dtype).fixed(setting.model),
            max_batch_size=setting.max_batch_size,
            batch_sizes=tuple(sorted({1, setting.max_batch_size})) if timed else (),
            prompt_tokens=prompt_tokens,
            reserve=needs_reserve(setting),
        )
        for setting in widest.values()
        if timed or needs_reserve(setting)
    )


def needs_reserve(setting: Setting) -> bool:
    """Whether its KV budget is what a measured reserve leaves. A single row runs whatever it takes."""
    automatic = setting.engine.get(BUDGET, AUTO) == AUTO
    return automatic and setting.pads and setting.model is not None and setting.max_batch_size > 1


def fit(samples: Sequence[Sample]) -> Linear:
    """Least squares with no negative cost: step times first, then what prefill adds to a step.

    ValueError without samples, or if they say that a step takes no time.
    """
    from scipy.optimize import nnls  # slow to import, and every trial process imports this module

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
    return Linear(
        fixed_s=float(fixed_s), per_sequence_s=float(per_sequence_s), per_prefill_token_s=per_token_s
    )


def to_record(model: Linear) -> dict[str, float]:
    """What a sweep keeps of measured step times, as plain JSON values."""
    return {
        "fixed_s": model.fixed_s,
        "per_sequence_s": model.per_sequence_s,
        "prefill_s_per_token": model.per_prefill_token_s,
    }


def from_record(values: Mapping[str, Any]) -> Linear:
    """The inverse of `to_record`. KeyError, TypeError or ValueError if that is not what it is."""
    return Linear(
        fixed_s=float(values["fixed_s"]),
        per_sequence_s=float(values["per_sequence_s"]),
        per_prefill_token_s=float(values["prefill_s_per_token"]),
    )


def capacity(setting: Setting, work: Work, model: StepModel) -> float:
    """Requests/s that a setting can sustain, by the formula that fits its strategy and its engine."""
    return formula(setting)(work, model, setting.max_batch_size)


def formula(setting: Setting) -> Callable[[Work, StepModel, int], float]:
    """μ by batch size: slots that are filled again, or batches that end with their longest row, padded or not."""
    if not setting.lockstep_bound:
        return iteration_capacity
    return lockstep_capacity if setting.pads else gated_capacity


def resolve_rates(config: SweepConfig, step_times: Mapping[str, StepModel]) -> Resolved:
    """Rates and durations as numbers. `step_times` by backend; not needed where the rates are written.

    KeyError if a backend of an automatic sweep was not measured.
    """
    rates = tuple(sorted(config.arrival_rate)) if config.arrival_rate else _auto_rates(config, step_times)
    return Resolved(rates=rates, durations_s=tuple(_duration_s(config, rate) for rate in rates))


def _auto_rates(config: SweepConfig, step_times: Mapping[str, StepModel]) -> tuple[float, ...]:
    """Well below, just below and far above what the slowest setting can do."""
    work = Work.of(config.workload)
    by_setting = [
        (setting, capacity(setting, work, step_times[setting.backend])) for setting in config.settings
    ]
    everyone = [value for _, value in by_setting]
    naive = [value for setting, value in by_setting if setting.strategy == "naive"] or everyone
    lowest = LOW_UTILISATION * min(everyone)
    highest = max(HIGH_UTILISATION * max(naive), BEYOND_ALL * max(everyone))
    middle = NEAR_UTILISATION * min(everyone)
    return (two_digits(lowest), two_digits(middle), two_digits(highest, up=True))


def _duration_s(config: SweepConfig, rate: float) -> float:
    asked_s = config.duration_s
    if asked_s is None:
        asked_s = max(config.minimum_duration_s, float(math.ceil(fewest_requests(config) / rate)))
    return min(asked_s, config.workload.lasts_s(rate))  # a trace ends


def fewest_requests(config: SweepConfig) -> int:
    """How many requests an automatic duration expects at least."""
    naive: Iterable[int] = (s.max_batch_size for s in config.settings if s.strategy == "naive")
    return max(REQUESTS, FILLS * max(naive, default=0))


def two_digits(value: float, *, up: bool = False) -> float:
    """A positive number rounded to 2 significant digits, or up to the next such number."""
    exact = Decimal(repr(value))
    unit = Decimal(1).scaleb(exact.adjusted() - 1)
    return float(exact.quantize(unit, rounding=ROUND_CEILING if up else ROUND_HALF_EVEN))
