"""What theory says of one config: every setting at every rate, as values for a table, a page or a script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.capacity import resolve_rates
from experiments.config import SweepConfig
from experiments.explain.basis import Basis
from experiments.explain.memory import PaddedMemory, padded_memory
from experiments.explain.memory import to_dict as memory_to_dict
from experiments.explain.setting_theory import Theory
from experiments.theory import Work, lockstep_efficiency

SHOWN_UP_TO = 32  # batch sizes are shown at least so far, to see where the curves go


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One batch size on one backend, every sequence with the mean context of a decode step."""

    batch: int
    step_s: float
    tokens_per_s: float  # decoding only
    gain: float  # tokens/s in those of a batch of one


@dataclass(frozen=True)
class Explanation:
    """A config, its step times and its settings; `automatic` rates were derived from those step times."""

    name: str
    work: Work
    bases: Mapping[str, Basis]
    theories: tuple[Theory, ...]
    rates: tuple[float, ...]
    automatic: bool
    memory: PaddedMemory | None = None

    @property
    def batches(self) -> tuple[int, ...]:
        """Powers of two up to the largest batch of the config, and at least to 32; and that batch itself."""
        caps = {theory.setting.max_batch_size for theory in self.theories}
        top = max(SHOWN_UP_TO, *caps)
        return tuple(sorted({2**power for power in range(top.bit_length()) if 2**power <= top} | caps))

    @property
    def backends_by_basis(self) -> dict[str, list[str]]:
        """The backends that have their step times from one basis, by what it is in words."""
        found: dict[str, list[str]] = {}
        for backend, basis in self.bases.items():
            found.setdefault(basis.text, []).append(backend)
        return found

    def steps(self, backend: str) -> tuple[Step, ...]:
        """The step times of a backend by batch size."""
        model, context = self.bases[backend].model, self.work.context_tokens
        alone = 1 / model.step_s(1, context)
        times = [(batch, model.step_s(batch, batch * context)) for batch in self.batches]
        return tuple(
            Step(batch=batch, step_s=step_s, tokens_per_s=batch / step_s, gain=batch / step_s / alone)
            for batch, step_s in times
        )

    def efficiency(self, batch: int) -> float:
        """Of a lockstep batch, by the output lengths of the workload."""
        return lockstep_efficiency(self.work.outputs, batch)


def explain(config: SweepConfig, bases: Mapping[str, Basis], rates: Sequence[float] = ()) -> Explanation:
    """Everything that theory says. `rates`: those of a sweep that has begun, else the config's or automatic ones.

    ModelError if a model does not fit the memory of the hardware that the step times rest on.
    """
    work = Work.of(config.workload)
    models = {backend: basis.model for backend, basis in bases.items()}
    known = tuple(rates) or resolve_rates(config, models).rates
    memory = padded_memory(config, bases)
    theories = tuple(
        Theory(setting, work, bases[setting.backend], config.simulation, config.workload.limit_tokens)
        for setting in config.settings
    )
    for theory in theories:
        _ = theory.kv_tokens  # a model that does not fit is told before anything is shown
    automatic = config.arrival_rate is None and not rates
    return Explanation(config.name, work, bases, theories, known, automatic, memory)


def to_dict(explanation: Explanation) -> dict[str, Any]:
    """Plain JSON values; null where something does not apply, or where a queue grows without end."""
    work = explanation.work
    return {
        "name": explanation.name,
        "rates": list(explanation.rates),
        "rates_are_automatic": explanation.automatic,
        "workload": {
            "prompt_tokens_mean": work.prompts.mean(),
            "output_tokens_mean": work.outputs.mean(),
            "context_tokens_mean": work.context_tokens,
            "held_tokens_mean": work.held_tokens,
            "most_tokens": work.most_tokens,
        },
        "backends": {
            backend: {
                "kind": basis.kind,
                "step_times": basis.text,
                "steps": [
                    {
                        "batch": step.batch,
                        "step_s": step.step_s,
                        "tokens_per_s": step.tokens_per_s,
                        "gain": step.gain,
                    }
                    for step in explanation.steps(backend)
                ],
            }
            for backend, basis in explanation.bases.items()
        },
        "lockstep_efficiency": {str(batch): explanation.efficiency(batch) for batch in explanation.batches},
        "memory": memory_to_dict(explanation.memory) if explanation.memory else None,
        "settings": [_setting(theory, explanation.rates) for theory in explanation.theories],
    }


def _setting(theory: Theory, rates: Sequence[float]) -> dict[str, Any]:
    points = [theory.at(rate) for rate in rates]
    return {
        "backend": theory.setting.backend,
        "strategy": theory.setting.strategy,
        "setting": theory.setting.label,
        "capacity_requests_per_s": theory.capacity,
        "capacity_tokens_per_s": theory.tokens_per_s,
        "max_batch_size": theory.setting.max_batch_size,
        "cap": theory.cap,
        "kv_tokens": theory.kv_tokens,
        "kv_limit": theory.kv_limit,
        "rates": [
            {
                "rate": point.rate,
                "utilisation": point.utilisation,
                "tokens_per_s": point.tokens_per_s,
                "mm1_wait_s": point.wait_s,
                "fill_wait_s": point.fill_wait_s,
                "idle_batch": point.idle_batch,
                "batch": point.batch,
            }
            for point in points
        ],
    }
