"""The files that a workload reads: a sweep goes on only with the content that it began with.

Requests are drawn from them, so other content is another workload under the same name.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.config import SweepConfig
from experiments.document import Location, key_path


def input_hashes(config: SweepConfig) -> dict[str, str]:
    """SHA-256 in hex of each file, by the key that names it. ConfigError if one cannot be read."""
    return {key_path(key): _sha256(config, key, path) for key, path in input_files(config)}


def check_inputs(config: SweepConfig, info: Mapping[str, Any]) -> None:
    """ConfigError if a file is not what sweep.json recorded of it; sweeps of earlier versions recorded nothing."""
    recorded = info.get("input_hashes")
    if not isinstance(recorded, dict):
        return
    for key, path in input_files(config):
        if recorded.get(key_path(key)) != _sha256(config, key, path):
            text = f"{path} has changed since the sweep began: put it back, or `sweep --fresh` starts anew"
            raise config.error(key, text)


def trace_notes(config: SweepConfig) -> dict[str, list[str]]:
    """For sweep.json: what was left out or cut of the trace, and what is unusual of it; empty without."""
    trace = config.workload.trace
    return {"trace_notes": notes} if trace is not None and (notes := trace.notes()) else {}


def input_files(config: SweepConfig) -> Iterator[tuple[Location, str]]:
    """The keys that name a file, and the files."""
    workload = config.workload
    if workload.prompts.path is not None:
        yield ("workload", "prompts", "path"), workload.prompts.path
    if workload.trace is not None:
        yield ("workload", "trace", "path"), workload.trace.path


def _sha256(config: SweepConfig, key: Location, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise config.error(key, f"{path}: must be a file that can be read, got: {error.strerror}") from error
