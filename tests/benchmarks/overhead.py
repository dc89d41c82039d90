"""What does batchyard itself cost? Ratios of one run, on a real model behind Ray Serve.

Bare against through: the same full batch is run by the engine inside the replica, and sent request by
request through client, Serve, dispatcher and strategy to the same engine, in turn, so that a machine that
slows down slows both. Output: the geometric mean of bare ÷ through over the pairs with its 95 % t-interval
of the logs; 1 would be free.

Lags: an open-loop client sends to a replica whose engine takes no time. Dispatch lag is sent − planned;
arrival lag is arrived at the replica − planned, less its own 1st percentile (the floor of transport and
clock offset).
"""

import asyncio
import time
import uuid
from typing import Any

import numpy as np
from scipy import stats

from deployments.backends.backend import Work
from deployments.client import Client, Exchange
from deployments.clock import handshake
from deployments.lanes import Call, Load, board, occupy, start_board
from deployments.local_ray import local_ray
from deployments.models import ModelSpec
from workloads.request import Request

PAIRS, BATCH, PROMPT_TOKENS, OUTPUT_TOKENS = 12, 8, 32, 24
RATES, LAG_S = (20, 100, 200), 5.0
MODEL = ModelSpec(name="smollm2-135m")
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "huggingface": ("naive", {}),
    "vllm": ("continuous", {"max_num_seqs": BATCH, "cpu_kv_cache_gib": 1}),
}


def works() -> list[Work]:
    """A full batch of equal rows."""
    ids = np.random.default_rng(0).integers(0, 40_000, (BATCH, PROMPT_TOKENS)).tolist()
    return [Work(request_id=uuid.uuid4().hex, prompt_ids=row, output_tokens=OUTPUT_TOKENS) for row in ids]


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
    load = Load(key=backend, backend=backend, model=MODEL, engine={"start_deadline_s": 900.0, **engine})
    lane = await board().acquire.remote("bench", backend)
    _, call = await occupy(lane, load)
    await call("run_bare", works())
    await through(call, strategy)
    logs = []
    for pair in range(PAIRS):
        if pair % 2:
            bare_s, through_s = await call("run_bare", works()), await through(call, strategy)
        else:
            through_s, bare_s = await through(call, strategy), await call("run_bare", works())
        logs.append(np.log(bare_s / through_s))
    low, high = stats.t.interval(0.95, PAIRS - 1, loc=np.mean(logs), scale=stats.sem(logs))
    await board().release.remote("bench")
    return f"{backend:12}  bare ÷ through {np.exp(np.mean(logs)):.3f} [{np.exp(low):.3f}, {np.exp(high):.3f}]"


async def lags() -> list[str]:
    """One line a rate, in milliseconds."""
    free = {"fixed_ms": 0.0, "per_sequence_ms": 0.0, "per_1000_prefill_tokens_ms": 0.0}
    engine = {"engine": "iteration", "start_deadline_s": 60.0, **free}
    lane = await board().acquire.remote("bench", "null")
    _, call = await occupy(lane, Load(key="null", backend="simulated", model=None, engine=engine))
    lines = []
    for rate in RATES:
        requests = [
            Request(index=i, planned_s=i / rate, prompt_ids=(1,) * 8, output_tokens=1, max_new_tokens=1)
            for i in range(int(rate * LAG_S))
        ]
        dispatch_ms, arrival_ms = await _lag(call, requests)
        p50, p99 = np.percentile(dispatch_ms, (50, 99))
        a50, a99 = np.percentile(arrival_ms - np.percentile(arrival_ms, 1), (50, 99))
        lines.append(
            f"{rate:4} requests/s  dispatch lag p50 {p50:.2f} p99 {p99:.2f} ms"
            f"  arrival lag p50 {a50:.2f} p99 {a99:.2f} ms"
        )
    return lines


async def _lag(call: Call, requests: list[Request]) -> tuple[np.ndarray, np.ndarray]:
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
    dispatch = [1e3 * (e.sent_s - e.request.planned_s) for e in exchanges]
    arrival = [1e3 * (e.reply.arrived_s - shift_s - e.request.planned_s) for e in exchanges if e.reply]
    return np.array(dispatch), np.array(arrival)


def main() -> None:
    """Print the table."""
    with local_ray():
        keep = start_board(1)
        for line in asyncio.run(lags()):
            print(line, flush=True)
        for backend in ENGINES:
            print(asyncio.run(ratio(backend)), flush=True)
        del keep


if __name__ == "__main__":
    main()
