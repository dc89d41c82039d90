"""What must be in sweep.json for what is to be done with it: a damaged or foreign one is told, not stumbled over."""

import os
from collections.abc import Mapping
from typing import Any

from results.errors import StoreError

SHOWN: Mapping[str, type] = {"name": str}
CONFIGURED: Mapping[str, type] = {**SHOWN, "config": dict}
RESOLVED: Mapping[str, type] = {
    **CONFIGURED,
    "config_hash": str,
    "resolved": dict,
    "measured": dict,
    "cells_hash": str,
    "workload_hashes": dict,
}
KINDS: Mapping[type, str] = {str: "text", dict: "a JSON object"}


def check_sweep(info: Mapping[str, Any], root: str | os.PathLike[str], needed: Mapping[str, type]) -> None:
    """StoreError, one line, unless `info`, read from the sweep.json in `root`, holds what is needed."""
    for key, kind in needed.items():
        if key not in info:
            got = "has none"
        elif not isinstance(info[key], kind):
            got = f"got {info[key]!r}"[:80]
        else:
            continue
        hint = "it is damaged, or was not written by batchyard"
        raise StoreError(f"{os.fspath(root)}/sweep.json: {key} must be {KINDS[kind]}, {got}; {hint}")
