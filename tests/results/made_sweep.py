"""A small sweep computed by hand-sized queue formulas, for tests of what reads a store.

naive, dynamic (two settings) on `huggingface` (lockstep) and `vllm` (gated), continuous on `vllm`; three
rates, of which the highest overloads all but continuous. Gaps and lengths are low-discrepancy sequences,
not random numbers: the same sweep on any machine. A step takes base + 1 ms × cap, whatever is resident.
"""

import heapq
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from results.records import REQUESTS, Clock, Failure, Trial
from results.store import Store

RATES = (1.0, 5.0, 30.0)
REQUESTS_PER_TRIAL = 210
CAP = 8
STEP_S = {"huggingface": 0.020 + 0.001 * CAP, "vllm": 0.006 + 0.001 * CAP}
KNOBS: tuple[dict[str, Any], ...] = (
    {"strategy": "naive", "setting": "naive · 8", "max_batch_size": CAP},
    {
        "strategy": "dynamic",
        "setting": "dynamic · 8 · 50 ms",
        "max_batch_size": CAP,
        "max_wait_ms": 50.0,
        "timer": "arrival",
    },
    {
        "strategy": "dynamic",
        "setting": "dynamic · 8 · 200 ms",
        "max_batch_size": CAP,
        "max_wait_ms": 200.0,
        "timer": "arrival",
    },
    {"strategy": "continuous", "setting": "continuous · 8", "max_batch_size": CAP},
)


def make_sweep(
    root: str | os.PathLike[str],
    repeats: int = 3,
    *,
    rates: Sequence[float] = RATES,
    requests: int = REQUESTS_PER_TRIAL,
    parts: int = 2,
) -> Store:
    """Write the sweep into `root` and give its store; one cell has a failed attempt before the good one."""
    store = Store(root)
    cells = [
        (knobs, backend, rate, repeat)
        for repeat in range(repeats)
        for backend in STEP_S
        for knobs in KNOBS
        for rate in rates
        if not (knobs["strategy"] == "continuous" and backend == "huggingface")
    ]
    store.write_sweep(
        {
            "name": "made",
            "config": "name: made\nmodel: tiny\n",
            "rates": list(rates),
            "repeats": repeats,
            "planned_cells": len(cells),
            "provenance": {"git_commit": "0" * 40, "git_dirty": False, "versions": {"batchyard": "0.1.0"}},
        }
    )
    for position, (knobs, backend, rate, repeat) in enumerate(cells):
        cell_id = f"cell-{position:03d}"
        if position == 0:
            failed = store.begin_attempt(cell_id)
            failed.fail(
                Failure(
                    cell_id=cell_id,
                    attempt=failed.number,
                    cause="EngineDead",
                    error="the engine is gone",
                    failed_at="2026-11-01T10:00:00Z",
                )
            )
        attempt = store.begin_attempt(cell_id)
        settings = cell_settings(knobs, backend=backend, rate=rate, seed=repeat, repeat=repeat)
        identity = {**settings, "cell_id": cell_id, "attempt": attempt.number}
        rows, batches = serve(knobs, backend, arrivals(rate, repeat, requests), lengths(repeat, requests))
        rows = [request_row(**identity, **row) for row in rows]
        size = math.ceil(len(rows) / parts)
        for start in range(0, len(rows), size):
            attempt.write_requests(rows[start : start + size])
        attempt.write_batches([batch_row(**identity, **batch) for batch in batches])
        attempt.finish(make_trial(rows, knobs=knobs))
    return store


def arrivals(rate: float, seed: int, count: int) -> list[float]:
    """Planned arrivals whose gaps are spread like exponential ones, from 0."""
    gaps = [-math.log(1 - _spread(k, 0.6180339887, seed)) / rate for k in range(count - 1)]
    times = [0.0]
    for gap in gaps:
        times.append(times[-1] + gap)
    return times


def lengths(seed: int, count: int) -> list[int]:
    """Output lengths with a long tail: 2 to 52 tokens, 14 on average."""
    return [2 + int(50 * _spread(k, 0.4142135623, seed) ** 3) for k in range(count)]


def _spread(k: int, step: float, seed: int) -> float:
    return (0.5 + (k + 1) * step + seed * 0.2360679) % 1.0


def serve(
    knobs: Mapping[str, Any], backend: str, planned: Sequence[float], tokens: Sequence[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Give the rows of requests and of batches, without the cell's settings."""
    step_s = STEP_S[backend]
    if knobs["strategy"] == "continuous":
        return _serve_in_slots(knobs["max_batch_size"], step_s, planned, tokens)
    rows: list[dict[str, Any]] = []
    batches: list[dict[str, Any]] = []
    first, free_s = 0, 0.0
    while first < len(planned):
        last, start_s, trigger = _next_batch(knobs, planned, first, free_s)
        members = range(first, last)
        longest = max(tokens[k] for k in members)
        free_s = start_s + longest * step_s
        lockstep = backend == "huggingface"
        for k in members:
            row = _row(k, planned[k], start_s, tokens[k], step_s)
            if lockstep:
                row |= {"returned_s": free_s, "received_s": free_s + 0.001}
            rows.append(row | {"batch_id": len(batches)})
        produced = sum(tokens[k] for k in members)
        batches.append(
            {
                "kind": "batch",
                "batch_id": len(batches),
                "size": len(members),
                "trigger": trigger,
                "longest_prompt_tokens": 16,
                "prompt_tokens": 16 * len(members),
                "longest_output_tokens": longest,
                "output_tokens": produced,
                "padding_waste": 0.0 if lockstep else None,
                "lockstep_waste": 1 - produced / (len(members) * longest) if lockstep else None,
                "waiting": sum(arrival <= start_s for arrival in planned[last:]),
                "launched_s": start_s,
                "ended_s": free_s,
            }
        )
        first = last
    return rows, batches


def _next_batch(
    knobs: Mapping[str, Any], planned: Sequence[float], first: int, free_s: float
) -> tuple[int, float, str]:
    """Give the end of the next batch, when it starts, and its trigger."""
    cap = knobs["max_batch_size"]
    full_s = planned[first + cap - 1] if first + cap <= len(planned) else math.inf
    if knobs["strategy"] == "naive":
        if full_s < math.inf:
            return first + cap, max(full_s, free_s), "size"
        return len(planned), max(planned[-1], free_s), "flush"
    start_s = max(free_s, min(planned[first] + knobs["max_wait_ms"] / 1000, full_s))
    last = first
    while last < len(planned) and last < first + cap and planned[last] <= start_s:
        last += 1
    return last, start_s, "size" if last == first + cap else "age"


def _serve_in_slots(
    cap: int, step_s: float, planned: Sequence[float], tokens: Sequence[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    slots = [0.0] * cap
    rows = []
    for k, arrival in enumerate(planned):
        start_s = max(arrival, heapq.heappop(slots))
        rows.append(_row(k, arrival, start_s, tokens[k], step_s))
        heapq.heappush(slots, start_s + tokens[k] * step_s)
    steps = []
    for row in rows:
        now_s = row["first_token_s"]
        resident = [other for other in rows if other["scheduled_s"] < now_s <= other["last_token_s"]]
        steps.append(
            {
                "kind": "step",
                "batch_id": len(steps),
                "size": len(resident),
                "output_tokens": len(resident),
                "waiting": sum(other["planned_s"] <= now_s <= other["scheduled_s"] for other in rows),
                "launched_s": now_s - step_s,
                "ended_s": now_s,
            }
        )
    return rows, steps


def _row(index: int, planned_s: float, start_s: float, tokens: int, step_s: float) -> dict[str, Any]:
    token_s = [start_s + (i + 1) * step_s for i in range(tokens)]
    return {
        "index": index,
        "planned_s": planned_s,
        "scheduled_s": start_s,
        "token_s": token_s,
        "first_token_s": token_s[0],
        "last_token_s": token_s[-1],
    }


def cell_settings(
    knobs: Mapping[str, Any] = KNOBS[0],
    *,
    backend: str = "huggingface",
    rate: float = 1.0,
    seed: int = 0,
    repeat: int = 0,
) -> dict[str, Any]:
    """Give a cell's settings as every row repeats them."""
    return {
        "max_wait_ms": None,
        "timer": None,
        **knobs,
        "backend": backend,
        "model": "tiny",
        "device": "cpu",
        "rate": rate,
        "seed": seed,
        "repeat": repeat,
    }


def request_row(**given: Any) -> dict[str, Any]:
    """Complete a request row: settings, identity, and stamps that follow from `token_s`, unless given."""
    row = {**cell_settings(), "cell_id": "cell-000", "attempt": 1, "index": 0, "status": "finished", **given}
    token_s = row.setdefault("token_s", []) or []
    planned_s = row.setdefault("planned_s", 0.0)
    row.setdefault("request_id", f"{row['cell_id']}-{row['index']}")
    row.setdefault("prompt_tokens", 16)
    row.setdefault("target_output_tokens", len(token_s) or 1)
    row.setdefault("output_tokens", len(token_s))
    row.setdefault("sent_s", planned_s + 0.001)
    row.setdefault("arrived_s", planned_s + 0.002)
    row.setdefault("scheduled_s", None)
    row.setdefault("first_token_s", token_s[0] if token_s else None)
    row.setdefault("last_token_s", token_s[-1] if token_s else None)
    row.setdefault("returned_s", row["last_token_s"])
    row.setdefault("received_s", None if row["returned_s"] is None else row["returned_s"] + 0.001)
    return row


def request_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Give request rows as a table of the stored schema."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=REQUESTS)


def batch_row(**given: Any) -> dict[str, Any]:
    """Complete a batch row in the same way."""
    return {
        **cell_settings(),
        "cell_id": "cell-000",
        "attempt": 1,
        "kind": "batch",
        "batch_id": 0,
        "size": 1,
        "cap": CAP,
        "out_of_memory": False,
        **given,
    }


def make_trial(
    rows: Sequence[Mapping[str, Any]], *, knobs: Mapping[str, Any] = KNOBS[0], **given: Any
) -> Trial:
    """Describe the trial that these request rows came from; `given` replaces any field."""
    first = rows[0]
    planned = [row["planned_s"] for row in rows]
    ends = [row["last_token_s"] for row in rows if row["last_token_s"] is not None]
    shared = (
        "cell_id",
        "attempt",
        "strategy",
        "setting",
        "backend",
        "model",
        "device",
        "rate",
        "seed",
        "repeat",
    )
    fields: dict[str, Any] = {
        **{name: first[name] for name in shared},
        "knobs": {name: value for name, value in knobs.items() if name not in ("strategy", "setting")},
        "engine": {},
        "lane": f"lane-{first['backend']}",
        "incarnation": "one",
        "incarnation_end": "one",
        "workload_hash": f"workload-{first['rate']}-{first['seed']}",
        "planned_requests": len(rows),
        "duration_s": max(planned),
        "drain_limit_s": max(60.0, max(planned)),
        "cut_off": False,
        "min_cap": None,
        "clock": Clock(offset_s=0.0, uncertainty_s=0.0002, drift_s=0.0001),
        "step_probe_s": STEP_S.get(first["backend"], 0.01),
        "memory_bytes": 300_000_000,
        "memory_kind": "resident",
        "started_at": "2026-11-01T10:00:00Z",
        "prepare_s": 2.0,
        "measured_s": max([*ends, *planned]) - min(planned),
        "total_s": max([*ends, *planned]) + 2.5,
        "setup": {"dtype": "bfloat16", "threads": 1, "device_name": "a CPU"},
    }
    return Trial(**{**fields, **given})
