"""One cell in virtual time: its requests through its strategy and engine, and the rows that they leave."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deployments.virtual.driver import simulate
from deployments.virtual.engine import EngineSettings
from deployments.virtual.kv_cache import KVCache
from deployments.virtual.outcomes import FAILED
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Roofline
from deployments.virtual.tables import ROWS, batch_tables, request_tables
from experiments.cells import Cell
from experiments.errors import TrialError
from experiments.failures import failure_of
from experiments.rows import settings
from experiments.simulation.engines import engine_of
from experiments.simulation.premise import Premise
from experiments.simulation.simulation import shape_hash
from experiments.simulation_entry import SimulationEntry
from results.attempt import Attempt
from results.errors import StoreError
from results.records import VIRTUAL, Clock, Trial
from results.store import Store
from strategies.registry import create
from workloads.shape import Shape


def run_cell(
    cell: Cell, made: Shape, premise: Premise, entry: SimulationEntry, store: Store, setup: Mapping[str, Any]
) -> bool:
    """Run it and write its attempt; False if that failed, which another try would too. StoreError as the store."""
    attempt = store.begin_attempt(cell.cell_id)
    try:
        _run(cell, made, premise, entry, attempt, setup)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - a strategy is anybody's code, and other cells go on
        attempt.fail(failure_of(attempt, error, permanent=True))
        return False
    return True


def columns_of(made: Shape, lag_s: float = 0.0) -> RequestColumns:
    """What virtual time needs of the requests, each of which arrives `lag_s` after it was planned."""
    return RequestColumns(
        planned_s=made.arrival_s + lag_s,
        prompt_tokens=made.prompt_tokens,
        output_tokens=made.output_tokens,
        max_new_tokens=np.full(len(made), made.max_new_tokens, dtype=np.int64),
        priority=made.priority,
        ttft_target_s=made.ttft_target_s,
    )


def simulated(
    cell: Cell, requests: RequestColumns, engine: EngineSettings, *, occupancy: bool = False
) -> Run:
    """The requests through a fresh strategy of the cell."""
    return simulate(
        requests,
        create(cell.strategy, cell.knobs),
        engine,
        max_batch_size=cell.knobs["max_batch_size"],
        drain_limit_s=cell.drain_limit_s,
        occupancy=occupancy,
    )


def _run(
    cell: Cell,
    made: Shape,
    premise: Premise,
    entry: SimulationEntry,
    attempt: Attempt,
    provenance: Mapping[str, Any],
) -> None:
    if not len(made):
        raise TrialError("no-requests", f"no request arrives within {cell.duration_s:g} s at {cell.rate:g}/s")
    began_s, began_at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    engine = engine_of(cell, premise, entry)
    lag_s = premise.arrival_lag_s
    run = simulated(cell, columns_of(made, lag_s), engine)
    if (run.status == FAILED).all():
        raise TrialError("all-failed", f"all {len(made)} requests failed: {run.errors[0][1]}")
    setup = {**provenance, "engine": _described(premise, engine)}
    attempt.record(setup)
    shared = {**settings(cell, VIRTUAL), "attempt": attempt.number}
    attempt.write_request_tables(_as_planned(request_tables(run, shared), lag_s))
    attempt.write_batch_tables(_few(batch_tables(run, shared)))
    kv = getattr(engine, "kv", None)
    used_bytes = run.counters.peak_blocks * kv.block_tokens * kv.bytes_per_token if kv else None
    attempt.finish(
        Trial(
            cell_id=cell.cell_id,
            attempt=attempt.number,
            strategy=cell.strategy,
            setting=cell.setting,
            knobs=dict(cell.knobs),
            backend=cell.backend,
            engine=dict(cell.engine),
            model=shared["model"],
            device=VIRTUAL,
            rate=cell.rate,
            seed=cell.seed,
            repeat=cell.repeat,
            lane=VIRTUAL,
            incarnation=VIRTUAL,
            incarnation_end=VIRTUAL,
            workload_hash=shape_hash(made),
            planned_requests=len(made),
            duration_s=cell.duration_s,
            drain_limit_s=cell.drain_limit_s,
            cut_off=run.cut_off,
            min_cap=None,
            clock=Clock(offset_s=0.0, uncertainty_s=0.0, drift_s=0.0),
            step_probe_s=premise.step_model.step_s(1),
            memory_bytes=used_bytes,
            memory_kind="kv-cache" if kv else "none",
            started_at=began_at,
            prepare_s=0.0,
            measured_s=float(np.nanmax(run.returned_s) - made.arrival_s[0]),
            total_s=time.monotonic() - began_s,
            setup=setup,
            counters=asdict(run.counters),
        )
    )


def _as_planned(tables: Iterable[pa.Table], lag_s: float) -> Iterator[pa.Table]:
    """Latencies count from the planned arrival, and the way to the replica is a part of them."""
    for table in tables:
        for name in ("planned_s", "sent_s") if lag_s else ():
            place = table.schema.get_field_index(name)
            early = pc.subtract(table.column(name), lag_s)
            table = table.set_column(place, table.schema.field(name), early)
        yield table


def _few(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Small tables in one, because a part file costs more than its rows; large ones as they are."""
    together: list[pa.Table] = []
    for table in tables:
        together.append(table)
        if sum(one.num_rows for one in together) > ROWS:
            yield from together
            together = []
    if together:
        yield pa.concat_tables(together)


def _described(premise: Premise, engine: EngineSettings) -> dict[str, Any]:
    """The engine for the page: its kind, its limits, and what its steps take."""
    limits = {key: value for key, value in asdict(engine).items() if key != "step"}  # type: ignore[call-overload]
    return {
        "simulated": True,
        "device": VIRTUAL,
        "engine": "iteration" if engine.joinable else "lockstep",
        "step_times": premise.text,
        **limits,
        **_moved(premise, getattr(engine, "kv", None)),
    }


def _moved(premise: Premise, kv: KVCache | None) -> dict[str, float]:
    """What a step reads, and how fast (results/bandwidth.py): of hardware by its data sheet."""
    step = premise.step_model
    if not isinstance(step, Roofline):
        return {}
    found = {
        "weight_bytes": step.weight_bytes,
        "kv_bytes_per_token": step.kv_bytes_per_token,
        "bandwidth_bytes_per_s": step.bandwidth_bytes_per_s,
    }
    if kv is not None:
        found["kv_cache_bytes"] = kv.blocks * kv.block_tokens * kv.bytes_per_token
    return found
