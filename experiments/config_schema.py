"""The JSON Schema of a config, for editors that complete and check YAML.

Made from the models that check a config, with what these leave to code: the short forms (one value for a
list, a model's name, `auto`), the knobs of each strategy, the arguments of each engine, the bounds of the
length laws. It accepts whatever `experiments.config.load` accepts, and refuses what can be seen without
computing; `load` says the rest.
"""

import inspect
from typing import Any, TypeAlias

from deployments.backends.registry import BACKENDS
from deployments.models import PRESETS
from experiments.config import AUTO, OR_AUTO, SLO, SweepConfig
from experiments.grid import SLOTS
from results.price import PRICE
from strategies.knobs import Knobs
from strategies.registry import STRATEGIES
from workloads.lengths import LONGEST_TOKENS
from workloads.spec import BURSTIEST_CV, STEADIEST_CV

Schema: TypeAlias = dict[str, Any]

TOKENS: Schema = {"minimum": 1, "maximum": LONGEST_TOKENS}
NULL: Schema = {"type": "null"}
NOT_NULL: Schema = {"not": NULL}
POSITIVE: Schema = {"exclusiveMinimum": 0}
_BOUNDS: dict[str, dict[str, Schema]] = {  # of the laws, which check themselves
    "FixedLengths": {"tokens": TOKENS},
    "UniformLengths": {"low": TOKENS, "high": TOKENS},
    "LongTailLengths": {"mean": TOKENS, "skew": {"minimum": 0, "maximum": 1}, "maximum": TOKENS},
    "LognormalLengths": {"median": POSITIVE, "sigma": POSITIVE, "minimum": TOKENS, "maximum": TOKENS},
}


def config_schema() -> Schema:
    """The schema as plain JSON values."""
    schema: Schema = _without_noise(SweepConfig.model_json_schema())
    definitions, keys = schema["$defs"], schema["properties"]
    del definitions["StrategyEntry"]
    _bound_workload(definitions)
    keys["model"] = _described(keys["model"], _model(definitions))
    for key in OR_AUTO:
        keys[key] = _described(keys[key], _or_auto(keys[key]))
    keys[SLO] = _described(keys[SLO], _slo(definitions, keys[SLO]))
    keys[PRICE] = _described(keys[PRICE], _price(keys[PRICE]))
    keys["strategies"] |= {"items": {"oneOf": [_strategy(name) for name in STRATEGIES]}}
    keys["backends"] = _described(keys["backends"], _engines())
    written = {"properties": {"duration_s": {"type": "number"}}, "required": ["duration_s"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A sweep of batchyard",
        **schema,
        "if": written,
        "then": {"properties": {"minimum_duration_s": False}},
    }


def _model(definitions: Schema) -> Schema:
    """A name alone, or a mapping; presets are offered, any other name is a hub id or a folder."""
    name = {"type": "string", "minLength": 1, "examples": list(PRESETS)}
    definitions["ModelEntry"]["properties"]["name"] |= {"examples": list(PRESETS)}
    return {"anyOf": [name, {"$ref": "#/$defs/ModelEntry"}, {"type": "null"}]}


def _slo(definitions: Schema, key: Schema) -> Schema:
    """One, or a list of them; each with a limit at least."""
    definitions["SloEntry"] |= {
        "anyOf": [{"required": [name]} for name in definitions["SloEntry"]["properties"]]
    }
    return {"anyOf": [key["items"], {"type": "array", "items": key["items"]}], "default": []}


def _price(key: Schema) -> Schema:
    """One for all, or by kind of GPU."""
    by_kind = next(one for one in key["anyOf"] if one != NULL)
    return {"anyOf": [by_kind["additionalProperties"], by_kind, NULL], "default": None}


def _or_auto(key: Schema) -> Schema:
    """`auto`, or what pydantic allows; a list may be one value. Null is a slip here."""
    (value,) = (one for one in key["anyOf"] if one != {"type": "null"})
    if value.get("type") != "array":
        return {"anyOf": [{"const": AUTO}, value], "default": AUTO}
    return {"anyOf": [{"const": AUTO}, value["items"], value | {"uniqueItems": True}], "default": AUTO}


def _strategy(name: str) -> Schema:
    """One entry of `strategies`: its knobs, each one value or a list."""
    entry = STRATEGIES[name]
    knobs = _without_noise(entry.knobs.model_json_schema())
    able = [
        backend
        for backend, one in BACKENDS.items()
        if not entry.needs_joinable
        or SLOTS in one.args_type.model_fields  # an engine with slots can be joined
    ]
    fields = SweepConfig.model_json_schema()["$defs"]["StrategyEntry"]["properties"]
    return {
        "type": "object",
        "properties": {
            "strategy": {"const": name, "description": fields["strategy"]["description"]},
            "backends": _one_or_list({"enum": able}, fields["backends"]["description"]),
            **{
                knob: _one_or_list(value, _docstring(entry.knobs, knob))
                for knob, value in knobs["properties"].items()
            },
        },
        "required": ["strategy", "backends", *knobs.get("required", [])],
        "additionalProperties": False,
    }


def _one_or_list(value: Schema, description: str | None = None) -> Schema:
    value = dict(value)
    said = value.pop("description", description)
    default = {"default": value.pop("default")} if "default" in value else {}
    several = {"type": "array", "items": value, "minItems": 1, "uniqueItems": True}
    return {**({"description": said} if said else {}), "anyOf": [value, several], **default}


def _docstring(knobs: type[Knobs], knob: str) -> str | None:
    """What the class that has a knob says of itself, for a knob without a description."""
    owner = next(one for one in knobs.__mro__ if knob in inspect.get_annotations(one))
    return inspect.cleandoc(owner.__doc__) if owner.__doc__ else None


def _engines() -> Schema:
    """Engine arguments by backend; an empty block is the defaults."""
    return {
        "type": "object",
        "properties": {
            name: _described(
                arguments := _without_noise(entry.args_type.model_json_schema()),
                {"anyOf": [arguments, {"type": "null"}]},
            )
            for name, entry in BACKENDS.items()
        },
        "additionalProperties": False,
    }


def _bound_workload(definitions: Schema) -> None:
    for law, bounds in _BOUNDS.items():
        for key, bound in bounds.items():
            definitions[law]["properties"][key] |= bound
    values = definitions["EmpiricalLengths"]["properties"]["values"]
    values |= {"minItems": 1, "items": values["items"] | TOKENS}
    scales = definitions["TraceSpec"]["properties"]["time_scale"]
    (several,) = (one for one in scales["anyOf"] if one != NULL)
    scales["anyOf"] = [several["items"], several | {"uniqueItems": True}, NULL]
    terms = definitions["WorkloadSpec"]["properties"]
    weights, targets = (
        next(one for one in terms[key]["anyOf"] if one != NULL) for key in ("priority", "ttft_target_ms")
    )
    weights |= {"minItems": 1, "items": weights["items"] | {"minimum": 0}}
    targets |= {"minItems": 1, "items": targets["items"] | POSITIVE}
    terms["ttft_target_ms"]["anyOf"].insert(0, targets["items"])
    definitions["WorkloadSpec"] |= {
        "if": {"properties": {"trace": {"type": "object"}}, "required": ["trace"]},
        "then": {
            "properties": {
                "arrivals": False,
                "output_tokens": NULL,
                "prompts": {"properties": {"tokens": NULL}},
            }
        },
        "else": {
            "properties": {
                "output_tokens": NOT_NULL,
                "prompts": {"properties": {"tokens": NOT_NULL}, "required": ["tokens"]},
            },
            "required": ["prompts", "output_tokens"],
        },
    }
    definitions["ArrivalSpec"] |= {
        "if": {"properties": {"process": {"const": "gamma"}}, "required": ["process"]},
        "then": {
            "properties": {"cv": {"type": "number", "minimum": STEADIEST_CV, "maximum": BURSTIEST_CV}},
            "required": ["cv"],
        },
        "else": {"properties": {"cv": {"type": "null"}}},
    }
    definitions["PromptSpec"] |= {
        "if": {"properties": {"source": {"const": "sharegpt"}}, "required": ["source"]},
        "then": {"properties": {"path": {"type": "string", "minLength": 1}}, "required": ["path"]},
        "else": {"properties": {"path": {"type": "null"}}},
    }


def _described(key: Schema, schema: Schema) -> Schema:
    return {"description": key["description"], **schema}


def _without_noise(value: Any) -> Any:
    """Without the titles, which repeat the keys, and what is not JSON Schema."""
    if isinstance(value, list):
        return [_without_noise(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _named(item) if key in ("properties", "$defs") else _without_noise(item)
        for key, item in value.items()
        if key not in ("title", "discriminator")
    }


def _named(members: dict[str, Any]) -> dict[str, Any]:
    """Members by name: a key may be called title."""
    return {name: _without_noise(member) for name, member in members.items()}
