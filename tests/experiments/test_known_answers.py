"""Answers that are known before anything runs, through all that stands between an engine and a metric."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deployments.replica
from deployments.backends.backend import Output, Work
from deployments.backends.engine_args import SimulatedArgs
from deployments.backends.simulated import Simulated
from deployments.virtual.driver import simulate
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.step_model import Linear
from deployments.virtual.tables import request_tables
from experiments.config import SweepConfig
from results.metrics import column, request_statistics, with_metrics
from results.records import Trial
from results.store import Store
from results.verdicts import verdicts
from strategies.registry import create
from tests.experiments.near_trial import MakeCell, cell_maker, direct, rows, run_trial, started

FIRST_TOKEN_S, GAPS_S = 0.25, (0.4, 0.1, 0.4, 0.1)
STALL_S = 2.0


@pytest.fixture
def make_cell(made_config: Callable[..., SweepConfig]) -> MakeCell:
    return cell_maker(made_config)


class Scripted(Simulated):
    """From the trial's begin on, each request has its tokens at these times after it was scheduled."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        super().__init__(None, SimulatedArgs(**args))
        self.begun = False

    async def run(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        if not self.begun:
            await super().run(batch, done)
            return
        scheduled_s = time.monotonic()
        token_s = tuple(accumulate(GAPS_S, initial=scheduled_s + FIRST_TOKEN_S))
        await asyncio.sleep(token_s[-1] - scheduled_s)
        for work in batch:
            ids = tuple(range(len(token_s)))
            done(
                Output(
                    request_id=work.request_id,
                    status="finished",
                    scheduled_s=scheduled_s,
                    token_s=token_s,
                    output_ids=ids,
                    returned_s=token_s[-1],
                )
            )


async def test_a_first_token_at_250_ms_and_gaps_of_400_and_100_ms_are_what_the_metrics_say(
    make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tokens = {"distribution": "fixed", "tokens": 5}
    workload = {"prompts": {"source": "random", "tokens": tokens}, "output_tokens": tokens}
    cell = make_cell("continuous", rate=40.0, duration_s=0.2, workload=workload)
    engine = Scripted(cell.engine)
    monkeypatch.setattr(deployments.replica, "create", lambda *_: engine)
    near = direct(await started(cell))

    async def call(method: str, *args: Any) -> Any:
        engine.begun = engine.begun or method == "begin"
        return await near(method, *args)

    trial, store = await run_trial(cell, tmp_path, call=call)
    table = with_metrics(store.requests())
    assert table.num_rows == trial.planned_requests > 0
    wait_s = column(table, "queue_wait_s")
    assert column(table, "ttft_s") - wait_s == pytest.approx(0.25)
    assert column(table, "tpot_s") == pytest.approx(0.25)
    assert column(table, "e2e_s") - wait_s == pytest.approx(1.25)
    assert column(table, "itl_max_s") == pytest.approx(0.4)
    assert column(table, "held_s") == pytest.approx(0.0)
    found = request_statistics(table)
    assert (found["itl_s_p50"], found["itl_s_count"]) == (pytest.approx(0.25), 4 * table.num_rows)


def test_eight_requests_at_ten_a_second_one_at_a_time_for_half_a_second_wait_for_those_before():
    """Not 0.5 s each: request k, planned at k/10, begins at k/2."""
    ones = np.ones(8, dtype=np.int64)
    columns = RequestColumns(
        planned_s=np.arange(8) / 10, prompt_tokens=ones, output_tokens=ones, max_new_tokens=ones
    )
    step = Linear(fixed_s=0.5, per_sequence_s=0.0, per_prefill_token_s=0.0)
    run = simulate(columns, create("naive", {"max_batch_size": 1}), Lockstep(step=step), max_batch_size=1)
    table = pa.concat_tables(request_tables(run, {"cell_id": "one", "attempt": 1}))
    found = request_statistics(with_metrics(table))
    assert found["queue_wait_s_mean"] == pytest.approx(1.4, abs=1e-12)
    assert found["e2e_s_mean"] == pytest.approx(1.9, abs=1e-12)
    assert (found["queue_wait_s_count"], found["e2e_s_count"]) == (8, 8)


async def test_a_client_that_stalls_two_seconds_makes_latencies_longer_by_it_is_named_and_loses_nothing(
    make_cell: MakeCell, tmp_path: Path
):
    cell = make_cell("continuous")
    near = direct(await started(cell))
    stalled = False

    def stall() -> None:
        time.sleep(STALL_S)  # blocks the client's loop, and its replica's with it

    async def call(method: str, *args: Any) -> Any:
        nonlocal stalled
        if method == "generate" and not stalled:
            stalled = True
            stall()
        return await near(method, *args)

    trial, store = await run_trial(cell, tmp_path, call=call)
    calm, calm_store = await run_trial(cell, tmp_path / "calm")
    assert {row["status"] for row in rows(store)} == {"finished"}
    assert len(rows(store)) == trial.planned_requests == calm.planned_requests
    table, usual = (with_metrics(one.requests().sort_by("index")) for one in (store, calm_store))
    planned_s, late_by_s = column(table, "planned_s"), STALL_S + column(table, "sent_s")[0]
    for metric in ("ttft_s", "e2e_s"):
        assert (column(table, metric) >= late_by_s - planned_s - clocks_s(trial)).all(), (
            "all were planned in the stall"
        )
        assert column(table, metric).mean() - column(usual, metric).mean() > STALL_S - planned_s[-1]
    assert "client-bound" in names(trial, store)


def clocks_s(trial: Trial) -> float:
    return trial.clock.uncertainty_s + abs(trial.clock.drift_s or 0.0)


def names(trial: Trial, store: Store) -> set[str]:
    found = verdicts(trial, with_metrics(store.requests()), store.batches().num_rows)
    return {one.name for one in found}
