"""docs/CONFIG.md: every key of a config with what it means, may be and is if left out, made from its schema."""

import json
import re
from collections.abc import Iterator
from typing import Any

from experiments.complaints import PATTERNS
from experiments.config_schema import Schema, config_schema

_HEAD = """\
# Keys of a config

What a config may say. Made by `batchyard schema --keys` from what checks it; a test keeps it so. Paths are
relative to the folder that the command is run in. A key without a default must be given; of one with –
the meaning says what holds where it is left out.
"""
_LAWS = "Lengths"
_LAW = re.compile(rf"#/\$defs/(\w+){_LAWS}$")
_PLURAL = {"a whole number": "whole numbers", "a number": "numbers", "text": "texts"}


def config_page() -> str:
    """The page as Markdown."""
    schema = config_schema()
    return "\n".join([_HEAD, *(_section(*part) for part in _parts(schema))])


def _parts(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Each mapping of the config, by heading; lengths once, whatever has them."""
    definitions, keys = schema["$defs"], schema["properties"]
    yield "The config", {key: value for key, value in schema.items() if key != "description"}
    yield from _below("model", definitions["ModelEntry"], definitions)
    yield from _below("workload", definitions["WorkloadSpec"], definitions)
    for ref in _refs(definitions["WorkloadSpec"]["properties"]["output_tokens"]):
        law = definitions[ref.rpartition("/")[2]]
        yield f"lengths: {law['properties']['distribution']['const']}", law
    for entry in keys["strategies"]["items"]["oneOf"]:
        yield f"strategies: {entry['properties']['strategy']['const']}", entry
    for name, engine in keys["backends"]["properties"].items():
        yield f"backends.{name}", engine["anyOf"][0]
    yield from _below("slo", definitions["SloEntry"], definitions)
    yield from _below("simulation", definitions["SimulationEntry"], definitions)


def _below(path: str, part: Schema, definitions: Schema) -> Iterator[tuple[str, Schema]]:
    """A mapping, and the mappings in it that are no lengths."""
    yield path, part
    for key, value in part["properties"].items():
        for ref in _refs(value):
            if not _LAW.match(ref):
                yield from _below(f"{path}.{key}", definitions[ref.rpartition("/")[2]], definitions)


def _section(heading: str, part: Schema) -> str:
    required = set(part.get("required", []))
    rows = (_row(key, value, required=key in required) for key, value in part["properties"].items())
    said = f"{part['description']}\n\n" if "description" in part else ""
    table = "| key | may be | default | meaning |\n|---|---|---|---|\n" + "".join(rows)
    return f"## {heading}\n\n{said}{table}"


def _row(key: str, value: Schema, *, required: bool) -> str:
    default = value.get("default")
    shown = "" if required else "–" if default is None or isinstance(default, dict) else _code(default)
    cells = (_code(key), _allowed(value), shown, value.get("description", ""))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _allowed(value: Schema) -> str:
    """What a value may be, in words; that it may be left out is said by its default."""
    if refs := _refs(value):
        mapping = f"[{_LAWS.lower()}](#lengths-fixed)" if _LAW.match(refs[0]) else "a mapping, below"
        return f"text, or {mapping}" if any(one.get("type") == "string" for one in _forms(value)) else mapping
    forms = [form for form in _forms(value) if form != {"type": "null"}]
    lists = [form for form in forms if form.get("type") == "array"]
    single = ", ".join(_one(form) for form in forms if form not in lists)
    if not lists:
        return single
    return f"{single}, or a list" if single else f"a list of {_plural(lists[0]['items'])}"


def _forms(value: Schema) -> list[Schema]:
    forms: list[Schema] = value.get("anyOf", [value])
    return forms


def _refs(value: Schema) -> list[str]:
    forms = [inner for form in _forms(value) for inner in form.get("oneOf", [form])]
    return [form["$ref"] for form in forms if "$ref" in form]


def _one(form: Schema) -> str:
    if "const" in form or "enum" in form:
        return ", ".join(_code(name) for name in form.get("enum", [form.get("const")]))
    kind = form.get("type")
    if kind in ("integer", "number"):
        return f"{'a whole number' if kind == 'integer' else 'a number'}{_bounds(form)}"
    if "pattern" in form:
        return PATTERNS.get(form["pattern"], f"text like {_code(form['pattern'])}").removeprefix("must be ")
    return {"boolean": "`true`, `false`", "string": "text", "object": "a mapping, below"}[str(kind)]


def _plural(items: Schema) -> str:
    if "oneOf" in items:
        return "mappings, below"
    name = _one({"type": items["type"]})
    return f"{_PLURAL[name]}{_bounds(items)}"


def _bounds(form: Schema) -> str:
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    if "minimum" in form and "maximum" in form:
        return f" from {form['minimum']:.12g} to {form['maximum']:.12g}"
    said = [f"{word} {form[key]:.12g}" for key, word in words.items() if key in form]
    return f" {', '.join(said)}" if said else ""


def _code(value: Any) -> str:
    if isinstance(value, float):
        value = f"{value:.12g}"
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text}`"
