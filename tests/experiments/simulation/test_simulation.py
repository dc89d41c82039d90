"""A simulated sweep: exact where theory is, the same for the same seed, and to be gone on with at any cell."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployments.virtual.iteration import Iteration
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.step_model import Linear
from experiments.cells import Cell
from experiments.errors import ConfigError
from experiments.simulation import pool
from experiments.simulation.engines import engine_of
from experiments.simulation.occupancy import STEPS, occupancy_of
from experiments.simulation.pool import Conditions, Workers
from experiments.simulation.run import run_simulation
from experiments.simulation.simulation import Simulation
from results.errors import StoreError
from results.read import read
from results.store import Store
from strategies.naive import Naive
from strategies.registry import STRATEGIES, Entry
from strategies.strategy import EngineView, Wait, Waiting
from tests.workloads.written_trace import write_trace

Small = Callable[..., Simulation]


def run(simulation: Simulation, folder: Path) -> str:
    root = simulation.root(folder)
    run_simulation(simulation, root, lambda text: None)
    return root


def cell_of(simulation: Simulation, strategy: str, backend: str) -> Cell:
    return next(cell for cell in simulation.cells() if (cell.strategy, cell.backend) == (strategy, backend))


def test_every_cell_is_run_and_its_rows_are_of_the_store(small: Small, tmp_path: Path):
    simulation = small()
    rows = read(run(simulation, tmp_path))
    assert rows.trials.num_rows == len(simulation.cells()) == 16
    assert set(rows.requests["device"].to_pylist()) == {"virtual"}
    assert set(rows.requests["backend"].to_pylist()) == {"huggingface", "vllm"}
    assert set(rows.requests["status"].to_pylist()) <= {"finished", "unfinished"}
    assert not rows.problems


def test_the_same_seed_makes_the_same_tables_in_one_process_or_several(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    simulation = small(repeats=1)
    alone = read(run(simulation, tmp_path / "alone"))
    monkeypatch.setattr(pool, "ALONE", 0.0)
    together = read(run(simulation, tmp_path / "together"))
    assert together.requests.equals(alone.requests)
    assert together.batches.equals(alone.batches)
    other = read(run(small(repeats=1, seed=5), tmp_path / "other"))
    assert not other.requests["planned_s"].equals(alone.requests["planned_s"])


def test_naive_launches_when_its_last_member_came_and_the_engine_is_idle(small: Small, tmp_path: Path):
    rows = read(run(small(repeats=1), tmp_path))
    for cell in {trial["cell_id"] for trial in rows.trials.to_pylist() if trial["strategy"] == "naive"}:
        requests = [row for row in rows.requests.to_pylist() if row["cell_id"] == cell]
        batches = [
            row for row in rows.batches.to_pylist() if row["cell_id"] == cell and row["kind"] == "batch"
        ]
        end_s = 0.0
        for batch in batches:
            members = [row for row in requests if row["batch_id"] == batch["batch_id"]]
            last_s = max(row["planned_s"] for row in members)
            assert batch["launched_s"] == max(last_s, end_s)
            steps = [max(row["target_output_tokens"] for row in members) - 1]
            longest = max(row["prompt_tokens"] for row in members)
            size, model = len(members), Linear()
            lasts_s = model.step_s(size, prefill_tokens=size * longest) + steps[0] * model.step_s(size)
            if batch["ended_s"] != rows.requests["returned_s"].to_numpy().max():  # cut at the drain limit
                assert batch["ended_s"] - batch["launched_s"] == pytest.approx(lasts_s)
            end_s = batch["ended_s"]
        assert len(batches) > 5


def test_what_was_done_is_not_run_again(small: Small, tmp_path: Path):
    simulation = small(repeats=1)
    root = simulation.root(tmp_path)
    info = simulation.info()
    Store(root).write_sweep(info)
    planned = simulation.cells()
    conditions = Conditions(
        root=root, premises=simulation.premises, entry=simulation.config.simulation, setup={}
    )
    with Workers(conditions, planned[:3]) as workers:
        assert list(workers.run(planned[:3])) == [1, 2, 3]
    before = {
        cell: (Path(root) / f"cells/{cell}/attempt-1/done.json").stat() for cell in Store(root).done_cells()
    }
    told: list[str] = []
    outcome = run_simulation(simulation, root, told.append)
    assert (outcome.ran, outcome.done, outcome.planned) == (5, 8, 8)
    assert told == ["going on: 3 of 8 cells are done"]
    assert set(Store(root).done_cells().values()) == {1}
    for cell, stat in before.items():
        assert (Path(root) / f"cells/{cell}/attempt-1/done.json").stat().st_mtime_ns == stat.st_mtime_ns
    again = run_simulation(simulation, root, told.append)
    assert (again.ran, again.complete) == (0, True)


def test_it_goes_on_only_with_the_requests_of_every_repeat_that_it_began_with(
    written: Callable[..., Path], batchyard: Callable[..., Any], tmp_path: Path
):
    """The first repeat shows the beginning of a trace, which stays; the others begin anywhere."""
    trace = tmp_path / "trace.csv"
    rows = [(index * 500_000, 20 + index % 30, 4) for index in range(400)]  # 20 a second
    write_trace(trace, rows)
    config = written(
        tmp_path,
        workload={"trace": {"path": str(trace)}, "prompts": {"source": "random"}},
        arrival_rate=[20],
        duration_s=2,
        strategies=[{"strategy": "naive", "backends": "vllm", "max_batch_size": 4}],
    )
    command = ("simulate", config, "--results", tmp_path / "r", "--repeats", 4, "--no-lengthen")
    assert batchyard(*command).exit_code == 0
    (page,) = (tmp_path / "r").glob("*/report.html")
    write_trace(trace, [*rows[:100], *((at, prompt + 1, output) for at, prompt, output in rows[100:])])
    assert batchyard(*command).exit_code == 0, "it is complete"
    next(page.parent.glob("cells/*/*/done.json")).unlink()
    refused = batchyard(*command)
    assert (refused.exit_code, refused.stdout) == (2, "")
    line = refused.stderr.splitlines()[-1]
    assert line.startswith("error: the requests at rate/repeat 20.0/"), line
    assert "20.0/0" not in line
    write_trace(trace, rows)
    assert batchyard(*command).exit_code == 0


def test_other_premises_or_repeats_are_another_sweep(small: Small, tmp_path: Path):
    roots = {
        one.root(tmp_path)
        for one in (small(), small(repeats=3), small(hardware="h200"), small(hardware="l4"), small(seed=2))
    }
    assert len(roots) == 5
    assert all("made-simulated-" in root for root in roots)


def test_a_sweep_goes_on_from_its_own_document(small: Small, tmp_path: Path):
    simulation = small(hardware="h200")
    store = Store(simulation.root(tmp_path))
    store.write_sweep(simulation.info())
    info = store.read_sweep()
    assert info is not None
    again = Simulation.from_info(info, "sweep.json")
    assert again.identity == simulation.identity
    assert again.premises == simulation.premises
    assert again.cells(info) == simulation.cells()
    with pytest.raises(ConfigError, match="--fresh starts anew"):
        again.cells({**info, "cells_hash": "0" * 16})
    with pytest.raises(StoreError, match="simulated must hold backends, repeats and options"):
        Simulation.from_info({**info, "simulated": {"backends": {"vllm": 3}}}, "sweep.json")


def test_ten_repeats_unless_the_config_has_more(made_config: Callable[..., Any]):
    from experiments.explain.basis import bases

    for repeats, expected in ((3, 10), (12, 12)):
        config = made_config(repeats=repeats)
        assert Simulation.of(config, bases(config)).config.repeats == expected


def test_the_simulation_block_is_no_part_of_a_measured_sweep(made_config: Callable[..., Any]):
    block = {"simulation": {"kv_blocks": 50, "admission": "reserve"}}
    assert made_config(**block).config_hash == made_config().config_hash


def test_backends_become_their_engines(small: Small):
    simulation = small(hardware="h200")
    entry = simulation.config.simulation
    static = engine_of(
        cell_of(simulation, "dynamic", "huggingface"), simulation.premises["huggingface"], entry
    )
    assert isinstance(static, Lockstep)
    joined = engine_of(cell_of(simulation, "continuous", "vllm"), simulation.premises["vllm"], entry)
    assert isinstance(joined, Iteration)
    assert (joined.max_num_seqs, joined.max_num_batched_tokens) == (4, 2048)
    assert joined.kv is not None
    kv_tokens = simulation.premises["vllm"].kv_tokens
    assert kv_tokens is not None
    assert joined.kv.blocks == kv_tokens // 16
    assert joined.kv.bytes_per_token == simulation.premises["vllm"].kv_bytes_per_token


def test_the_budget_of_a_step_is_what_vllm_would_take(small: Small):
    for engine, budget in (
        ({}, 2048),
        ({"max_model_len": 200}, 4 * 200),
        ({"max_model_len": 4096}, 2048),
        ({"max_model_len": 200, "max_num_batched_tokens": 1000}, 1000),
        ({"max_num_batched_tokens": 8192}, 8192),
    ):
        simulation = small(backends={"vllm": engine})
        cell = cell_of(simulation, "continuous", "vllm")
        joined = engine_of(cell, simulation.premises["vllm"], simulation.config.simulation)
        assert isinstance(joined, Iteration)
        assert joined.max_num_batched_tokens == budget


def test_the_config_says_more_of_an_engine(small: Small):
    simulation = small(
        simulation={
            "max_num_batched_tokens": 64,
            "prefill_chunk": 16,
            "order": "prefill-first",
            "kv_blocks": 20,
            "kv_block_tokens": 8,
            "admission": "reserve",
            "preemption": "swap",
        }
    )
    cell = cell_of(simulation, "continuous", "vllm")
    engine = engine_of(cell, simulation.premises["vllm"], simulation.config.simulation)
    assert isinstance(engine, Iteration)
    assert (engine.max_num_batched_tokens, engine.prefill_chunk, engine.order) == (64, 16, "prefill-first")
    assert engine.kv is not None
    assert (engine.kv.blocks, engine.kv.block_tokens) == (20, 8)
    assert (engine.kv.admission, engine.kv.preemption) == ("reserve", "swap")


def test_a_request_that_the_cache_cannot_hold_fails_and_the_others_go_on(small: Small, tmp_path: Path):
    simulation = small(repeats=1, simulation={"kv_blocks": 3})  # 48 tokens; prompts have 16 to 64
    rows = read(run(simulation, tmp_path)).requests.to_pylist()
    on_vllm = [row for row in rows if row["backend"] == "vllm"]
    failed = [row for row in on_vllm if row["status"] == "failed"]
    assert {row["cause"] for row in failed} == {"kv-cache"}
    assert all("blocks of the KV cache" in row["error"] for row in failed)
    assert any(row["status"] == "finished" for row in on_vllm)
    assert not any(row["status"] == "failed" for row in rows if row["backend"] == "huggingface")


class Prophet:
    """A strategy that asks how long an answer will be, which nobody can know."""

    def __init__(self, *, max_batch_size: int) -> None:
        pass

    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Wait:
        return Wait(until_waiting=waiting[0].output_tokens)  # type: ignore[attr-defined]


def test_a_strategy_that_asks_for_a_true_length_fails_its_cells_alone(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    naive = STRATEGIES["naive"]
    monkeypatch.setitem(STRATEGIES, "naive", dataclasses.replace(naive, strategy=Prophet))
    simulation = small(repeats=1)
    root = simulation.root(tmp_path)
    outcome = run_simulation(simulation, root, lambda text: None)
    assert (outcome.done, outcome.planned) == (6, 8)
    failures = Store(root).failures()
    assert {failure.cause for failure in failures} == {"AttributeError"}
    assert {failure.error for failure in failures} == {"'Waiting' object has no attribute 'output_tokens'"}
    assert all(failure.permanent for failure in failures)


class Interrupted(Naive):
    """Ctrl-C comes while the third of its trials is begun."""

    made = 0

    def __init__(self, *, max_batch_size: int) -> None:
        super().__init__(max_batch_size=max_batch_size)
        type(self).made += 1
        if type(self).made == 3:
            raise KeyboardInterrupt


def test_ctrl_c_loses_nothing_that_was_done(
    written: Callable[..., Path],
    batchyard: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    config = written(tmp_path)
    entry: Entry = STRATEGIES["naive"]
    with monkeypatch.context() as patched:
        patched.setitem(STRATEGIES, "naive", dataclasses.replace(entry, strategy=Interrupted))
        stopped = batchyard("simulate", config, "--results", tmp_path / "r", "--repeats", 2)
    assert stopped.exit_code == 130
    assert "interrupted; nothing that was done is lost" in stopped.stderr
    (folder,) = (tmp_path / "r").iterdir()
    done = Store(folder).done_cells()
    assert 0 < len(done) < 16
    finished = batchyard("resume", folder)
    assert finished.exit_code == 0
    assert f"going on: {len(done)} of 16 cells are done" in finished.stderr
    assert len(Store(folder).done_cells()) == 16


def test_slots_are_held_as_the_rows_say(small: Small):
    simulation = small(repeats=1, duration_s=1, arrival_rate=12)
    done = {cell.cell_id for cell in simulation.cells()}
    shown = list(occupancy_of(simulation.info(), done))
    assert [(one.backend, one.setting) for one in shown] == [
        ("simulated huggingface", "naive · 4"),
        ("simulated huggingface", "dynamic · 4 · 50 ms"),
        ("simulated vllm", "continuous · 4"),
    ]
    useful = []
    for one in shown:
        assert one.steps < STEPS  # all of the trial
        decoded = sum(s.end_step - s.first_step for s in one.stretches if s.holding == "decode")
        requests = len({stretch.request for stretch in one.stretches})
        useful.append(decoded + requests)  # the last prefill step of each makes a token too
        assert one.utilisation == pytest.approx(useful[-1] / (one.slots * one.steps))
        held = np.zeros((one.slots, one.steps), dtype=int)
        for stretch in one.stretches:
            held[stretch.slot, stretch.first_step : stretch.end_step] += 1
        assert held.max() == 1
    assert len(set(useful)) == 1  # the same work
    assert {stretch.holding for stretch in shown[2].stretches} == {"prefill", "decode"}
    assert "finished" in {stretch.holding for stretch in shown[0].stretches}
