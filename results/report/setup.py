"""The set-up: what ran where, in which versions, from which config, and the commands that do it again."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from results.findings import Findings
from results.records import Trial
from results.report import numbers
from results.report.series import backend_name
from results.wording import NO_MODEL

_CONFIG = "config"
COMMAND = ".venv/bin/batchyard"  # in a checkout, where `make` puts it
_INTERNAL = ("warm_lane", "lane_time")  # of use to the sweep alone
_TITLES: dict[str, str] = {
    "provenance": "Machine, versions and commit",
    "simulated": "Simulated: what the backends were taken to be",
    "resolved": "Resolved from the config",
    "measured": "Measured to resolve the config",
    "workload_hashes": "Workloads, by rate and repeat",
}

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactGroup:
    """Facts by name under one title."""

    title: str
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The section on the set-up. `config` is YAML, `commands` are lines for a shell."""

    heading: str
    groups: tuple[FactGroup, ...]
    config: str
    config_file: str
    commands: tuple[str, ...]


def setup(findings: Findings) -> Setup:
    """Collect what sweep.json and the trials say; where backends differ, each value names its own."""
    trials = [trial.trial for trial in findings.trials]
    sweep = findings.sweep
    nested = {key: value for key, value in sweep.items() if isinstance(value, Mapping) and key != _CONFIG}
    plain = {key: value for key, value in sweep.items() if key not in (*nested, _CONFIG)}
    if (hashes := nested.get("workload_hashes")) is not None:
        nested["workload_hashes"] = {_of_repeat(key): value for key, value in hashes.items()}
    of_machine = nested.get("provenance", {})
    groups = [FactGroup(title="What ran", facts=(*_of_trials(trials, of_machine), *_flat(plain)))]
    groups += [
        FactGroup(title=_TITLES.get(key, _words(key)), facts=_flat(nested[key], without=_INTERNAL))
        for key in sorted(nested, key=lambda key: list(_TITLES).index(key) if key in _TITLES else 99)
    ]
    return Setup(
        heading=_heading(trials),
        groups=tuple(group for group in groups if group.facts),
        config=_config(sweep),
        config_file=_file(sweep),
        commands=_commands(sweep),
    )


def _heading(trials: Sequence[Trial]) -> str:
    """Say which models ran on which devices; a simulated backend has neither."""
    sides = [dict.fromkeys(trial.model for trial in trials), dict.fromkeys(trial.device for trial in trials)]
    if not any(sides):
        return "Nothing has run yet"
    named = [", ".join(name for name in side if name != NO_MODEL) for side in sides]
    return " on ".join(name for name in named if name) or "No model and no device"


def _of_trials(trials: Sequence[Trial], of_machine: Mapping[str, Any]) -> Facts:
    """Give what the trials say and the machine's facts do not.

    A value that is not the same on all backends names those that it holds for.
    """
    found: dict[str, dict[str, list[str]]] = {}  # name → value → backends
    backends: list[str] = []
    for trial in trials:
        backend = backend_name(trial.backend)
        if backend not in backends:
            backends.append(backend)
        for name, value in _flat(_described(trial, of_machine)):
            holders = found.setdefault(name, {}).setdefault(value, [])
            if backend not in holders:
                holders.append(backend)
    facts = [("backends", ", ".join(backends))] if backends else []
    for name, values in found.items():
        texts = [
            value if set(holders) == set(backends) else f"{value} ({', '.join(holders)})"
            for value, holders in values.items()
        ]
        facts.append((name, ", ".join(texts)))
    return tuple(facts)


def _described(trial: Trial, of_machine: Mapping[str, Any]) -> dict[str, Any]:
    """Give one trial's own facts: its engine as the backend resolved it, which may not use what was asked."""
    engine, known = _mapping(trial.setup.get("engine")), _mapping(of_machine.get("versions"))
    versions = {
        key: value for key, value in _mapping(engine.pop("versions", None)).items() if value != known.get(key)
    }
    said = {**known, "model": trial.model, "device": trial.device}
    shown = {key: value for key, value in engine.items() if value != said.get(key)}
    asked = {**trial.engine, **_mapping(shown.pop("engine_args", None))}
    rest = {
        key: value
        for key, value in trial.setup.items()
        if key != "engine" and (key not in of_machine or of_machine[key] != value)
    }
    return {
        "model": None if trial.model == NO_MODEL else trial.model,
        "device": None if trial.device == NO_MODEL else trial.device,
        **rest,
        "engine": {**{f"{key}_version": value for key, value in versions.items()}, **shown, **asked},
    }


def _flat(values: Mapping[str, Any], prefix: str = "", without: Collection[str] = ()) -> Facts:
    """Give nested values as pairs of text; what is null is left out, bytes are said as a size."""
    facts: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix} {_words(str(key))}".strip()
        if isinstance(value, Mapping):
            facts += _flat(value, name)
        elif isinstance(value, int) and key.endswith("_bytes"):
            facts.append((name.removesuffix(" bytes"), numbers.size(value)))
        elif value is not None and key not in without:
            facts.append((name, _text(value)))
    return tuple(facts)


def _of_repeat(key: str) -> str:
    """Name what sweep.json counts from 0: "1.8/0" is the first repeat."""
    rate, _, repeat = key.rpartition("/")
    return f"{rate} req/s, repeat {int(repeat) + 1}" if rate and repeat.isdecimal() else key


def _words(key: str) -> str:
    return key.replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _config(sweep: Mapping[str, Any]) -> str:
    """Give the config as it was written, as YAML; empty if sweep.json has none."""
    config = sweep.get(_CONFIG)
    if config is None or isinstance(config, str):
        return config or ""
    return str(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))


def _file(sweep: Mapping[str, Any]) -> str:
    """The config's file by its own name, which that of a simulated sweep is not."""
    config = sweep.get(_CONFIG)
    name = config.get("name") if isinstance(config, Mapping) else None
    return f"{name or sweep.get('name', 'sweep')}.yaml"


def _commands(sweep: Mapping[str, Any]) -> tuple[str, ...]:
    if "name" not in sweep:
        return ()
    came_from = sweep.get("provenance")
    commit = came_from.get("git_commit") if isinstance(came_from, Mapping) else None
    run = f"{COMMAND} sweep {shlex.quote(_file(sweep))} --fresh"
    if isinstance(simulated := sweep.get("simulated"), Mapping):
        options = [str(option) for option in simulated.get("options", ())]
        run = shlex.join([COMMAND, "simulate", _file(sweep), *options, "--fresh"])
    return (*([f"git checkout {shlex.quote(str(commit))}"] if commit else ()), "make", run)


def _mapping(found: Any) -> dict[str, Any]:
    """What should be one: of a document that was damaged it may be anything."""
    return dict(found) if isinstance(found, Mapping) else {}
