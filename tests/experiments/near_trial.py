"""A trial without Ray: the replica is called directly, its engine is the simulated one."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deployments.lane_board import Lane
from deployments.lanes import Call
from deployments.places import Place
from deployments.replica import Replica
from experiments.cells import Cell, cells
from experiments.config import SweepConfig
from experiments.resolved import Resolved
from experiments.traffic import traffic
from experiments.trial import State, Traffic, TrialRun
from results.records import Trial
from results.store import Store

WORD_DEADLINE_S = 30.0  # for a trial that would hang
ENGINE = {"fixed_ms": 1.0, "per_sequence_ms": 0.1, "per_1000_prefill_tokens_ms": 1.0}
STRATEGIES: dict[str, dict[str, Any]] = {
    "naive": {"strategy": "naive", "max_batch_size": 4},
    "dynamic": {"strategy": "dynamic", "max_batch_size": 4, "max_wait_ms": 5},
    "continuous": {"strategy": "continuous", "max_batch_size": 4},
}
MakeCell = Callable[..., Cell]


def cell_maker(made_config: Callable[..., SweepConfig]) -> MakeCell:
    """What makes cells of the test's config."""

    def make(
        strategy: str = "naive",
        engine: Mapping[str, Any] | None = None,
        *,
        rate: float = 80.0,
        duration_s: float = 0.3,
        **changes: Any,
    ) -> Cell:
        """One cell on the simulated engine, of about 24 requests."""
        joined = {"engine": "iteration"} if strategy == "continuous" else {}
        config = made_config(
            **{
                "model": ...,
                "arrival_rate": ...,
                "duration_s": ...,
                "warmup_requests": 2,
                "drain_limit_s": 20.0,
                "workload": {
                    "prompts": {
                        "source": "random",
                        "tokens": {"distribution": "uniform", "low": 2, "high": 9},
                    },
                    "output_tokens": {"distribution": "uniform", "low": 1, "high": 6},
                },
                "strategies": [{**STRATEGIES[strategy], "backends": "simulated"}],
                "backends": {"simulated": {**ENGINE, **joined, **(engine or {})}},
            }
            | changes
        )
        return cells(config, Resolved(rates=(rate,), durations_s=(duration_s,)))[0]

    return make


def direct(replica: Replica) -> Call:
    """How a trial calls a replica that is near."""

    async def call(method: str, *args: Any) -> Any:
        return await getattr(replica, method)(*args)

    return call


async def started(cell: Cell) -> Replica:
    replica = Replica()
    await replica.start(cell.backend, cell.model, cell.engine)
    return replica


async def run_trial(
    cell: Cell,
    folder: Path,
    *,
    call: Call | None = None,
    sent: Traffic | None = None,
    report: Callable[[State], None] = lambda state: None,
) -> tuple[Trial, Store]:
    """Run and finish one attempt; the trial and the store that holds it."""
    if call is None:
        call = direct(await started(cell))
    store = Store(folder)
    attempt = store.begin_attempt(cell.cell_id)
    place = Place(slot=0, gpu=False)
    lane = Lane(
        index=3, place=place, app="app", key=cell.lane_key, setup={"device": "none", "simulated": True}
    )
    run = TrialRun(cell, sent or traffic(cell), lane, call, attempt, setup={"host": "here"}, report=report)
    async with asyncio.timeout(WORD_DEADLINE_S):
        trial = await run.run()
    attempt.finish(trial)
    return trial, store


def rows(store: Store) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = store.requests().to_pylist()
    return table
