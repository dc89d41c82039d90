"""On what step times theory rests, by backend: data sheets, a sweep that timed them, or the simulated engine.

In this order: hardware that is named; the engine arguments of `simulated`, which are exact; a calibration that is
named; the `measured` step times of a sweep; else the defaults of the simulated engine, which are no more than a
plausible GPU.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deployments.backends.engine_args import SimulatedArgs
from deployments.models import ModelSpec
from deployments.virtual.hardware import HARDWARE, Hardware, spelt
from deployments.virtual.model_shape import ModelShape, model_shape
from deployments.virtual.step_model import Linear, StepModel, recorded
from experiments.calibration.calibration import Calibrated, Calibration, MeasuredEngine
from experiments.capacity import from_record
from experiments.complaints import unknown_name
from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.grid import Setting
from results.report import numbers

SIMULATED = "simulated"
WHOLE_MEMORY = 1.0  # of an engine that reserves none: what the weights leave is the cache's
MEMORY_SHARE = {  # the engine argument that says how much of a GPU the engine takes
    "vllm": "gpu_memory_utilization",
    "huggingface-continuous": "gpu_free_memory_share",
}
STEP_ARGS = ("enforce_eager", "use_cuda_graph", "scheduler")  # engine arguments that change what a step takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The step times of one backend, and what they are in words."""

    model: StepModel
    kind: str  # data sheet, measured, calibration, config, default, assumed (by a simulated sweep)
    text: str
    hardware: Hardware | None = None
    shape: ModelShape | None = None
    arrival_lag_s: float = 0.0  # from a planned arrival until the engine's strategy has it
    engines: tuple[MeasuredEngine, ...] = ()  # what the engines of a calibration said of themselves
    assumed_kv_tokens: int | None = None  # by a simulated sweep, which names no hardware
    assumed_kv_bytes_per_token: int | None = None

    @property
    def kv_bytes_per_token(self) -> int | None:
        """None where the model's shape is not known."""
        return self.shape.kv_bytes_per_token if self.shape else self.assumed_kv_bytes_per_token

    def kv_tokens(self, setting: Setting) -> int | None:
        """What the memory leaves to the KV cache, None where it is not known. ModelError if the model does not fit."""
        if self.hardware is None or self.shape is None:
            return self.assumed_kv_tokens
        share = setting.engine.get(MEMORY_SHARE.get(setting.backend, ""), WHOLE_MEMORY)
        return self.hardware.kv_tokens(self.shape, share)


def bases(
    config: SweepConfig,
    *,
    hardware: str | None = None,
    calibration: Calibration | None = None,
    sweep: Mapping[str, Any] | None = None,
) -> dict[str, Basis]:
    """A basis for each backend of the config. `sweep`: a sweep.json with what it measured.

    ConfigError for hardware that is not known, or with it for a config without a model, and for a calibration
    that does not hold for the config; ModelError for a model whose shape is not known.
    """
    backends = dict.fromkeys(setting.backend for setting in config.settings)
    if hardware is not None:
        basis = _data_sheet(config, named(hardware))
        return dict.fromkeys(backends, basis)
    timed = measured(sweep) if sweep is not None else {}
    name = (sweep or {}).get("name", "a sweep")
    found = {}
    for backend in backends:
        if backend == SIMULATED:
            found[backend] = _of_config(config)
        elif calibration is not None:
            found[backend] = _calibrated(config, backend, calibration)
        elif backend in timed:
            text = f"measured by the sweep {name}: {in_words(timed[backend])}"
            found[backend] = Basis(model=timed[backend], kind="measured", text=text)
        else:
            text = f"no measurement, the simulated engine's defaults: {in_words(Linear())}"
            found[backend] = Basis(model=Linear(), kind="default", text=text)
    return found


def automatic_rates(config: SweepConfig, calibration: Calibration | None) -> tuple[float, ...]:
    """What `auto` was for the calibrated sweep, where this config has its workload and strategies; else empty."""
    if config.arrival_rate is not None or calibration is None:
        return ()
    ours, theirs = config.as_written, calibration.config
    alike = all(ours.get(key) == theirs.get(key) for key in ("workload", "strategies", "backends"))
    return calibration.rates if alike and theirs.get("arrival_rate", "auto") == "auto" else ()


def reported(engines: Sequence[MeasuredEngine], asked: Mapping[str, Any]) -> MeasuredEngine:
    """What the engine that was asked for so said of itself; of another one what all of them said alike."""
    for one in engines:
        if dict(one.asked) == dict(asked):
            return one
    said = {}
    for key in ("max_num_batched_tokens", "kv_blocks", "kv_block_tokens"):
        values = {getattr(one, key) for one in engines}
        said[key] = values.pop() if len(values) == 1 else None
    return MeasuredEngine(asked=asked, **said)


def named(hardware: str) -> Hardware:
    """A GPU as a person writes it. ConfigError, with the nearest, if there is none of that name."""
    key = spelt(hardware)
    if key not in HARDWARE:
        raise ConfigError(f"--hardware {unknown_name(key, HARDWARE)}")
    return HARDWARE[key]


def measured(sweep: Mapping[str, Any]) -> dict[str, Linear]:
    """The step times in a sweep.json, by backend; what is not there or damaged is left out."""
    found = {}
    records = sweep.get("measured")
    for backend, record in records.items() if isinstance(records, Mapping) else ():
        try:
            model = from_record(record["step_times"])
        except (KeyError, TypeError, ValueError):
            continue  # the key of the warm lane is text, and stands beside them
        if model.step_s(1) > 0:
            found[backend] = model
    return found


def assumed(record: Mapping[str, Any]) -> dict[str, Basis]:
    """What a simulated sweep took its backends to be. KeyError, TypeError or ValueError if that is not said."""
    return {
        name: Basis(
            model=recorded(one["step_model"]),
            kind="assumed",
            text=one["text"],
            arrival_lag_s=float(one.get("arrival_lag_s", 0.0)),
            engines=tuple(MeasuredEngine(**engine) for engine in one.get("engines", ())),
            assumed_kv_tokens=one.get("kv_tokens"),
            assumed_kv_bytes_per_token=one.get("kv_bytes_per_token"),
        )
        for name, one in record["backends"].items()
    }


def in_words(model: Linear) -> str:
    """The costs of a linear model: 22 + 0.35·B ms a step, 60 µs a prompt token."""
    fixed, each = numbers.number(1e3 * model.fixed_s), numbers.number(1e3 * model.per_sequence_s)
    text = (
        f"{fixed} + {each}·B ms a step, {numbers.number(1e6 * model.per_prefill_token_s)} µs a prompt token"
    )
    if model.per_prefill_token_sq_s:
        text += f" + {numbers.number(1e9 * model.per_prefill_token_sq_s)} ns × prompt²"
    if model.per_context_token_s:
        text += f", {numbers.number(1e9 * model.per_context_token_s)} ns a token of context"
    return text


def _data_sheet(config: SweepConfig, hardware: Hardware) -> Basis:
    spec = config.model_spec
    if spec is None:
        raise config.error(
            ("model",), "is missing, and --hardware needs one: its weights are what a step reads"
        )
    shape = model_shape(spec)
    hardware.kv_tokens(shape, WHOLE_MEMORY)  # refuses a model that does not fit at all
    text = (
        f"roofline of {hardware.title}: {hardware.bandwidth_bytes_per_s / 1e9:,.0f} GB/s, "
        f"{hardware.flop_per_s / 1e12:.0f} TFLOP/s; {_weights(spec, shape)}"
    )
    model = hardware.roofline(shape)
    return Basis(model=model, kind="data sheet", text=text, hardware=hardware, shape=shape)


def _calibrated(config: SweepConfig, backend: str, calibration: Calibration) -> Basis:
    """ConfigError unless the calibration holds for the model, its dtype, the threads and the engine of the config."""
    of_sweep = f"the calibration of {calibration.sweep}"
    if backend not in calibration.backends:
        others = ", ".join(sorted(calibration.backends))
        raise config.error(("strategies",), f"names the backend {backend}, and {of_sweep} has only {others}")
    known, spec = calibration.backends[backend], config.model_spec
    if spec is not None and spec.name != known.model:
        raise config.error(("model",), f"is {spec.name}, and {of_sweep} is of {known.model}")
    if spec is not None and known.dtype is not None and spec.dtype not in ("auto", known.dtype):
        raise config.error(("model", "dtype"), f"is {spec.dtype}, and {of_sweep} is of {known.dtype}")
    for key, asked, had in _engine_differences(config, backend, known):
        raise config.error(("backends", backend, key), f"is {asked}, and {of_sweep} is of {had}")
    return Basis(
        model=known.costs,
        kind="calibration",
        text=f"calibration of {calibration.sweep}: {in_words(known.costs)}",
        arrival_lag_s=known.arrival_lag_s,
        engines=known.engines,
    )


def _engine_differences(
    config: SweepConfig, backend: str, known: Calibrated
) -> Iterator[tuple[str, Any, Any]]:
    """What the config asks of the engine that makes its steps others than those that were measured."""
    for setting in config.settings:
        if setting.backend != backend:
            continue
        asked = setting.engine.get("threads")
        if asked is not None and known.threads is not None and asked != known.threads:
            yield "threads", asked, known.threads
        for key in STEP_ARGS:
            had = {one.asked.get(key) for one in known.engines}
            if had and setting.engine.get(key) not in had:
                yield key, setting.engine.get(key), " and ".join(map(str, had))


def _weights(spec: ModelSpec, shape: ModelShape) -> str:
    weights = f"{shape.weight_bytes / 1e9:.3g} GB of weights in {shape.dtype}"
    return f"{weights}, {shape.kv_bytes_per_token:,} bytes of KV cache a token"


def _of_config(config: SweepConfig) -> Basis:
    given = dict(config.backends.get(SIMULATED, {}))
    model = SimulatedArgs.model_validate(given).step_model
    if model.step_s(1) <= 0:
        raise config.error(("backends", SIMULATED), "must let a step take time for theory to say anything")
    return Basis(model=model, kind="config", text=f"the simulated engine of the config: {in_words(model)}")
