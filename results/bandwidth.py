"""Model bandwidth utilisation: how much of the device's memory bandwidth decoding uses.

    Σ (weight bytes + KV bytes read) ÷ (Σ step time × device bandwidth), over steps that only decode

A decode step reads every weight and the KV cache of every sequence once, so this says how far it is from the device's
limit. Bandwidth is a data sheet's. KV bytes, by engine:

    batch formed anew   the share of the cache in use × its size, as each step reports it; whole blocks count
    lockstep            of B rows, padded to the longest prompt P, with longest output O: the step after k tokens reads
                        B·(P + k) tokens, k = 1 … O − 1; from the first token of the batch to its last

Known only where the engine of a trial said its `weight_bytes`, its `bandwidth_bytes_per_s` and its `kv_cache_bytes`
(lockstep: `kv_bytes_per_token`): of a GPU in deployments/virtual/hardware.py, measured or simulated, and never of a CPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.metrics import column
from results.records import Trial


@dataclass(frozen=True, slots=True)
class Decoding:
    """Steps that only decode: how many, how long they took together (s), and what they read of the KV cache."""

    steps: float
    busy_s: float
    read: float  # shares of the cache, or tokens


def utilisation(
    weight_bytes: float, unit_bytes: float, seen: Decoding, bandwidth_bytes_per_s: float
) -> float | None:
    """`unit_bytes`: of what `seen.read` counts. None without any step."""
    if seen.busy_s <= 0 or bandwidth_bytes_per_s <= 0:
        return None
    return (weight_bytes * seen.steps + unit_bytes * seen.read) / (seen.busy_s * bandwidth_bytes_per_s)


def of_trial(trial: Trial, requests: pa.Table, batches: pa.Table) -> float | None:
    """Of a trial from its rows; None where something about it is not known."""
    engine = trial.setup.get("engine")
    facts = engine if isinstance(engine, dict) else {}
    weights, bandwidth = _known(facts, "weight_bytes"), _known(facts, "bandwidth_bytes_per_s")
    if weights is None or bandwidth is None:
        return None
    if (cache := _known(facts, "kv_cache_bytes")) is not None:
        return utilisation(weights, cache, decode_steps(batches), bandwidth)
    if (each := _known(facts, "kv_bytes_per_token")) is not None:
        return utilisation(weights, each, lockstep_steps(requests, batches), bandwidth)
    return None


def _known(facts: Mapping[str, Any], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else None


def decode_steps(batches: pa.Table) -> Decoding:
    """Of steps in which something is resident and nothing prefilled, with shares of the KV cache.

    A step that does not say when it began, began when the one before it ended, if that left something resident.
    """
    rows = batches.filter(pc.equal(batches.column("kind"), "step"))
    size, ended_s = column(rows, "size"), column(rows, "ended_s")
    before_s = np.concatenate([[np.nan], np.where(size[:-1] > 0, ended_s[:-1], np.nan)])[: len(size)]
    started_s = column(rows, "started_s")
    busy_s = ended_s - np.where(np.isnan(started_s), before_s, started_s)
    kv_use, steps = column(rows, "kv_use"), np.nan_to_num(column(rows, "steps"), nan=1.0)
    decoding = (size > 0) & (np.nan_to_num(column(rows, "prompt_tokens")) == 0)
    usable = decoding & ~np.isnan(kv_use) & ~np.isnan(busy_s)
    read = kv_use[usable] @ steps[usable]
    return Decoding(float(steps[usable].sum()), float(busy_s[usable].sum()), float(read))


def lockstep_steps(requests: pa.Table, batches: pa.Table) -> Decoding:
    """Of padded batches whose rows have all finished, with tokens; `lockstep_waste` is null of other batches."""
    padded = batches.filter(
        pc.and_(pc.is_valid(batches.column("lockstep_waste")), pc.equal(batches.column("kind"), "batch"))
    )
    ended = (
        requests.filter(pc.equal(requests.column("status"), "finished"))
        .group_by("batch_id")
        .aggregate([("first_token_s", "min"), ("last_token_s", "max"), ("index", "count")])
    )
    rows = padded.join(ended, "batch_id", join_type="inner")
    size, steps = column(rows, "size"), column(rows, "longest_output_tokens") - 1
    busy_s = column(rows, "last_token_s_max") - column(rows, "first_token_s_min")
    whole = (column(rows, "index_count") == size) & (steps > 0)
    read = size * (steps * column(rows, "longest_prompt_tokens") + steps * (steps + 1) / 2)
    return Decoding(float(steps[whole].sum()), float(busy_s[whole].sum()), float(read[whole].sum()))
