"""A whole trial without Ray: the replica is called directly, its engine is the simulated one."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import deployments.replica
import experiments.trial
import experiments.trial_rows
from deployments.backends.backend import Output, Work
from deployments.backends.engine_args import SimulatedArgs
from deployments.backends.simulated import Simulated
from deployments.errors import EngineDead, OutOfMemory
from deployments.idle_engine import Sample
from deployments.lanes import Call
from deployments.replica import Account, Progress
from deployments.service import Reply
from experiments.cells import Cell
from experiments.config import SweepConfig
from experiments.errors import TrialError
from experiments.traffic import traffic
from experiments.trial import State, Traffic
from tests.experiments.near_trial import STRATEGIES, MakeCell, cell_maker, direct, rows, run_trial, started
from workloads.workload import workload_hash


@pytest.fixture
def make_cell(made_config: Callable[..., SweepConfig]) -> MakeCell:
    return cell_maker(made_config)


@pytest.mark.parametrize("strategy", list(STRATEGIES))
async def test_every_planned_request_has_one_row_with_consistent_stamps(
    make_cell: MakeCell, tmp_path: Path, strategy: str
):
    cell = make_cell(strategy)
    planned = traffic(cell).requests
    trial, store = await run_trial(cell, tmp_path)
    written = rows(store)
    assert [row["index"] for row in written] == list(range(len(planned)))
    near_s = trial.clock.uncertainty_s + abs(trial.clock.drift_s or 0.0)
    for row, request in zip(written, planned, strict=True):
        assert (row["status"], row["error"]) == ("finished", None)
        assert row["planned_s"] == request.planned_s
        assert row["output_tokens"] == request.output_tokens == len(row["token_s"])
        assert row["planned_s"] <= row["sent_s"] <= row["arrived_s"] + near_s
        engine = [row[name] for name in ("arrived_s", "scheduled_s", "first_token_s", "last_token_s")]
        assert engine == sorted(engine)
        assert row["last_token_s"] <= row["returned_s"] <= row["received_s"] + near_s
        assert (row["first_token_s"], row["last_token_s"]) == (row["token_s"][0], row["token_s"][-1])
        gaps = sum(after - before for before, after in pairwise(row["token_s"]))
        ttft_s = row["first_token_s"] - row["planned_s"]
        assert row["last_token_s"] - row["planned_s"] == pytest.approx(ttft_s + gaps)
    assert trial.workload_hash == workload_hash(planned)
    assert (trial.planned_requests, trial.cut_off, trial.min_cap) == (len(planned), False, None)
    assert trial.measured_s >= written[-1]["last_token_s"] - written[0]["planned_s"] - near_s
    assert trial.total_s >= trial.prepare_s + trial.measured_s
    assert (trial.lane, trial.device, trial.incarnation) == ("lane-3", "none", trial.incarnation_end)
    assert trial.setup == {"host": "here", "engine": {"device": "none", "simulated": True}}
    assert store.trials() == [trial]


async def test_naive_batches_are_full_but_the_last_and_one_at_a_time(make_cell: MakeCell, tmp_path: Path):
    cell = make_cell("naive", rate=90.0)
    _, store = await run_trial(cell, tmp_path)
    batches = store.batches().to_pylist()
    *full, last = batches
    assert {(batch["size"], batch["trigger"]) for batch in full} == {(4, "size")}
    assert last["trigger"] == ("flush" if last["size"] < 4 else "size")
    assert sum(batch["size"] for batch in batches) == len(rows(store))
    for before, after in pairwise(batches):
        assert before["ended_s"] <= after["launched_s"]
    assert all(batch["lockstep_waste"] is not None for batch in batches)
    members = [row for row in rows(store) if row["batch_id"] == 0]
    assert batches[0]["launched_s"] >= max(row["arrived_s"] for row in members)


async def test_continuous_leaves_a_row_for_each_engine_step(make_cell: MakeCell, tmp_path: Path):
    trial, store = await run_trial(make_cell("continuous"), tmp_path)
    table = store.batches().to_pylist()
    steps = [row for row in table if row["kind"] == "step"]
    assert sum(step["output_tokens"] for step in steps) == sum(row["output_tokens"] for row in rows(store))
    assert max(step["size"] for step in steps) <= 4
    assert {row["trigger"] for row in table if row["kind"] == "batch"} == {"join"}
    assert all(row["lockstep_waste"] is None for row in table)
    assert trial.engine["max_num_seqs"] == 4


def shifted(call: Call, shift_s: float) -> Call:
    """A replica whose clock is `shift_s` ahead: every stamp that it gives is."""

    def later(stamp_s: float | None) -> float | None:
        return None if stamp_s is None else stamp_s + shift_s

    async def shifted_call(method: str, *args: Any) -> Any:
        answer = await call(method, *args)
        if method == "ping":
            return answer + shift_s
        if isinstance(answer, Progress):
            return replace(answer, at_s=answer.at_s + shift_s)
        if isinstance(answer, Reply):
            ended = answer.output
            ended = replace(
                ended,
                scheduled_s=later(ended.scheduled_s),
                returned_s=later(ended.returned_s),
                token_s=tuple(stamp + shift_s for stamp in ended.token_s),
            )
            return replace(answer, output=ended, arrived_s=answer.arrived_s + shift_s)
        if isinstance(answer, Account):
            runs = [
                replace(
                    run,
                    ended_s=run.ended_s + shift_s,
                    batch=run.batch._replace(launched_s=run.batch.launched_s + shift_s),
                )
                for run in answer.runs
            ]
            steps = [replace(step, end_s=step.end_s + shift_s) for step in answer.steps]
            return replace(answer, runs=tuple(runs), steps=tuple(steps))
        return answer

    return shifted_call


@pytest.mark.parametrize("shift_s", [-3 * 3_600.0, 50 * 3_600.0])
@pytest.mark.parametrize("strategy", ["naive", "continuous"])
async def test_a_clock_that_is_hours_off_is_seen_and_put_right(
    make_cell: MakeCell, tmp_path: Path, strategy: str, shift_s: float
):
    cell = make_cell(strategy)
    trial, store = await run_trial(cell, tmp_path, call=shifted(direct(await started(cell)), shift_s))
    near_s = trial.clock.uncertainty_s + 1e-6  # and what floats lose on large numbers
    assert abs(trial.clock.offset_s - shift_s) <= near_s
    assert trial.clock.drift_s is not None
    assert abs(trial.clock.drift_s) < 1.0
    for row in rows(store):
        assert row["sent_s"] - near_s <= row["arrived_s"] <= row["scheduled_s"]
        assert row["last_token_s"] <= row["returned_s"] <= row["received_s"] + near_s
    for row in store.batches().to_pylist():
        assert 0 <= row["ended_s"] <= trial.total_s
        assert row["launched_s"] is None or -near_s <= row["launched_s"] <= row["ended_s"]
    first, *_ = store.samples().to_pylist()
    assert -near_s <= first["at_s"] <= trial.total_s


async def test_warm_up_and_probe_leave_no_row(make_cell: MakeCell, tmp_path: Path):
    seen: list[str] = []
    replica_call = direct(await started(make_cell()))

    async def call(method: str, *args: Any) -> Any:
        seen.append(method)
        return await replica_call(method, *args)

    trial, store = await run_trial(make_cell(warmup_requests=3), tmp_path, call=call)
    order = list(dict.fromkeys(seen))
    order.remove("progress")  # once a second, and at the start
    assert order == ["ping", "warm", "measure", "devices", "begin", "generate", "end"]
    assert seen.count("generate") == trial.planned_requests == len(rows(store))
    assert seen.index("begin") < seen.index("generate")
    assert 3 <= seen.count("measure") <= 8
    assert trial.step_probe_s == pytest.approx(0.0011)


async def test_the_drain_limit_cuts_off_and_what_is_left_is_unfinished(make_cell: MakeCell, tmp_path: Path):
    cell = make_cell(engine={"fixed_ms": 60_000.0}, drain_limit_s=0.05, warmup_requests=0)
    call = direct(await started(cell))

    async def without_probe(method: str, *args: Any) -> Any:
        if method == "measure":
            return Sample(batch_size=1, prompt_tokens=1, prefill_s=1.0, step_s=1.0)
        return await call(method, *args)

    trial, store = await run_trial(cell, tmp_path, call=without_probe)
    written = rows(store)
    assert trial.cut_off
    assert len(written) == trial.planned_requests
    assert {row["status"] for row in written} == {"unfinished"}
    assert all(row["first_token_s"] is row["last_token_s"] is row["token_s"] is None for row in written)
    assert {row["error"] for row in written} == {None}
    ran, waited = ([row for row in written if (row["batch_id"] is None) == waits] for waits in (False, True))
    assert len(ran) == 4
    assert all(row["scheduled_s"] is not None for row in ran)
    assert all(row["scheduled_s"] is row["returned_s"] is None for row in waited)
    assert all(row["received_s"] >= row["sent_s"] and row["output_tokens"] == 0 for row in written)


async def test_some_failed_requests_are_data(make_cell: MakeCell, tmp_path: Path):
    cell = make_cell(warmup_requests=0)
    sent = traffic(cell)
    broken = tuple(
        replace(request, prompt_ids=(32_000,)) if request.index % 3 == 0 else request
        for request in sent.requests
    )
    _, store = await run_trial(cell, tmp_path, sent=Traffic(requests=broken, warmup=()))
    for row in rows(store):
        failed = row["index"] % 3 == 0
        assert row["status"] == ("failed" if failed else "finished")
        assert row["cause"] == ("invalid-request" if failed else None)
        assert (row["first_token_s"] is None) == failed
    last = store.batches().to_pylist()[-1]
    assert last["trigger"] in ("flush", "size")  # the refused are not waited for


async def test_a_trial_in_which_all_requests_failed_does_not_count(make_cell: MakeCell, tmp_path: Path):
    cell = make_cell()
    sent = traffic(cell)
    broken = tuple(replace(request, prompt_ids=(32_000,)) for request in sent.requests)
    with pytest.raises(
        TrialError, match=r"all \d+ requests failed: token ids must be in 0\.\.31999"
    ) as error:
        await run_trial(cell, tmp_path, sent=Traffic(requests=broken, warmup=sent.warmup))
    assert error.value.cause == "all-failed"


async def test_a_trial_without_requests_does_not_count(make_cell: MakeCell, tmp_path: Path):
    with pytest.raises(TrialError, match=r"no request arrives within 0\.3 s at 80/s") as error:
        await run_trial(make_cell(), tmp_path, sent=Traffic(requests=(), warmup=()))
    assert error.value.cause == "no-requests"


@pytest.mark.parametrize("took_over", [False, True])
async def test_a_replica_that_was_replaced_ends_the_trial(
    make_cell: MakeCell, tmp_path: Path, took_over: bool
):
    cell = make_cell()
    first, second = await started(cell), await started(cell)
    if took_over:
        await second.begin("any", cell.strategy, cell.knobs, 4, 1)

    async def call(method: str, *args: Any) -> Any:
        return await direct(second if method == "end" else first)(method, *args)

    with pytest.raises(EngineDead, match="replaced" if took_over else "not the one"):
        await run_trial(cell, tmp_path, call=call)


async def test_requests_that_reach_another_replica_end_the_trial_before_its_drain_limit(
    make_cell: MakeCell, tmp_path: Path
):
    cell = make_cell(drain_limit_s=604_800.0)
    first, second = await started(cell), await started(cell)
    generated = 0

    async def call(method: str, *args: Any) -> Any:
        nonlocal generated
        generated += method == "generate"
        return await direct(second if generated > 5 else first)(method, *args)

    with pytest.raises(EngineDead, match=r"other-trial: this replica does not serve trial .*/1"):
        await run_trial(cell, tmp_path, call=call)


async def test_a_call_that_raises_ends_the_trial_before_its_drain_limit(make_cell: MakeCell, tmp_path: Path):
    cell = make_cell(drain_limit_s=604_800.0)
    near = direct(await started(cell))
    generated = 0

    async def call(method: str, *args: Any) -> Any:
        nonlocal generated
        generated += method == "generate"
        if method == "generate" and generated == 6:
            raise ConnectionError
        return await near(method, *args)

    with pytest.raises(EngineDead, match="ConnectionError: ConnectionError"):
        await run_trial(cell, tmp_path, call=call)
    assert generated < len(traffic(cell).requests)


class Faulty(Simulated):
    """Raises at the batches that `fault` names (their number from 1, their size)."""

    def __init__(self, fault: Callable[[int, int], Exception | None], args: Mapping[str, Any]) -> None:
        super().__init__(None, SimulatedArgs(**args))
        self._fault, self._runs = fault, 0

    def fail_from_now(self, fault: Callable[[int, int], Exception | None]) -> None:
        self._fault, self._runs = fault, 0

    async def run(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        self._runs += 1
        if (error := self._fault(self._runs, len(batch))) is not None:
            raise error
        await super().run(batch, done)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Awaitable[Call]]:
    async def make(cell: Cell, fault: Callable[[int, int], Exception | None]) -> Call:
        """A replica whose engine fails so at the batches of the trial."""
        faulty = Faulty(lambda number, size: None, cell.engine)
        monkeypatch.setattr(deployments.replica, "create", lambda *_: faulty)
        near = direct(await started(cell))

        async def call(method: str, *args: Any) -> Any:
            if method == "begin":
                faulty.fail_from_now(fault)
            return await near(method, *args)

        return call

    return make


async def test_an_engine_that_dies_in_mid_batch_fails_the_trial_at_once(
    make_cell: MakeCell, tmp_path: Path, faulty: Callable[..., Awaitable[Call]]
):
    cell = make_cell(drain_limit_s=604_800.0)
    call = await faulty(cell, lambda number, size: EngineDead("process 9") if number == 2 else None)
    with pytest.raises(EngineDead, match="engine-dead: process 9"):
        await run_trial(cell, tmp_path, call=call)


async def test_a_batch_that_fails_is_data(
    make_cell: MakeCell, tmp_path: Path, faulty: Callable[..., Awaitable[Call]]
):
    cell = make_cell()
    call = await faulty(cell, lambda number, size: ValueError("shape") if number == 2 else None)
    _, store = await run_trial(cell, tmp_path, call=call)
    failed = [row for row in rows(store) if row["status"] == "failed"]
    assert len(failed) == 4
    assert {(row["cause"], row["error"], row["batch_id"]) for row in failed} == {("ValueError", "shape", 1)}


async def test_running_out_of_memory_lowers_the_cap_and_loses_nothing(
    make_cell: MakeCell, tmp_path: Path, faulty: Callable[..., Awaitable[Call]]
):
    cell = make_cell()
    call = await faulty(cell, lambda number, size: OutOfMemory("too many") if size > 2 else None)
    trial, store = await run_trial(cell, tmp_path, call=call)
    assert trial.min_cap == 2
    assert {row["status"] for row in rows(store)} == {"finished"}
    by_start = sorted(rows(store), key=lambda row: (row["scheduled_s"], row["index"]))
    assert [row["index"] for row in by_start] == list(range(trial.planned_requests))
    batches = store.batches().to_pylist()
    assert batches[0]["out_of_memory"]
    assert sum(batch["size"] for batch in batches if not batch["out_of_memory"]) == trial.planned_requests


async def test_an_engine_that_died_unnoticed_fails_the_trial_at_its_end(make_cell: MakeCell, tmp_path: Path):
    cell = make_cell()
    replica = await started(cell)

    async def call(method: str, *args: Any) -> Any:
        if method == "end":
            await replica._backend.close()
        return await direct(replica)(method, *args)

    with pytest.raises(EngineDead, match="the engine is not running"):
        await run_trial(cell, tmp_path, call=call)


@pytest.mark.parametrize(
    ("method", "deadline", "what"),
    [
        ("measure", "PREPARE_DEADLINE_S", "get ready"),
        ("end", "ABORT_DEADLINE_S", "end the trial"),
        ("abort", "ABORT_DEADLINE_S", "end its requests"),
    ],
)
async def test_a_replica_that_hangs_does_not_hang_the_sweep(
    make_cell: MakeCell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    deadline: str,
    what: str,
):
    monkeypatch.setattr(experiments.trial, deadline, 0.1)
    cell = make_cell(drain_limit_s=1e-3 if method == "abort" else 20.0)
    near = direct(await started(cell))

    async def call(called: str, *args: Any) -> Any:
        if called == method or (method == "abort" and called == "generate"):
            await asyncio.get_running_loop().create_future()
        return await near(called, *args)

    with pytest.raises(EngineDead, match=f"the replica did not {what} within 0.1 s"):
        await run_trial(cell, tmp_path, call=call)


async def test_a_second_attempt_on_the_same_lane_refuses_calls_of_the_first(
    make_cell: MakeCell, tmp_path: Path
):
    cell = make_cell()
    replica = await started(cell)
    first_call: list[Any] = []
    stray: list[Reply] = []

    async def first(method: str, *args: Any) -> Any:
        if method == "generate" and not first_call:
            first_call.extend(args)
        return await direct(replica)(method, *args)

    async def second(method: str, *args: Any) -> Any:
        if method == "generate" and not stray:
            stray.append(await replica.generate(*first_call))
        return await direct(replica)(method, *args)

    sent = traffic(cell)
    broken = tuple(replace(request, prompt_ids=(-1,)) for request in sent.requests)
    with pytest.raises(TrialError):
        await run_trial(cell, tmp_path, call=first, sent=Traffic(requests=broken, warmup=sent.warmup))
    trial, store = await run_trial(cell, tmp_path, call=second)
    assert trial.attempt == 2
    assert stray[0].output.cause == "other-trial"
    assert {row["status"] for row in rows(store)} == {"finished"}


async def test_rows_are_written_while_the_trial_runs(
    make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(experiments.trial_rows, "FLUSH_EVERY_S", 0.02)
    cell = make_cell("dynamic")
    near = direct(await started(cell))
    parts: list[int] = []

    async def call(method: str, *args: Any) -> Any:
        if method == "end":
            parts.append(len(list(tmp_path.rglob("requests-*.parquet"))))
        return await near(method, *args)

    trial, store = await run_trial(cell, tmp_path, call=call)
    assert parts[0] >= 2
    assert len(rows(store)) == trial.planned_requests


async def test_a_slow_disk_loses_no_row(make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A write that is under way when the trial ends is waited for."""
    monkeypatch.setattr(experiments.trial_rows, "FLUSH_EVERY_S", 0.001)
    write = experiments.trial.Attempt.write_requests

    slow: list[int] = []

    def slowly(attempt: Any, written: Sequence[Mapping[str, Any]]) -> None:
        if written and not slow:
            slow.append(len(written))
            time.sleep(0.8)  # in a thread of its own; the trial is over before
        write(attempt, written)

    monkeypatch.setattr(experiments.trial.Attempt, "write_requests", slowly)
    trial, store = await run_trial(make_cell("dynamic"), tmp_path)
    assert slow
    assert len(rows(store)) == trial.planned_requests


async def test_whoever_watches_is_told_how_the_trial_stands(make_cell: MakeCell, tmp_path: Path):
    states: list[State] = []
    cell = make_cell("dynamic", rate=30.0, duration_s=1.5)
    trial, _ = await run_trial(cell, tmp_path, report=states.append)
    state = states[0]
    assert (state.cell_id, state.lane, state.planned) == (cell.cell_id, "lane-3", trial.planned_requests)
    assert 0 < state.sent <= state.planned
    assert 0 < state.elapsed_s <= trial.measured_s
    assert state.tokens_per_s > 0


async def test_watching_in_vain_does_not_end_a_trial(make_cell: MakeCell, tmp_path: Path):
    cell = make_cell("dynamic", rate=30.0, duration_s=1.5)
    near = direct(await started(cell))
    asked: list[str] = []

    async def call(method: str, *args: Any) -> Any:
        if method == "progress":
            asked.append(method)
            raise ConnectionError("busy")
        return await near(method, *args)

    trial, store = await run_trial(cell, tmp_path, call=call)
    assert asked
    assert len(rows(store)) == trial.planned_requests
