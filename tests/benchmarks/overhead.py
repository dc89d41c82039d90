"""What does batchyard itself cost? Ratios of one run, on a real model behind Ray Serve.

Bare against through: the same full batch is run by the engine inside the replica, then sent request by
request through client, Serve, dispatcher and strategy to the same engine, then run bare again, so that a
machine that slows down slows both. Output: the geometric mean of bare ÷ through over these rounds with its
95 % t-interval of the logs; 1 would be free. The control, bare before ÷ bare after, says what the machine adds.

Lags: an open-loop client sends to a replica whose engine takes no time. Dispatch lag is sent − planned;
arrival lag is arrived at the replica − planned, less its own 1st percentile (the floor of transport and
clock offset). Each figure is the median of the runs, with the least and the greatest. At even gaps they are
the cost of one call; under Poisson arrivals a request also waits for those that came just before it.

Lane time: a sweep of 20-s trials on one loaded engine. From one trial's end to the next one's end is a lane's
cycle; the share of it between first planned arrival and last reply is spent measuring.
"""

import asyncio
import itertools
import tempfile
import time
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from deployments import serve_loop
from deployments.backends.backend import Work
from deployments.client import Client, Exchange
from deployments.clock import handshake
from deployments.lane_board import board, start_board
from deployments.lanes import Call, Load, occupy
from deployments.local_ray import local_ray
from deployments.models import ModelSpec
from deployments.places import Here
from experiments.config import parse
from experiments.sweep import run_sweep
from results.store import Store
from tests.benchmarks.ratios import mean_and_interval
from workloads.request import Request

ROUNDS, BATCH, PROMPT_TOKENS, OUTPUT_TOKENS = 30, 8, 32, 64
RATES, LAG_RUNS, LAG_S, LAG_REQUESTS = (20, 100, 200), 5, 5.0, 400  # the longer of the two
MODEL = ModelSpec(name="smollm2-135m")
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "huggingface": ("naive", {}),
    "huggingface-continuous": ("continuous", {"max_num_seqs": BATCH}),
    "vllm": ("continuous", {"max_num_seqs": BATCH, "cpu_kv_cache_gib": 1}),
}
LANE_SWEEP: dict[str, Any] = {
    "name": "lane-time",
    "model": MODEL.name,
    "workload": {
        "arrivals": {"process": "poisson"},
        "prompts": {"source": "english", "tokens": {"distribution": "uniform", "low": 16, "high": 48}},
        "output_tokens": {"distribution": "uniform", "low": 1, "high": 12},
    },
    "arrival_rate": [1.0, 1.2, 1.4, 1.6, 1.8],
    "duration_s": 20,
    "strategies": [{"strategy": "continuous", "backends": "vllm", "max_batch_size": BATCH}],
    "repeats": 1,
}


def works() -> list[Work]:
    """A full batch of equal rows."""
    ids = np.random.default_rng(0).integers(0, 40_000, (BATCH, PROMPT_TOKENS)).tolist()
    return [Work(request_id=uuid.uuid4().hex, prompt_ids=row, output_tokens=OUTPUT_TOKENS) for row in ids]


async def load(backend: str, model: ModelSpec | None, engine: dict[str, Any]) -> Call:
    """The one lane with this engine in it."""
    lane = await board().acquire.remote("bench", backend)
    wanted = Load(key=backend, backend=backend, model=model, engine={"start_deadline_s": 900.0, **engine})
    return (await occupy(lane, wanted))[1]


async def through(call: Call, strategy: str) -> float:
    """Seconds from the first request sent to the last reply received."""
    trial, batch = uuid.uuid4().hex, works()
    await call("begin", trial, strategy, {"max_batch_size": BATCH}, BATCH, BATCH)
    begun_s = time.monotonic()
    replies = await asyncio.gather(*(call("generate", trial, work, OUTPUT_TOKENS) for work in batch))
    took_s = time.monotonic() - begun_s
    assert all(reply.output.status == "finished" for reply in replies)
    await call("end")
    return took_s


async def ratio(backend: str) -> str:
    """One line about one engine."""
    strategy, engine = ENGINES[backend]
    call = await load(backend, MODEL, engine)
    await call("run_bare", works())
    await through(call, strategy)
    took_s = np.empty((ROUNDS, 3))
    for row in took_s:
        row[:] = [
            await call("run_bare", works()),
            await through(call, strategy),
            await call("run_bare", works()),
        ]
    before, between, after = np.log(took_s).T
    return (
        f"{backend:23} bare ÷ through {mean_and_interval((before + after) / 2 - between)}"
        f"  control {mean_and_interval(before - after)}"
    )


async def lags() -> list[str]:
    """One line a rate, in milliseconds."""
    free = {"fixed_ms": 0.0, "per_sequence_ms": 0.0, "per_1000_prefill_tokens_ms": 0.0}
    call = await load("simulated", None, {"engine": "iteration", **free})
    await _lag(call, even(RATES[-1]))  # warms up
    lines = []
    for arrivals, rate in itertools.product((even, poisson), RATES):
        runs = np.array([await _lag(call, arrivals(rate)) for _ in range(LAG_RUNS)])
        figures = [f"{np.median(run):.2f} ({run.min():.2f}–{run.max():.2f})" for run in runs.T]
        lines.append(
            f"{arrivals.__name__:7} {rate:3} requests/s  dispatch lag p50 {figures[0]} p99 {figures[1]} ms"
            f"  arrival lag p50 {figures[2]} p99 {figures[3]} ms"
        )
    return lines


def even(rate: int) -> np.ndarray:
    """Planned arrivals at even gaps, seconds."""
    return np.arange(max(int(rate * LAG_S), LAG_REQUESTS)) / rate


def poisson(rate: int) -> np.ndarray:
    """Planned arrivals at exponential gaps, seconds."""
    return np.cumsum(np.random.default_rng(rate).exponential(1 / rate, even(rate).size))


async def _lag(call: Call, planned_s: np.ndarray) -> tuple[float, float, float, float]:
    """Dispatch lag p50 and p99, arrival lag p50 and p99 of one run, milliseconds."""
    requests = [
        Request(index=i, planned_s=at_s, prompt_ids=(1,) * 8, output_tokens=1, max_new_tokens=1)
        for i, at_s in enumerate(planned_s.tolist())
    ]
    trial = uuid.uuid4().hex
    await call("begin", trial, "continuous", {"max_batch_size": 256}, 256, len(requests))
    offset = await handshake(lambda: call("ping"))
    exchanges: list[Exchange] = []
    client = Client(
        lambda work, limit: call("generate", trial, work, limit),
        lambda request: f"{trial}-{request.index}",
        exchanges.append,
    )
    await client.send(requests)
    assert await client.drain(requests[-1].planned_s + 30)
    await call("end")
    shift_s = offset.offset_s + client.start_s
    dispatch = np.array([1e3 * (e.sent_s - e.request.planned_s) for e in exchanges])
    arrival = np.array(
        [1e3 * (e.reply.arrived_s - shift_s - e.request.planned_s) for e in exchanges if e.reply]
    )
    arrival -= np.percentile(arrival, 1)
    return (*np.percentile(dispatch, (50, 99)), *np.percentile(arrival, (50, 99)))


async def behind_serve() -> None:
    """All that is measured on a replica, in one event loop: handles are bound to theirs."""
    print(*await lags(), sep="\n", flush=True)
    for backend in ENGINES:
        print(await ratio(backend), flush=True)


def lane_time() -> str:
    """One line about the share of a lane's time that is spent measuring."""
    with tempfile.TemporaryDirectory(prefix="batchyard-bench-") as folder:
        outcome = run_sweep(parse(LANE_SWEEP), f"{folder}/lane-time", lambda text: None)
        assert outcome.complete
        store = Store(outcome.root)
        ended_s = {path.parent.parent.name: path.stat().st_mtime for path in Path(folder).rglob("done.json")}
        trials = sorted(store.trials(), key=lambda trial: ended_s[trial.cell_id])
    shares = [
        trial.measured_s / (ended_s[trial.cell_id] - ended_s[before.cell_id])
        for before, trial in pairwise(trials)
    ]
    around = [trial.total_s - trial.measured_s for trial in trials]
    return (
        f"lane time spent measuring, 20-s trials: {np.mean(shares):.1%} "
        f"({min(shares):.1%}–{max(shares):.1%}); a trial takes {np.median(around):.1f} s beside"
    )


def main() -> None:
    """Print the table."""
    with local_ray() as session:
        keep = start_board(Here(lanes=1, gpu=session.gpus > 0), session.beside)
        serve_loop.run(behind_serve())
        del keep
    print(lane_time(), flush=True)


if __name__ == "__main__":
    main()
