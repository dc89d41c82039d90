"""How many requests a second does virtual time get through, on one core, with rows written? (2 minutes)

Each line is a run from columns of requests to Parquet files on disk, invariants on, in a process of its own:
requests per second of wall time (the best of three, and the slowest) and of processor time, the peak memory
of that process, and how often a plain Python loop turns in a request's processor time, which can be compared
between machines, and between a busy one and a quiet one.

`trace` lines need a file with columns TIMESTAMP,ContextTokens,GeneratedTokens (the Azure LLM inference
traces of 2023 have them), named as the argument or in BATCHYARD_TRACE; they are left out without one.
The last line is how much longer a million Poisson requests take than a hundred thousand: 10 is linear.
"""

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from deployments.virtual.driver import simulate
from deployments.virtual.engine import EngineSettings
from deployments.virtual.iteration import Iteration
from deployments.virtual.kv_cache import KVCache
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from deployments.virtual.tables import batch_tables, request_tables
from strategies.registry import create

RUNS = 3
SLOTS, BUDGET, BLOCKS, FEW_BLOCKS = 256, 2_048, 27_500, 4_000
POISSON_RATE, FEW, MANY = 5.0, 100_000, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line."""

    name: str
    strategy: str
    engine: EngineSettings
    size: int
    poisson: int | None = None  # requests; None: the trace
    knobs: Mapping[str, Any] = field(default_factory=dict)


def iteration(blocks: int) -> Iteration:
    """vLLM's shape on one large GPU."""
    return Iteration(
        step=Linear(), max_num_seqs=SLOTS, max_num_batched_tokens=BUDGET, kv=KVCache(blocks=blocks)
    )


LOCKSTEP = Lockstep(step=Linear())
TRACE = [
    Case(name="trace, continuous", strategy="continuous", engine=iteration(BLOCKS), size=SLOTS),
    Case(name="trace, KV pressure", strategy="continuous", engine=iteration(FEW_BLOCKS), size=SLOTS),
    Case(name="trace, naive", strategy="naive", engine=LOCKSTEP, size=16),
    Case(name="trace, dynamic", strategy="dynamic", engine=LOCKSTEP, size=16, knobs={"max_wait_ms": 200}),
]
POISSON = [
    Case(
        name=f"Poisson, {count:,}", strategy="continuous", engine=iteration(BLOCKS), size=SLOTS, poisson=count
    )
    for count in (FEW, MANY)
]


def trace_columns(path: str) -> RequestColumns:
    """Times from the first row on; every output within the longest."""
    rows = np.genfromtxt(path, delimiter=",", dtype=None, encoding="utf-8", names=True)
    at = rows["TIMESTAMP"].astype("datetime64[ns]")
    outputs = rows["GeneratedTokens"].astype(np.int64)
    return RequestColumns(
        planned_s=(at - at[0]).astype(np.int64) / 1e9,
        prompt_tokens=rows["ContextTokens"].astype(np.int64),
        output_tokens=outputs,
        max_new_tokens=np.full(len(outputs), outputs.max()),
    )


def poisson_columns(count: int) -> RequestColumns:
    """A chat's lengths, lognormal, at a rate that the engine keeps up with."""
    rng = np.random.default_rng(0)
    outputs = np.clip(rng.lognormal(5.0, 0.8, count), 1, 1_000).astype(np.int64)
    return RequestColumns(
        planned_s=np.cumsum(rng.exponential(1 / POISSON_RATE, count)),
        prompt_tokens=np.clip(rng.lognormal(6.0, 1.0, count), 1, 4_000).astype(np.int64),
        output_tokens=outputs,
        max_new_tokens=np.full(count, 1_000),
    )


def write(run: Run, case: Case, folder: Path) -> None:
    """All rows, as the store writes them."""
    settings = {
        "cell_id": "0123456789abcdef",
        "attempt": 1,
        "strategy": case.strategy,
        "setting": f"{case.strategy} · {case.size}",
        "max_batch_size": case.size,
        "backend": "simulated",
        "model": "none",
        "device": "none",
        "rate": POISSON_RATE,
        "seed": 0,
        "repeat": 0,
    }
    for kind, tables in (("requests", request_tables), ("batches", batch_tables)):
        for number, table in enumerate(tables(run, settings)):
            path = folder / f"{kind}-{number:05d}.parquet"
            pq.write_table(table, path, compression="zstd", use_dictionary=False, write_page_checksum=True)


def measure(case: Case, trace: str | None) -> tuple[int, list[float], float, float, float]:
    """Requests; seconds of each run; the least processor time, s; peak memory, GB; turns in a request's time."""
    requests = poisson_columns(case.poisson) if case.poisson else trace_columns(trace or "")
    took_s, processor_s, turns = [], [], []
    for _ in range(RUNS if len(requests) < MANY else 1):
        with tempfile.TemporaryDirectory(prefix="batchyard-bench-") as folder:
            begun_s, begun_processor_s = time.perf_counter(), time.process_time()
            strategy = create(case.strategy, {"max_batch_size": case.size, **case.knobs})
            write(simulate(requests, strategy, case.engine, max_batch_size=case.size), case, Path(folder))
            took_s.append(time.perf_counter() - begun_s)
            processor_s.append(time.process_time() - begun_processor_s)
        turns.append(processor_s[-1] / len(requests) / _turn_s())
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return len(requests), took_s, min(processor_s), peak_gb, min(turns)


def _turn_s(turns: int = 2_000_000) -> float:
    begun_s, total = time.process_time(), 0
    for turn in range(turns):
        total += turn
    return (time.process_time() - begun_s) / turns


def main() -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trace", nargs="?", default=os.environ.get("BATCHYARD_TRACE"))
    trace = parser.parse_args().trace
    if trace is None:
        print("no trace was named (BATCHYARD_TRACE): Poisson requests alone")
    best_s: dict[int, float] = {}
    for case in [*(TRACE if trace else []), *POISSON]:
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # a process a case: its memory is its own
            count, took_s, processor_s, peak_gb, turns = pool.apply(measure, (case, trace))
        best_s[case.poisson or 0] = processor_s
        print(
            f"{case.name:20} {count:9,} requests  {count / min(took_s):9,.0f} requests/s"
            f" (slowest {count / max(took_s):,.0f}; of processor time {count / processor_s:,.0f})"
            f"  {turns:4.0f} turns each  peak {peak_gb:.2f} GB",
            flush=True,
        )
    print(f"a million requests take {best_s[MANY] / best_s[FEW]:.1f}× the processor time of 100,000")


if __name__ == "__main__":
    main()
