"""The grid without rates and repeats: every setting, a strategy with its knobs on a backend with its engine.

A knob may be one value or a list; the lists of an entry are multiplied. A setting is resolved: defaults
are filled in, and an engine that re-forms its batch gets `max_num_seqs` = the setting's `max_batch_size`
unless the config says otherwise, so that one axis moves every strategy.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from deployments.backends.engine_args import EngineArgs
from deployments.backends.registry import BACKENDS
from deployments.models import ModelSpec
from experiments.complaints import nearest, unknown_key, unknown_name
from experiments.complaints import problems as complaints
from experiments.document import Location, Problem, key_path
from strategies.registry import STRATEGIES, label

SLOTS = "max_num_seqs"  # the engine argument that max_batch_size sets
PASS_TOKENS = "max_num_batched_tokens"  # each running sequence needs one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One strategy with one choice of knobs on one backend with its engine arguments, all resolved."""

    strategy: str
    knobs: Mapping[str, Any]
    label: str
    backend: str
    engine: Mapping[str, Any]
    model: ModelSpec | None  # None on a backend that loads none
    max_batch_size: int
    lockstep_bound: bool  # releases batch by batch (naive, dynamic), and waits for the longest row of each
    accelerator: str | None = None  # the kind of GPU that it is measured on; None: whatever there is

    @property
    def pads(self) -> bool:
        """Whether its engine runs a padded batch to its longest row; else it forms its batch anew at each step."""
        return not BACKENDS[self.backend].args_type.model_validate(dict(self.engine)).joinable


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """One entry of `strategies` as written: a strategy, its backends, and knobs that may be lists."""

    strategy: str
    backends: tuple[str, ...]
    knobs: Mapping[str, Any]


@dataclass(slots=True)
class Grid:
    """Settings in order of the config, and what is wrong with it."""

    settings: list[Setting] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def expand(
    entries: Sequence[Axes], engines: Mapping[str, Mapping[str, Any]], model: ModelSpec | None
) -> Grid:
    """All settings of the entries, whole if there is no problem; one problem a place, the first."""
    grid = Grid()
    args = _engine_args(engines, grid.problems)
    first: dict[str, int] = {}  # setting → index of the entry that made it
    for index, entry in enumerate(entries):
        here: Location = ("strategies", index)
        if entry.strategy not in STRATEGIES:
            text = unknown_name(entry.strategy, STRATEGIES)
            grid.problems.append(Problem((*here, "strategy"), text))
            continue
        points = _points(entry, here, grid.problems)
        for position, backend in enumerate(entry.backends):
            if backend not in BACKENDS:
                text = unknown_name(backend, BACKENDS)
                grid.problems.append(Problem((*here, "backends", position), text))
            elif backend in args:
                for knobs in points:
                    setting = _setting(entry.strategy, knobs, backend, args[backend], model)
                    grid.problems += _mismatches(setting, args[backend], here)
                    grid.problems += _repetition(setting, index, first)
                    grid.settings.append(setting)
    first_of: dict[Location, Problem] = {}
    for problem in grid.problems:
        first_of.setdefault(problem.location, problem)
    grid.problems = list(first_of.values())
    return grid


def _engine_args(engines: Mapping[str, Mapping[str, Any]], problems: list[Problem]) -> dict[str, EngineArgs]:
    args: dict[str, EngineArgs] = {}
    for name in engines:
        if name not in BACKENDS:
            problems.append(Problem(("backends", name), unknown_key(name, BACKENDS)))
    for name, entry in BACKENDS.items():
        given = dict(engines.get(name, {}))
        try:
            args[name] = entry.args_type.model_validate_json(json.dumps(given))
        except ValidationError as exc:
            problems += complaints(exc, entry.args_type, given, ("backends", name))
            continue
        if SLOTS in given and not args[name].joinable:
            text = f"belongs to an engine that re-forms its batch; {name} runs one batch at a time"
            problems.append(Problem(("backends", name, SLOTS), text))
    return args


def _points(entry: Axes, here: Location, problems: list[Problem]) -> list[dict[str, Any]]:
    """The product of the entry's knobs, each checked and with its defaults."""
    model = STRATEGIES[entry.strategy].knobs
    knobs = {key: value for key, value in entry.knobs.items() if key in model.model_fields}
    meant = set()
    for key in entry.knobs:
        if key not in knobs:
            allowed = ["strategy", "backends", *model.model_fields]
            text = f"{unknown_key(key, allowed)} for {entry.strategy}{_belongs(key)}"
            problems.append(Problem((*here, key), text))
            meant.add(nearest(key, allowed))
    axes = {key: value if isinstance(value, list) else [value] for key, value in knobs.items()}
    for key, values in axes.items():
        if not values:
            problems.append(Problem((*here, key), "must have at least 1 value, got an empty list"))
    points = []
    for indices in itertools.product(*(range(len(values)) for values in axes.values())):
        point = {key: axes[key][index] for key, index in zip(axes, indices, strict=True)}
        try:
            points.append(model.model_validate_json(json.dumps(point)).model_dump(mode="json"))
        except ValidationError as exc:
            at = dict(zip(axes, indices, strict=True))
            for problem in complaints(exc, model, point):
                knob = str(problem.location[0]) if problem.location else ""
                if knob in meant and knob not in knobs:
                    continue  # left out by the typo
                inside = (at[knob],) if isinstance(knobs.get(knob), list) else ()
                where = (*here, *problem.location[:1], *inside, *problem.location[1:])
                problems.append(Problem(where, problem.text))
    return points


def _belongs(key: str) -> str:
    """Where a key is known that is unknown here."""
    strategies = [name for name, entry in STRATEGIES.items() if key in entry.knobs.model_fields]
    engines = [name for name, entry in BACKENDS.items() if key in entry.args_type.model_fields]
    if strategies:
        return f" ({key} is a knob of {', '.join(strategies)})"
    return f" ({key} belongs under backends, to {', '.join(engines)})" if engines else ""


def _setting(
    strategy: str, knobs: dict[str, Any], backend: str, args: EngineArgs, model: ModelSpec | None
) -> Setting:
    engine = args.model_dump(mode="json", exclude_none=True)
    if SLOTS in type(args).model_fields and args.joinable:
        engine.setdefault(SLOTS, knobs["max_batch_size"])
    return Setting(
        strategy=strategy,
        knobs=knobs,
        label=label(strategy, knobs),
        backend=backend,
        engine=engine,
        model=model if BACKENDS[backend].needs_model else None,
        max_batch_size=knobs["max_batch_size"],
        lockstep_bound=not STRATEGIES[strategy].needs_joinable,
    )


def _mismatches(setting: Setting, args: EngineArgs, here: Location) -> list[Problem]:
    """What cannot run, or would run as something else than its label says."""
    backend, size = setting.backend, setting.max_batch_size
    if BACKENDS[backend].needs_model and setting.model is None:
        return [Problem(("model",), f"is missing, and {backend} needs one; only simulated runs without")]
    if STRATEGIES[setting.strategy].needs_joinable and not args.joinable:
        text = f"{setting.strategy} needs a backend that lets a request join while others run, got {backend}"
        return [Problem((*here, "backends"), f"{text} (joinable: {_joinable_backends()})")]
    slots = setting.engine.get(SLOTS, size)
    where = ("backends", backend, SLOTS)
    if STRATEGIES[setting.strategy].needs_joinable and slots != size:
        text = f"must equal max_batch_size {size} of {key_path(here)} ({setting.strategy}), got {slots}"
        return [Problem(where, f"{text}; leave it out and max_batch_size sets it")]
    if slots < size:
        text = f"must be at least max_batch_size {size} of {key_path(here)}, got {slots}"
        return [Problem(where, f"{text}; leave it out and max_batch_size sets it")]
    if setting.engine.get(PASS_TOKENS, slots) < slots:
        text = f"must be at least {SLOTS} {slots}, got {setting.engine[PASS_TOKENS]}"
        return [Problem(("backends", backend, PASS_TOKENS), f"{text}: each sequence needs one in a pass")]
    return []


def _joinable_backends() -> str:
    always = [name for name, entry in BACKENDS.items() if entry.args_type().joinable]
    return ", ".join([*always, "simulated with engine: iteration"])


def _repetition(setting: Setting, index: int, first: dict[str, int]) -> list[Problem]:
    identity = json.dumps([setting.strategy, setting.knobs, setting.backend], sort_keys=True)
    earlier = first.setdefault(identity, -1)
    if earlier < 0:
        first[identity] = index
        return []
    what = f"{setting.label} on {setting.backend}"
    if earlier == index:
        return [Problem(("strategies", index), f"names {what} twice; a value may be given once")]
    other = key_path(("strategies", earlier))
    return [Problem(("strategies", index), f"makes the same cells as {other}: {what}")]
