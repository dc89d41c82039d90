"""The set-up: what ran where, in which versions, from which config, and the command that does it again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from results.findings import Findings

_CONFIG_KEYS = ("config_text", "config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The section on the set-up: facts by name, the config as YAML and a command."""

    heading: str
    facts: tuple[tuple[str, str], ...]
    config: str
    command: str


def setup(findings: Findings) -> Setup:
    """Collect what sweep.json and the trials say; where trials differ, all values are listed."""
    trials = [trial.trial for trial in findings.trials]
    facts: dict[str, list[str]] = {}
    for name, values in (
        ("models", [trial.model for trial in trials]),
        ("devices", [trial.device for trial in trials]),
        ("backends", [trial.backend for trial in trials]),
    ):
        for value in values:
            _add(facts, name, value)
    for trial in trials:
        _flatten(facts, "", trial.setup)
    for key, value in findings.sweep.items():
        if key not in (*_CONFIG_KEYS, "command"):
            _flatten(facts, "", {key: value})
    return Setup(
        heading=_heading(facts),
        facts=tuple((name, ", ".join(values)) for name, values in facts.items()),
        config=_config(findings.sweep),
        command=_command(findings.sweep),
    )


def _heading(facts: Mapping[str, list[str]]) -> str:
    if "models" not in facts:
        return "What was to be measured"
    return f"{', '.join(facts['models'])} on {', '.join(facts['devices'])}"


def _flatten(facts: dict[str, list[str]], prefix: str, values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        name = f"{prefix} {key}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            _flatten(facts, name, value)
        elif value is not None:
            _add(facts, name, _text(value))


def _add(facts: dict[str, list[str]], name: str, text: str) -> None:
    known = facts.setdefault(name, [])
    if text not in known:
        known.append(text)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    return str(value)


def _config(sweep: Mapping[str, Any]) -> str:
    """Give the config as it was written, as YAML; empty if sweep.json has none."""
    config = next((sweep[key] for key in _CONFIG_KEYS if key in sweep), None)
    if config is None or isinstance(config, str):
        return config or ""
    return str(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))


def _command(sweep: Mapping[str, Any]) -> str:
    written = sweep.get("command")
    if written:
        return written if isinstance(written, str) else " ".join(map(str, written))
    return f"batchyard sweep {sweep['name']}.yaml --fresh" if "name" in sweep else ""
