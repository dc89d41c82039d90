"""The config of a sweep: YAML as a person writes it, checked strictly before anything is started.

`load` refuses what cannot run with one line a problem (file, line, key, what was given, what is allowed).
Knobs may be one value or a list, an axis of the grid. `auto` is resolved from measured step times
(experiments/capacity.py) and kept in the sweep.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from deployments.backends.engine_args import lane_gpus
from deployments.models import Dtype, ModelSpec, resolve
from experiments import config_warnings, consistency
from experiments.complaints import problems as complaints
from experiments.document import Document, Location, Problem, shown
from experiments.errors import ConfigError
from experiments.grid import Axes, Grid, Setting, expand
from experiments.simulation_entry import SimulationEntry
from experiments.slo_entry import SloEntry
from experiments.strict_yaml import read
from results.price import ANY, CURRENCY, DEFAULT_CURRENCY, PRICE, Price
from workloads.strict import Strict
from workloads.workload import WorkloadSpec

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=consistency.LONGEST_S, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]

AUTO = "auto"
SIMULATION, SLO = "simulation", "slo"
ADDED_LATER = (
    SLO,
    PRICE,
    CURRENCY,
)  # keys that change no measurement: a sweep that has begun takes them over
NOT_MEASURED = {SIMULATION, *ADDED_LATER}
RECORDED = {"schema_version", "config_hash", "config"}  # of sweep.json
OR_AUTO = {  # what the keys that may be `auto` allow
    "arrival_rate": "must be auto or requests/s above 0",
    "duration_s": f"must be auto or seconds above 0, at most {consistency.LONGEST_S:.0f} (a week)",
    "gpus": "must be auto or a whole number of GPUs, at least 1",
}
SHORT = {  # what the keys allow that have a short form
    ("model",): "must be the name of one model, or a mapping with name",
    ("strategies", "backends"): "must be a backend or a list of backends",
    ("slo",): "must be a mapping of limits or a list of them",
    ("accelerator",): "must be a kind of GPU or a list of kinds",
    (PRICE,): "must be a price of 0 or more, or a mapping from kinds of GPU to prices",
}


class ModelEntry(Strict):
    """Preset, Hugging Face id or folder; a preset's dtype and revision hold where they are left out."""

    name: Annotated[str, Field(min_length=1)]
    """Preset, Hugging Face id, or folder with config.json and safetensors."""
    dtype: Dtype = "auto"
    """Precision; auto is what the device computes fastest, and is recorded."""
    revision: Annotated[str, Field(min_length=1)] | None = None
    """Branch, tag or commit on the hub."""
    trust_remote_code: bool = False
    """Whether code that comes with the model may be run."""


class StrategyEntry(BaseModel):
    """A strategy and its backends; every other key is a knob of that strategy."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, use_attribute_docstrings=True)

    strategy: str
    """When waiting requests are released."""
    backends: Annotated[tuple[str, ...], Field(min_length=1)]
    """What runs them: one backend or a list."""


class SweepConfig(Strict):
    """A whole sweep. Made by `load` or `parse`, which also check what one key cannot know of another."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=60)]
    """With the hash of the config it names the results folder."""
    model: ModelEntry | None = None
    """What is measured; a name alone will do. Only the simulated backend runs without."""
    workload: WorkloadSpec
    """What arrives: the same for every strategy of one rate and repeat."""
    arrival_rate: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None  # None: auto
    """Requests/s, one or a list; auto measures the engines first and takes three around the knees."""
    duration_s: Seconds | None = None  # None: auto
    """How long requests arrive, in seconds; auto is long enough for 40 of them and 3 batches of naive."""
    minimum_duration_s: Seconds = 20.0
    """The least that auto makes of duration_s, in seconds."""
    strategies: Annotated[tuple[StrategyEntry, ...], Field(min_length=1)]
    """Each with its backends and knobs; a list of values is an axis of the grid."""
    backends: Mapping[str, Mapping[str, Any]] = {}
    """Engine arguments by backend."""
    gpus: Annotated[int, Field(ge=1)] | None = None  # None: auto
    """How many GPUs are used, one lane on each; auto is all there are, or the CPU."""
    accelerator: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)] | None = None
    """Kinds of GPU of a cluster, one or a list, as Ray names them (A10G, L4, H100): an axis of the sweep."""
    repeats: Annotated[int, Field(ge=1, le=1_000)] = 3
    """How often each cell is run, each time with other requests; fewer than 3 give no intervals."""
    seed: Count = 0
    """What all randomness of the sweep begins with."""
    warmup_requests: Annotated[int, Field(ge=0, le=100_000)] = 4
    """Requests before each trial that are not counted."""
    drain_limit_s: Seconds | None = None
    """How long the last requests are waited for, in seconds; 60 or the duration if left out."""
    isolate: bool = False
    """Whether the engine is loaded anew for every trial."""
    max_failures: Count = 3
    """How often a cell that failed is tried again."""
    slo: tuple[SloEntry, ...] = ()
    """Service level objectives, one or a list, that goodput is counted for; may change after the sweep was run."""
    price_per_gpu_hour: (
        Annotated[Mapping[Annotated[str, Field(min_length=1)], Cost], Field(min_length=1)] | None
    ) = None
    """What an hour of one GPU costs, or a mapping from kinds of GPU to that, `any` for all others; may be given, or change, after the sweep was run. A lane without a GPU counts as one."""
    currency: Annotated[str, Field(min_length=1, max_length=12)] = DEFAULT_CURRENCY
    """What prices are in: a sign or a name."""
    simulation: SimulationEntry = SimulationEntry()
    """What `batchyard simulate` takes the engines to be, beyond their arguments; nothing to a measured sweep."""

    _document: Document = PrivateAttr(default_factory=lambda: Document(source="config", values={}))

    @property
    def as_written(self) -> Mapping[str, Any]:
        """The parsed document, before defaults."""
        return self._document.values

    @property
    def config_hash(self) -> str:
        """With `name` the identity of the sweep: 12 hex digits of SHA-256 over what is written of measuring."""
        measured = {key: value for key, value in self.as_written.items() if key not in NOT_MEASURED}
        text = json.dumps(measured, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def model_spec(self) -> ModelSpec | None:
        """The model for the backends that load one; a preset is spelt out, so that it stays the same one."""
        return resolve(ModelSpec(**self.model.model_dump())) if self.model else None

    @property
    def price(self) -> Price | None:
        """Of an hour of one GPU; None if it is not given."""
        given = self.price_per_gpu_hour
        return None if given is None else Price(per_hour=given, currency=self.currency)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Every strategy with its knobs on its backends, in order of the config."""
        kinds = self.accelerator or (None,)
        return tuple(replace(setting, accelerator=kind) for kind in kinds for setting in self._grid.settings)

    @property
    def lane_gpus(self) -> int:
        """GPUs of a lane, which all of its engines have alike."""
        return max((lane_gpus(setting.engine) for setting in self.settings), default=1)

    @property
    def warnings(self) -> list[str]:
        """What can run but will not show what it was meant to show."""
        return config_warnings.warnings(self)

    @property
    def trace_rates(self) -> tuple[float, ...] | None:
        """Requests/s, where a trace's time scale says them."""
        return self.workload.trace.rates() if self.workload.trace else None

    def on_any_gpu(self) -> "SweepConfig":
        """The same without `accelerator`, for what is not run on the GPUs of a cluster."""
        return self.model_copy(update={"accelerator": None})

    def written_at(self, location: Location) -> Any:
        """The value at a place of the parsed document, before defaults; None if there is none."""
        return self._document.at(location)

    def error(self, location: Location, text: str) -> ConfigError:
        """What turned out to be wrong at a key later, said as `load` says it."""
        return self._document.error([Problem(location, text)])

    @cached_property
    def _grid(self) -> Grid:
        entries = [
            Axes(strategy=entry.strategy, backends=entry.backends, knobs=entry.model_extra or {})
            for entry in self.strategies
        ]
        return expand(entries, self.backends, self.model_spec)


def load(path: str | Path) -> SweepConfig:
    """Read and check a config. ConfigError, one line a problem, on anything wrong."""
    document = read(Path(path))
    if document.values.keys() >= RECORDED:
        text = f"is a sweep's record, not a config: `batchyard resume {Path(path).parent}` goes on with it"
        raise ConfigError(f"{path}: {text}")
    return _parse(document)


def parse(values: Mapping[str, Any], source: str = "config") -> SweepConfig:
    """Check a config that was made in code; `values` are plain JSON values. ConfigError as `load`."""
    return _parse(Document(source=source, values=json.loads(json.dumps(values))))


def _parse(document: Document) -> SweepConfig:
    values = _spelt_out(document.values)
    try:
        config = SweepConfig.model_validate_json(json.dumps(values))
    except ValidationError as exc:
        found = complaints(exc, SweepConfig, values)
        raise document.error(_in_short(found, document.values)) from exc
    if config.arrival_rate is None and config.trace_rates is not None:
        config = config.model_copy(update={"arrival_rate": config.trace_rates})
    config._document = document
    if found := [*config._grid.problems, *consistency.problems(config)]:
        raise document.error(found)
    if found := consistency.problems_of_settings(config):
        raise document.error(found)
    return config


def _spelt_out(values: Mapping[str, Any]) -> dict[str, Any]:
    """Short forms written in full: one value for a list, a model's name, auto, an empty engine."""
    full = dict(values)
    if isinstance(model := full.get("model"), str):
        full["model"] = {"name": model}
    for key in OR_AUTO:
        if full.get(key) == AUTO:
            del full[key]
        elif key in full and full[key] is None:
            full[key] = "null"  # a slip, unless it is left out or auto
    if "arrival_rate" in full and not isinstance(full["arrival_rate"], list):
        full["arrival_rate"] = [full["arrival_rate"]]
    if PRICE in full and not isinstance(full[PRICE], dict | None):
        full[PRICE] = {ANY: full[PRICE]}
    if isinstance(full.get("accelerator"), str):
        full["accelerator"] = [full["accelerator"]]
    if isinstance(full.get(SLO), dict):
        full[SLO] = [full[SLO]]
    if isinstance(backends := full.get("backends"), dict):
        full["backends"] = {name: {} if args is None else args for name, args in backends.items()}
    if isinstance(entries := full.get("strategies"), list):
        full["strategies"] = [
            {**entry, "backends": [entry["backends"]]}
            if isinstance(entry, dict) and isinstance(entry.get("backends"), str)
            else entry
            for entry in entries
        ]
    return full


def _in_short(problems: Sequence[Problem], values: Mapping[str, Any]) -> list[Problem]:
    """The same problems where a key has a short form or may be `auto`: what was written, and what it allows."""
    return [_as_given(problem, values) for problem in problems]


def _as_given(problem: Problem, values: Mapping[str, Any]) -> Problem:
    names = tuple(part for part in problem.location if isinstance(part, str))
    if names[:1] == (SLO,) and isinstance(values[SLO], dict):
        return Problem(names, problem.text)
    if names[:1] == (PRICE,) and not isinstance(values[PRICE], dict):
        return Problem((PRICE,), f"{SHORT[PRICE,]}{problem.text[problem.text.rindex(', got') :]}")
    if names in SHORT and "is missing" not in problem.text and "at least 1" not in problem.text:
        return Problem(problem.location, f"{SHORT[names]}{problem.text[problem.text.rindex(', got') :]}")
    if not names or names[0] not in OR_AUTO:
        return problem
    given = values[names[0]]
    where = problem.location if isinstance(given, list) else problem.location[:1]
    if len(where) == 2 and isinstance(where[1], int):
        given = given[where[1]]
    return Problem(where, f"{OR_AUTO[names[0]]}, got {shown(given)}")


__all__ = ["ConfigError", "SweepConfig", "load", "parse"]
