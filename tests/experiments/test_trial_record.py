"""What a trial records beside its requests: warm-up, probes, samples, who shares its GPU, and its failures."""

import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import experiments.trial
from deployments.errors import EngineDead
from deployments.idle_engine import Sample
from deployments.lanes import Call
from deployments.replica import Devices, Replica
from experiments.config import SweepConfig
from experiments.failures import failure_of
from experiments.traffic import traffic
from results.read import read
from results.store import Store
from results.summary import find
from tests.experiments.near_trial import MakeCell, cell_maker, direct, rows, run_trial, started


@pytest.fixture
def make_cell(made_config: Callable[..., SweepConfig]) -> MakeCell:
    return cell_maker(made_config)


@pytest.fixture
def elsewhere() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread of its own, for a replica that goes on while its client stands still."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def test_warm_up_is_of_the_load_and_every_trial_on_it_says_how_it_went(
    make_cell: MakeCell, tmp_path: Path
):
    cell, other = make_cell(), make_cell("dynamic")
    call = direct(await started(cell))
    first, store = await run_trial(cell, tmp_path, call=call)
    second, _ = await run_trial(other, tmp_path, call=call)
    assert first.warm_up is not None
    assert first.warm_up.batches >= 2
    assert 0 < first.warm_up.took_s < first.prepare_s
    assert second.warm_up == first.warm_up
    assert second.prepare_s > 0
    without, _ = await run_trial(make_cell(warmup_requests=0), tmp_path)
    assert without.warm_up is None
    table = {row["cell_id"]: row for row in read_rows(store)["trials"]}
    assert table[cell.cell_id]["warm_up_batches"] == first.warm_up.batches
    assert table[without.cell_id]["warm_up_s"] is None


def read_rows(store: Store) -> dict[str, list[dict[str, Any]]]:
    """The tables of a store that has no sweep.json yet."""
    store.write_sweep({"name": "made"})
    tables = read(store.root)
    return {name: getattr(tables, name).to_pylist() for name in ("trials", "samples", "failures", "partial")}


def test_no_prompt_of_the_warm_up_is_measured(make_cell: MakeCell):
    tokens = {"distribution": "uniform", "low": 20, "high": 40}
    workload = {"prompts": {"source": "random", "tokens": tokens}, "output_tokens": tokens}
    sent = traffic(make_cell(warmup_requests=16, workload=workload))
    measured = {request.prompt_ids[:20] for request in sent.requests}
    assert len(sent.warmup) == 16
    assert len(measured) == len(sent.requests)
    assert measured.isdisjoint(request.prompt_ids[:20] for request in sent.warmup)


async def test_the_probe_is_the_median_of_several(make_cell: MakeCell, tmp_path: Path):
    cell = make_cell()
    near = direct(await started(cell))
    steps_s = [5.0, 0.1, 0.3, 0.2, 9.0, 0.4, 0.6, 0.5]

    async def call(method: str, *args: Any) -> Any:
        if method == "measure":
            return Sample(batch_size=1, prompt_tokens=32, prefill_s=1.0, step_s=next(probes))
        return await near(method, *args)

    probes = iter(steps_s)
    trial, _ = await run_trial(cell, tmp_path, call=call)
    assert trial.step_probe_s == statistics.median(steps_s)


async def test_probes_end_after_a_second_but_two_are_made(
    make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(experiments.trial, "PROBE_S", 0.0)
    cell = make_cell()
    near = direct(await started(cell))
    seen: list[str] = []

    async def call(method: str, *args: Any) -> Any:
        seen.append(method)
        return await near(method, *args)

    await run_trial(cell, tmp_path, call=call)
    assert seen.count("measure") == 2


async def test_samples_say_how_the_trial_stood(
    make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(experiments.trial, "SAMPLE_EVERY_S", 0.05)
    cell = make_cell("continuous", engine={"fixed_ms": 10.0}, rate=200.0)
    trial, store = await run_trial(cell, tmp_path)
    samples = read_rows(store)["samples"]
    assert len(samples) >= 4
    assert samples == sorted(samples, key=lambda row: row["at_s"])
    assert samples[0]["at_s"] < 0.05
    for row in samples:
        assert (row["cell_id"], row["attempt"], row["setting"]) == (cell.cell_id, 1, cell.setting)
        assert row["ended"] + row["waiting"] + row["running"] <= row["sent"] <= trial.planned_requests
        assert row["running"] <= 4
        assert row["kv_use"] is row["device_bytes"] is row["device_utilisation"] is None
    for name in ("sent", "ended", "tokens", "replica_cpu_s", "client_cpu_s"):
        values = [row[name] for row in samples]
        assert values == sorted(values), name
        assert values[0] >= 0
    assert max(row["waiting"] for row in samples) > 0
    assert samples[-1]["tokens"] > 0


async def test_an_older_sweep_has_no_samples(make_cell: MakeCell, tmp_path: Path):
    _, store = await run_trial(make_cell(), tmp_path)
    [done] = tmp_path.rglob("done.json")
    text = done.read_text().replace('"warm_up"', '"unknown_then"').replace('"gpu_strangers"', '"neither"')
    [part] = tmp_path.rglob("samples-*.parquet")
    size = part.stat().st_size
    done.write_text(text.replace(f',\n    "{part.name}": {size}', ""))
    part.unlink()
    again = Store(store.root)
    assert again.samples().num_rows == 0
    [trial] = again.trials()
    assert (trial.warm_up, trial.gpu_strangers) == (None, ())
    assert again.problems == []


async def test_who_else_is_on_the_gpu_at_start_or_end_is_recorded_with_its_clocks(
    make_cell: MakeCell, tmp_path: Path
):
    cell = make_cell()
    near = direct(await started(cell))
    state = {"0": {"clock_mhz": 1335, "memory_clock_mhz": 2619, "used_bytes": 7}}

    async def call(method: str, *args: Any) -> Any:
        answer = await near(method, *args)
        if method == "devices":
            return Devices(state=state, strangers=("GPU 0: pid 7 (other, 1.0 GiB)",))
        return answer

    trial, _ = await run_trial(cell, tmp_path, call=call)
    assert trial.gpu_strangers == ("GPU 0: pid 7 (other, 1.0 GiB)",)
    assert trial.setup["gpus_at_start"] == state


async def test_what_a_failed_attempt_left_can_be_read_with_the_cause(
    make_cell: MakeCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(experiments.trial, "SAMPLE_EVERY_S", 0.05)
    cell = make_cell("dynamic")
    near = direct(await started(cell))

    async def call(method: str, *args: Any) -> Any:
        if method == "end":
            raise EngineDead("process 9 is gone")
        return await near(method, *args)

    with pytest.raises(EngineDead) as caught:
        await run_trial(cell, tmp_path, call=call)
    store = Store(tmp_path)
    attempt = store.begin_attempt(cell.cell_id)  # a second one, which is killed
    first = type(attempt)(
        attempt._filesystem, str(tmp_path / "cells" / cell.cell_id / "attempt-1"), cell.cell_id, 1
    )
    first.fail(failure_of(first, caught.value, permanent=False))
    assert rows(store) == []
    tables = read_rows(store)
    assert [(row["attempt"], row["cause"]) for row in tables["failures"]] == [(1, "engine-dead")]
    left = tables["partial"]
    assert [row["index"] for row in left] == list(range(len(traffic(cell).requests)))
    assert {(row["attempt"], row["status"]) for row in left} == {(1, "finished")}
    assert list(tmp_path.rglob("samples-*.parquet"))


async def test_a_client_that_stands_still_for_2_s_is_found_out(
    make_cell: MakeCell, tmp_path: Path, elsewhere: asyncio.AbstractEventLoop
):
    """Its replica goes on; what was due meanwhile is sent late, and is slow by that much."""
    cell = make_cell("continuous", rate=60.0, duration_s=2.4)
    stall_s = 2.0
    stalled = False

    def stand_still() -> None:
        time.sleep(stall_s)

    def there(replica: Replica) -> Call:
        async def call(method: str, *args: Any) -> Any:
            asked = asyncio.run_coroutine_threadsafe(getattr(replica, method)(*args), elsewhere)
            nonlocal stalled
            if method == "generate" and not stalled:
                stalled = True
                stand_still()
            return await asyncio.wrap_future(asked)

        return call

    replica = Replica()
    await asyncio.wrap_future(
        asyncio.run_coroutine_threadsafe(replica.start(cell.backend, None, cell.engine), elsewhere)
    )
    trial, store = await run_trial(cell, tmp_path, call=there(replica))
    written = rows(store)
    assert [row["index"] for row in written] == [request.index for request in traffic(cell).requests]
    assert {row["status"] for row in written} == {"finished"}
    until_s = written[0]["sent_s"] + stall_s
    due = [row for row in written[1:] if row["planned_s"] < until_s - 0.1]
    assert len(due) > 60
    for row in due:
        assert (
            row["last_token_s"] - row["planned_s"] >= until_s - row["planned_s"] - trial.clock.uncertainty_s
        )
    [summary] = find(store).trials
    assert summary.has("client-bound")
    e2e_s = np.array([row["last_token_s"] - row["planned_s"] for row in due])
    assert e2e_s.max() >= 0.9 * stall_s
