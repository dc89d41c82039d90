"""What must be in sweep.json for what is to be done with it: a damaged or foreign one is told, not stumbled over."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from results.address import place
from results.errors import StoreError
from results.sweep_folder import SWEEP


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be: in words, and as a question."""

    words: str
    holds: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_simulated(value: Any) -> bool:
    backends = value.get("backends") if isinstance(value, dict) else None
    return isinstance(backends, dict) and all(
        isinstance(one, dict) and isinstance(one.get("text"), str) for one in backends.values()
    )


def _is_capacity(value: Any) -> bool:
    answers = value.get("answers") if isinstance(value, dict) else None
    return (
        isinstance(answers, list)
        and isinstance(value.get("text"), str)
        and all(
            isinstance(one, dict)
            and all(isinstance(one.get(key), str) for key in ("backend", "setting"))
            and all(
                key in one and (one[key] is None or _is_number(one[key]))
                for key in ("within", "beyond", "saturation", "trials")
            )
            and isinstance(one.get("complete"), bool)
            for one in answers
        )
    )


TEXT = Kind("text", lambda value: isinstance(value, str))
OBJECT = Kind("a JSON object", lambda value: isinstance(value, dict))
COUNT = Kind("a whole number from 0", lambda value: type(value) is int and 0 <= value <= sys.maxsize)
NUMBERS = Kind("a list of numbers", lambda value: isinstance(value, list) and all(map(_is_number, value)))
TEXT_OR_NULL = Kind("text or null", lambda value: value is None or isinstance(value, str))
SIMULATED = Kind("a JSON object with a text for each of its backends", _is_simulated)

SHOWN: Mapping[str, Kind] = {"name": TEXT}
CONFIGURED: Mapping[str, Kind] = {**SHOWN, "config": OBJECT}
RESOLVED: Mapping[str, Kind] = {
    **CONFIGURED,
    "config_hash": TEXT,
    "resolved": OBJECT,
    "measured": OBJECT,
    "cells_hash": TEXT,
    "workload_hashes": OBJECT,
}

# What need not be there, but is of this kind if it is.
_KNOWN: Mapping[str, Kind] = {
    **{key: kind for key, kind in RESOLVED.items() if key != "config"},
    "created_at": TEXT,
    "planned_cells": COUNT,
    "provenance": OBJECT,
    "simulated": SIMULATED,
    "capacity": Kind("a JSON object with a text and answers of a search", _is_capacity),
    "input_hashes": OBJECT,
}
_KNOWN_OF_RESOLVED: Mapping[str, Kind] = {"rates": NUMBERS, "durations_s": NUMBERS, "dtype": TEXT_OR_NULL}


def check_sweep(info: Mapping[str, Any], root: str | os.PathLike[str], needed: Mapping[str, Kind]) -> None:
    """StoreError, one line, unless `info`, read from the sweep.json in `root`, holds what is needed."""
    for key, kind in needed.items():
        if key not in info:
            raise _damaged(root, key, kind, "has none")
    _check_kinds(info, root, needed)


def check_kinds(info: Mapping[str, Any], root: str | os.PathLike[str]) -> None:
    """StoreError, one line, if anything that is known of `info` is of another kind than it can be."""
    _check_kinds(info, root, _KNOWN)
    _check_kinds(info.get("resolved", {}), root, _KNOWN_OF_RESOLVED, "resolved.")


def _check_kinds(
    values: Mapping[str, Any], root: str | os.PathLike[str], kinds: Mapping[str, Kind], inside: str = ""
) -> None:
    for key, kind in kinds.items():
        if key in values and not kind.holds(values[key]):
            raise _damaged(root, f"{inside}{key}", kind, f"got {values[key]!r}"[:80])


def _damaged(root: str | os.PathLike[str], key: str, kind: Kind, got: str) -> StoreError:
    hint = "it is damaged, or was not written by batchyard"
    return StoreError(f"{place(root) / SWEEP}: {key} must be {kind.words}, {got}; {hint}")
