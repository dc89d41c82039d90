"""The set-up: what ran where, in which versions, from which config, and the commands that do it again."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from results.findings import Findings
from results.records import Trial
from results.report.series import backend_name

_CONFIG = "config"
_TITLES: dict[str, str] = {
    "provenance": "Machine, versions and commit",
    "simulated": "Simulated: what the backends were taken to be",
    "resolved": "Resolved from the config",
    "measured": "Measured to resolve the config",
    "workload_hashes": "Workloads, by rate/repeat",
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
    groups = [FactGroup(title="What ran", facts=(*_of_trials(trials), *_flat(plain)))]
    groups += [
        FactGroup(title=_TITLES.get(key, _words(key)), facts=_flat(nested[key]))
        for key in sorted(nested, key=lambda key: list(_TITLES).index(key) if key in _TITLES else 99)
    ]
    return Setup(
        heading=_heading(trials),
        groups=tuple(group for group in groups if group.facts),
        config=_config(sweep),
        config_file=_file(sweep),
        commands=_commands(sweep),
    )


def _heading(trials: Iterable[Trial]) -> str:
    models = dict.fromkeys(trial.model for trial in trials)
    devices = dict.fromkeys(trial.device for trial in trials)
    return f"{', '.join(models)} on {', '.join(devices)}" if models else "Nothing has run yet"


def _of_trials(trials: Iterable[Trial]) -> Facts:
    """Give what the trials say; a value that is not the same on all backends names those it holds for."""
    found: dict[str, dict[str, list[str]]] = {}  # name → value → backends
    backends: list[str] = []
    for trial in trials:
        backend = backend_name(trial.backend)
        if backend not in backends:
            backends.append(backend)
        described = {"model": trial.model, "device": trial.device, **trial.setup, "engine": trial.engine}
        for name, value in _flat(described):
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


def _flat(values: Mapping[str, Any], prefix: str = "") -> Facts:
    """Give nested values as pairs of text; what is null is left out."""
    facts: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix} {_words(str(key))}".strip()
        if isinstance(value, Mapping):
            facts += _flat(value, name)
        elif value is not None:
            facts.append((name, _text(value)))
    return tuple(facts)


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
    run = f"batchyard sweep {shlex.quote(_file(sweep))} --fresh"
    if isinstance(simulated := sweep.get("simulated"), Mapping):
        options = [str(option) for option in simulated.get("options", ())]
        run = shlex.join(["batchyard", "simulate", _file(sweep), *options, "--fresh"])
    return (f"git checkout {shlex.quote(str(commit))}", run) if commit else (run,)
