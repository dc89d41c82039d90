"""pydantic's validation errors as one-line problems: what must hold, what was given, the nearest right key."""

import difflib
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from experiments.document import Location, Problem, shown

UNITS = {"_ms": "in milliseconds", "_s": "in seconds", "_tokens": "of tokens", "_gib": "in GiB"}
TYPES = {
    "Input should be a valid string": "must be text",
    "Input should be a valid boolean": "must be true or false",
    "Input should be a valid integer": "must be a whole number",
    "Input should be a valid number": "must be a number",
    "Input should be a finite number": "must be a finite number",
    "Input should be a valid array": "must be a list",
    "Input should be an object": "must be a mapping",
    "Field required": "is missing",
}
BOUNDS = {"greater than or equal to": "at least", "less than or equal to": "at most", "greater than": "above"}
PATTERNS = {
    "^[a-z0-9][a-z0-9_.-]*$": "must be lower-case letters, digits, and _ . - after the first of them",
}
NUMBER_TYPES = ("int_type", "float_type", "int_from_float", "int_parsing", "float_parsing")


def problems(exc: ValidationError, model: type[BaseModel], values: Any, base: Location = ()) -> list[Problem]:
    """The errors of `model` validated against `values`, which stand at `base` in the document."""
    errors = [(error, _location(error, values)) for error in exc.errors(include_url=False)]
    unknown: dict[Location, str] = {}  # place of a key left out by a typo → the typo
    found = []
    for error, location in errors:
        if error["type"] == "extra_forbidden":
            allowed = _keys(model, error["loc"][:-1])
            found.append(Problem((*base, *location), unknown_key(str(location[-1]), allowed)))
            if (meant := nearest(str(location[-1]), allowed)) is not None:
                unknown[(*location[:-1], meant)] = str(location[-1])
    found += [
        Problem((*base, *place), text)
        for error, location in errors
        if error["type"] != "extra_forbidden" and location not in unknown and not _is_echo(error, errors)
        for place, text in [_placed(error, location, values)]
    ]
    return list(dict.fromkeys(found))


def _placed(error: Mapping[str, Any], location: Location, values: Any) -> tuple[Location, str]:
    """Where a complaint belongs more exactly than pydantic says, and its text."""
    text = _text(error, location)
    if error["type"] == "missing":
        above = _at(values, location[:-1])
        keys = above if isinstance(above, dict) else {}
        typos = [key for key in keys if nearest(key, [str(location[-1])])]
        return (
            ((*location[:-1], typos[0]), f"unknown key (did you mean {location[-1]}?)")
            if typos
            else (location, text)
        )
    if error["type"] == "value_error":  # of a law or a mapping: it begins with the key that it is about
        key, _, rest = text.partition(" ")
        return (*location, key), rest.replace("got None", "got nothing")
    return location, text


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """The complaint about a key that does not exist."""
    allowed = list(allowed)
    meant = nearest(key, allowed)
    hint = f" (did you mean {meant}?)" if meant else ""
    return f"unknown key{hint}; allowed: {', '.join(allowed)}"


def unknown_name(given: object, allowed: Iterable[str]) -> str:
    """The complaint about a value that is not one of a fixed set of names."""
    allowed = list(allowed)
    meant = nearest(str(given), allowed)
    hint = f" (did you mean {meant}?)" if meant else ""
    return f"must be one of {', '.join(allowed)}, got {shown(given)}{hint}"


def nearest(given: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that `given` was probably meant to be."""
    allowed = list(allowed)
    words = _words(given)
    holding = [word for word in allowed if words and words <= _words(word)]
    if len(holding) == 1:
        return holding[0]
    close = difflib.get_close_matches(given.lower(), holding or allowed, n=1, cutoff=0.65)
    if close:
        return close[0]
    containing = [word for word in allowed if len(given) > 2 and given.lower() in word]
    return containing[0] if len(containing) == 1 else None


def _words(name: str) -> set[str]:
    """`arrival`, `rate` of arrival_rates."""
    return {word.removesuffix("s") for word in re.split(r"[_\W]+", name.lower()) if len(word) > 2}


def _text(error: Mapping[str, Any], location: Location) -> str:
    if error["type"] == "missing":
        return TYPES[error["msg"]]
    given = error["input"]
    if error["type"] == "literal_error":
        names = [part.strip("'") for part in error["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        return unknown_name(given, names)
    if error["type"] == "union_tag_invalid":
        key = error["ctx"]["discriminator"].strip("'")
        names = [part.strip("'") for part in error["ctx"]["expected_tags"].split(", ")]
        return f"{key} {unknown_name(error['ctx']['tag'], names)}"
    if error["type"] == "union_tag_not_found":
        return f"must say {error['ctx']['discriminator'].strip(chr(39))}, got {shown(given)}"
    if error["type"] == "too_short":
        return f"must have at least {error['ctx']['min_length']} value, got {shown(given)}"
    message: str = error["msg"]
    if error["type"] == "value_error":
        return message.removeprefix("Value error, ")
    text = TYPES.get(message, re.sub(r"^\w+ should", "must", message))
    text = re.sub("|".join(BOUNDS), lambda found: BOUNDS[found.group()], text)
    if error["type"] == "string_pattern_mismatch":
        text = PATTERNS.get(error["ctx"]["pattern"], text)
    if error["type"] in NUMBER_TYPES:
        text = f"{TYPES.get(message, 'must be a whole number')}{_unit(location)}"
    return f"{text}, got {shown(given)}{_quotes(error)}"


def _quotes(error: Mapping[str, Any]) -> str:
    """A hint where quotes alone make a value wrong."""
    given = error["input"]
    if error["type"] == "string_type" and isinstance(given, bool | int | float):
        return " (quote it)"
    if error["type"] in NUMBER_TYPES and isinstance(given, str) and re.fullmatch(r"[-+]?\d+(\.\d+)?", given):
        return " (without quotes)"
    return ""


def _unit(location: Location) -> str:
    key = next((part for part in reversed(location) if isinstance(part, str)), "")
    return next((f" {unit}" for suffix, unit in UNITS.items() if key.endswith(suffix)), "")


def _location(error: Mapping[str, Any], values: Any) -> Location:
    """The error's place in the document: pydantic also names union members, which nobody wrote."""
    parts: list[str | int] = []
    path: Location = error["loc"]
    for depth, part in enumerate(path, start=1):
        if _holds(values, part):
            values = values[part]
        elif depth < len(path) or error["type"] != "missing":
            continue
        parts.append(part)
    return tuple(parts)


def _is_echo(error: Mapping[str, Any], errors: Iterable[tuple[Mapping[str, Any], Location]]) -> bool:
    """Whether a list is called too short only because an item of it is wrong."""
    place = error["loc"]
    below = (other["loc"][: len(place)] == place and len(other["loc"]) > len(place) for other, _ in errors)
    return error["type"] == "too_short" and any(below)


def _at(values: Any, location: Location) -> Any:
    for part in location:
        values = values[part] if _holds(values, part) else None
    return values


def _holds(values: Any, part: str | int) -> bool:
    if isinstance(values, dict):
        return part in values
    return isinstance(values, list) and isinstance(part, int) and part < len(values)


def _keys(model: type[BaseModel], location: Location) -> list[str]:
    """The keys that may stand at `location`, found by walking the annotations."""
    models = [model]
    for part in location:
        if isinstance(part, int):
            continue
        fields = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        models = (
            [found for annotation in fields for found in _models(annotation)]
            if fields
            else [m for m in models if _is_tagged(m, part)]
        )
    return list(dict.fromkeys(key for m in models for key in m.model_fields))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)


def _is_tagged(model: type[BaseModel], tag: str) -> bool:
    literals = (typing.get_args(field.annotation) for field in model.model_fields.values())
    return model.__name__ == tag or any(tag in args for args in literals)
