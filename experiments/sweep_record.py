"""What a sweep records of itself when it begins, and whether it is still that sweep when it goes on."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from experiments.cells import Cell, cells, cells_hash
from experiments.config import ADDED_LATER, SweepConfig
from experiments.config_warnings import unfilled_now
from experiments.console import Say
from experiments.errors import ConfigError
from experiments.inputs import check_inputs, input_hashes, trace_notes
from experiments.provenance import provenance
from experiments.resolved import Resolved
from experiments.traffic import traffic
from results.address import place
from results.earlier_run import refuse_remains
from results.errors import StoreError, one_line
from results.store import Store
from results.sweep_document import RESOLVED, check_sweep
from results.sweep_folder import SWEEP
from workloads.workload import workload_hash


def sweep_root(config: SweepConfig, results: str | os.PathLike[str]) -> str:
    """A sweep's folder: its name and the hash of its config as written."""
    return str(place(results) / f"{config.name}-{config.config_hash}")


def begun(config: SweepConfig, store: Store) -> dict[str, Any] | None:
    """What the sweep recorded when it began, None if it has not.

    StoreError if that is not of this config, ConfigError if a file that its workload reads has changed.
    """
    info = store.read_sweep()
    if info is None:
        refuse_remains(store)
        return None
    check_sweep(info, store.root, RESOLVED)
    if info["config_hash"] != config.config_hash:
        raise StoreError(
            f"{store.place / SWEEP} is of another config ({info['config_hash']}, this one is "
            f"{config.config_hash}): move it away, or --fresh starts anew"
        )
    try:
        Resolved.from_dict(info["resolved"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{store.place / SWEEP}: resolved must hold rates and durations_s: {one_line(error)}"
        ) from error
    check_inputs(config, info)
    return info


def take_added(config: SweepConfig, store: Store) -> None:
    """Let the sweep's record have the SLOs and the price that the config has by now: they change no measurement."""
    info = store.read_sweep() or {}
    recorded = dict(info.get("config", {}))
    asked = {key: config.as_written[key] for key in ADDED_LATER if key in config.as_written}
    if {key: recorded[key] for key in ADDED_LATER if key in recorded} == asked:
        return
    kept = {key: value for key, value in recorded.items() if key not in ADDED_LATER}
    store.write_sweep({**info, "config": kept | asked})


def cells_of(config: SweepConfig, info: Mapping[str, Any] | None) -> tuple[Cell, ...] | None:
    """The cells, if the sweep has been resolved."""
    if info is None:
        return None
    planned = cells(config, Resolved.from_dict(info["resolved"]))
    if cells_hash(planned) != info["cells_hash"]:
        raise config.error(
            (),
            "the cells of this config are not those that the sweep began with (another version of "
            "batchyard with other defaults): go back to that version, or --fresh starts anew",
        )
    return planned


def resolve_and_record(config: SweepConfig, store: Store, say: Say) -> dict[str, Any]:
    """Measure what `auto` needs and write it first, so that a resume re-uses it."""
    from experiments.resolve import run

    resolved, measured = run(config, say)
    planned = cells(config, resolved)
    for warning in unfilled_now(config, resolved.rates, resolved.durations_s):
        say(f"warning: {warning}")
    say(
        f"arrival rates: {', '.join(f'{rate:g}' for rate in resolved.rates)} requests/s, {len(planned)} cells"
    )
    info = {
        "name": config.name,
        "config_hash": config.config_hash,
        "config": dict(config.as_written),
        "resolved": resolved.to_dict(),
        "measured": measured,
        "planned_cells": len(planned),
        "cells_hash": cells_hash(planned),
        "workload_hashes": workload_hashes(planned),
        "input_hashes": input_hashes(config),
        **trace_notes(config),
        "provenance": provenance(),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    store.write_sweep(info)
    return info


def workload_hashes(planned: Sequence[Cell]) -> dict[str, str]:
    """Workload hash by "rate/repeat": all strategies of a rate and repeat get the same requests."""
    one = {f"{cell.rate!r}/{cell.repeat}": cell for cell in planned}
    return {key: workload_hash(traffic(cell).requests) for key, cell in one.items()}


def _recorded_hash(key: str, info: Mapping[str, Any]) -> str | None:
    """Of one rate and repeat; the first sweeps wrote a rate with 6 digits."""
    rate, repeat = key.split("/")
    found: str | None = info["workload_hashes"].get(
        key, info["workload_hashes"].get(f"{float(rate):g}/{repeat}")
    )
    return found


def check_traffic(planned: Sequence[Cell], info: Mapping[str, Any]) -> None:
    """ConfigError unless the cells' requests are those that the sweep began with."""
    for key, value in workload_hashes(planned).items():
        if _recorded_hash(key, info) != value:
            raise ConfigError(
                f"the requests at rate/repeat {key} are not those that the sweep began with "
                "(another tokenizer, prompt file, trace or version): --fresh starts anew"
            )
