"""Model bandwidth utilisation: how much of the device's memory bandwidth decoding uses.

    Σ (weight bytes + KV bytes read) ÷ (Σ step time × device bandwidth), over steps that only decode

A decode step reads every weight and the KV cache of every sequence once, so this says how far it is from the
device's limit. KV bytes: the share of the cache in use × its size, as the engine reports them. Known only where the
set-up of a trial has `weight_bytes`, `kv_cache_bytes` and `bandwidth_bytes_per_s` (a data sheet's), and the engine
reports its steps.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from results.metrics import Array, column
from results.records import Trial


def utilisation(
    weight_bytes: float, kv_bytes: Array, step_s: Array, bandwidth_bytes_per_s: float
) -> float | None:
    """Of steps of these lengths (s) that read so many bytes of KV cache each; None without any."""
    busy_s = float(step_s.sum())
    if busy_s <= 0 or bandwidth_bytes_per_s <= 0:
        return None
    return float(weight_bytes * len(step_s) + kv_bytes.sum()) / (busy_s * bandwidth_bytes_per_s)


def of_trial(trial: Trial, batches: pa.Table) -> float | None:
    """Of a trial from its batch rows; None where something about it is not known."""
    engine = trial.setup.get("engine")
    facts = engine if isinstance(engine, dict) else {}
    names = ("weight_bytes", "kv_cache_bytes", "bandwidth_bytes_per_s")
    known = [facts[name] for name in names if isinstance(facts.get(name), int | float)]
    if len(known) < len(names):
        return None
    weights, cache, bandwidth = known
    kv_use, step_s = decode_steps(batches)
    return utilisation(weights, kv_use * cache, step_s, bandwidth)


def decode_steps(batches: pa.Table) -> tuple[Array, Array]:
    """Share of the KV cache in use, and length (s), of the steps in which something is resident and nothing prefilled.

    A step that does not say when it began, began when the one before it ended, if that left something resident.
    """
    rows = batches.filter(pc.equal(batches.column("kind"), "step"))
    size, ended_s = column(rows, "size"), column(rows, "ended_s")
    before_s = np.concatenate([[np.nan], np.where(size[:-1] > 0, ended_s[:-1], np.nan)])[: len(size)]
    started_s = column(rows, "started_s")
    step_s = (ended_s - np.where(np.isnan(started_s), before_s, started_s)) / _count(rows)
    kv_use = column(rows, "kv_use")
    decoding = (size > 0) & (np.nan_to_num(column(rows, "prompt_tokens")) == 0)
    usable = decoding & ~np.isnan(kv_use) & ~np.isnan(step_s)
    times = _count(rows)[usable].astype(np.int64)
    return np.repeat(kv_use[usable], times), np.repeat(step_s[usable], times)


def _count(rows: pa.Table) -> Array:
    steps = column(rows, "steps")
    return np.where(np.isnan(steps), 1.0, steps)
