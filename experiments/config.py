"""The config of a sweep: YAML as a person writes it, checked strictly before anything is started.

`load` refuses what cannot run with one line a problem (file, line, key, what was given, what is allowed).
Knobs may be one value or a list, an axis of the grid. `auto` is resolved from measured step times
(experiments/capacity.py) and kept in the sweep.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from deployments.backends.registry import BACKENDS
from deployments.models import PRESETS, Dtype, ModelSpec, resolve
from experiments.complaints import nearest
from experiments.complaints import problems as complaints
from experiments.document import Document, Problem, read
from experiments.errors import ConfigError
from experiments.grid import Axes, Grid, Setting, expand
from workloads.workload import WorkloadSpec

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]

AUTO = "auto"
OR_AUTO = {  # what the keys that may be `auto` allow
    "arrival_rate": "must be auto or requests/s above 0",
    "duration_s": "must be auto or seconds above 0",
}
CONTEXT = ("max_model_len", "context_tokens")  # engine arguments that bound prompt + output


class Strict(BaseModel):
    """Unknown keys, and values of another type, are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ModelEntry(Strict):
    """Preset, Hugging Face id or folder; a preset's dtype and revision hold where they are left out."""

    name: Annotated[str, Field(min_length=1)]
    dtype: Dtype = "auto"
    revision: str | None = None
    trust_remote_code: bool = False


class StrategyEntry(BaseModel):
    """A strategy and its backends; every other key is a knob of that strategy."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    strategy: str
    backends: Annotated[tuple[str, ...], Field(min_length=1)]


class SweepConfig(Strict):
    """A whole sweep. Made by `load` or `parse`, which also check what one key cannot know of another."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=60)]
    model: ModelEntry | None = None
    workload: WorkloadSpec
    arrival_rate: Annotated[tuple[Positive, ...], Field(min_length=1)] | None = None  # None: auto
    duration_s: Positive | None = None  # None: auto
    minimum_duration_s: Positive = 20.0  # of an automatic duration
    strategies: Annotated[tuple[StrategyEntry, ...], Field(min_length=1)]
    backends: Mapping[str, Mapping[str, Any]] = {}
    repeats: Annotated[int, Field(ge=1)] = 3
    seed: Count = 0
    warmup_requests: Count = 4
    drain_limit_s: Positive | None = None  # None: the larger of 60 s and the measured period
    isolate: bool = False  # redeploy for every trial
    max_failures: Count = 3

    _as_written: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def as_written(self) -> Mapping[str, Any]:
        """The parsed document, before defaults."""
        return self._as_written

    @property
    def config_hash(self) -> str:
        """With `name` the identity of the sweep: 12 hex digits of SHA-256 over the config as written."""
        text = json.dumps(self._as_written, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def model_spec(self) -> ModelSpec | None:
        """The model for the backends that load one; a preset is spelt out, so that it stays the same one."""
        return resolve(ModelSpec(**self.model.model_dump())) if self.model else None

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Every strategy with its knobs on its backends, in order of the config."""
        return tuple(self._grid.settings)

    @property
    def warnings(self) -> list[str]:
        """What can run but will not show what it was meant to show."""
        return [*_unused(self), *_unfilled(self), *_unequal(self)]

    @cached_property
    def _grid(self) -> Grid:
        entries = [
            Axes(strategy=entry.strategy, backends=entry.backends, knobs=entry.model_extra or {})
            for entry in self.strategies
        ]
        return expand(entries, self.backends, self.model_spec)


def load(path: str | Path) -> SweepConfig:
    """Read and check a config. ConfigError, one line a problem, on anything wrong."""
    return _parse(read(Path(path)))


def parse(values: Mapping[str, Any], source: str = "config") -> SweepConfig:
    """Check a config that was made in code; `values` are plain JSON values. ConfigError as `load`."""
    return _parse(Document(source=source, values=json.loads(json.dumps(values))))


def _parse(document: Document) -> SweepConfig:
    values = _spelt_out(document.values)
    try:
        config = SweepConfig.model_validate_json(json.dumps(values))
    except ValidationError as exc:
        found = complaints(exc, SweepConfig, values)
        raise document.error([_or_auto(problem, document.values) for problem in found]) from exc
    config._as_written = document.values
    if found := [*config._grid.problems, *_model_problems(config), *_rate_problems(config)]:
        raise document.error(found)
    if found := [*_context_problems(config), *_prompt_problems(config)]:
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
    if "arrival_rate" in full and not isinstance(full["arrival_rate"], list):
        full["arrival_rate"] = [full["arrival_rate"]]
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


def _or_auto(problem: Problem, values: Mapping[str, Any]) -> Problem:
    key = problem.location[0] if problem.location else None
    if key not in OR_AUTO:
        return problem
    given = values[str(key)]
    where = problem.location if isinstance(given, list) else problem.location[:1]
    if len(where) == 2 and isinstance(where[1], int):
        given = given[where[1]]
    return Problem(where, f"{OR_AUTO[str(key)]}, got {given!r}")


def _model_problems(config: SweepConfig) -> list[Problem]:
    """A name that is nearly a preset is a slip; any other may be a hub id or a folder."""
    if config.model is None or config.model.name in PRESETS:
        return []
    name = config.model.name
    meant = nearest(name, PRESETS)
    if meant is None or "/" in name or Path(name).is_dir():
        return []
    presets = ", ".join(PRESETS)
    text = (
        f"must be a preset ({presets}), a Hugging Face id or a folder, got {name!r} (did you mean {meant}?)"
    )
    return [Problem(("model",), text)]


def _rate_problems(config: SweepConfig) -> list[Problem]:
    found = []
    rates = config.arrival_rate or ()
    if twice := sorted({rate for rate in rates if rates.count(rate) > 1}):
        found.append(Problem(("arrival_rate",), f"each rate may be given once, got {twice[0]:g} twice"))
    if config.duration_s is not None and "minimum_duration_s" in config.model_fields_set:
        text = f"belongs to duration_s: auto, got duration_s {config.duration_s:g}"
        found.append(Problem(("minimum_duration_s",), text))
    return found


def _context_problems(config: SweepConfig) -> list[Problem]:
    """An engine's context that the longest prompt and output do not fit in."""
    prompt = config.workload.prompts.tokens.law().maximum
    output = config.workload.limit_tokens
    found = []
    for setting in config.settings:
        for key in CONTEXT:
            context = setting.engine.get(key, math.inf)
            if context < prompt + output:
                text = f"must be at least {prompt} prompt + {output} output tokens, got {context}"
                found.append(Problem(("backends", setting.backend, key), text))
    return list(dict.fromkeys(found))


def _prompt_problems(config: SweepConfig) -> list[Problem]:
    """Prompts that could not be made after a model has been loaded and timed for minutes."""
    prompts, here = config.workload.prompts, ("workload", "prompts")
    if prompts.path is not None and not Path(prompts.path).is_file():
        return [Problem((*here, "path"), f"must be a chat file that can be read, got {prompts.path!r}")]
    untold = sorted({s.backend for s in config.settings if not BACKENDS[s.backend].needs_model})
    if prompts.source == "random" or not untold:
        return []
    text = f"must be random for {untold[0]}, which has no tokenizer, got {prompts.source!r}"
    return [Problem((*here, "source"), text)]


def _unused(config: SweepConfig) -> list[str]:
    used = {setting.backend for setting in config.settings}
    found = [f"backends.{name}: no strategy runs on it" for name in config.backends if name not in used]
    if config.model is not None and not any(BACKENDS[name].needs_model for name in used):
        found.append(f"model: {config.model.name} is not loaded: {', '.join(sorted(used))} needs no model")
    return found


def _unfilled(config: SweepConfig) -> list[str]:
    """Batch sizes that fewer requests than one batch are expected for."""
    if config.arrival_rate is None or config.duration_s is None:
        return []
    rate, duration_s = max(config.arrival_rate), config.duration_s
    expected = rate * duration_s
    sizes = sorted({setting.max_batch_size for setting in config.settings})
    return [
        f"max_batch_size {size}: never filled, {rate:g} requests/s for {duration_s:g} s are {expected:g} requests"
        for size in sizes
        if size > expected
    ]


def _unequal(config: SweepConfig) -> list[str]:
    """Engines with unlike CPU threads: what they differ in is then not the engine alone."""
    threads = {s.backend: s.engine.get("threads") for s in config.settings if s.model is not None}
    if len(set(threads.values())) < 2:
        return []
    said = ", ".join(f"{name} {count or 'its default'}" for name, count in sorted(threads.items()))
    return [f"backends: unequal threads ({said}): a comparison of engines compares these too"]


__all__ = ["ConfigError", "SweepConfig", "load", "parse"]
