"""Memory and order of a simulated sweep: where its budgets come from, and what its rows say of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from deployments.virtual.hardware import GIB
from experiments.cells import Cell
from experiments.errors import ConfigError
from experiments.simulation.engines import engine_of
from experiments.simulation.run import run_simulation
from experiments.simulation.simulation import Simulation, shape_hash, shape_of
from results.read import read
from strategies.kv_budget import KVBudget

Small = Callable[..., Simulation]

PADDED: dict[str, Any] = {
    "arrival_rate": [60],
    "strategies": [
        {"strategy": "dynamic", "backends": "huggingface", "max_batch_size": 4, "max_wait_ms": 50},
        {
            "strategy": "dynamic",
            "backends": "huggingface",
            "max_batch_size": 4,
            "max_wait_ms": 50,
            "order": "length",
        },
    ],
}
LONG = {"distribution": "fixed", "tokens": 50_000}
C_KV, WEIGHT_BYTES = 23_040, 2 * 134_515_008  # of the config's model, SmolLM2-135M


def budget_of(simulation: Simulation) -> KVBudget | None:
    cell: Cell = next(cell for cell in simulation.cells() if cell.backend == "huggingface")
    return engine_of(cell, simulation.premises["huggingface"], simulation.config.simulation).budget


def prompts(law: dict[str, Any]) -> dict[str, Any]:
    return {"workload": {"prompts": {"tokens": law}, "output_tokens": {"distribution": "fixed", "tokens": 8}}}


def test_the_budget_is_what_weights_and_reserve_leave_of_the_hardware(small: Small):
    assert budget_of(small()) is None
    assert budget_of(small(hardware="l4")) is None  # four short prompts always fit
    wide = {"strategies": [{"strategy": "naive", "backends": "huggingface", "max_batch_size": 64}]}
    of_hardware = budget_of(small(hardware="rtx-4090", **wide, **prompts(LONG)))
    assert of_hardware.bytes_per_token == C_KV
    left_bytes = 24 * GIB - WEIGHT_BYTES - 1.5 * GIB
    assert left_bytes - C_KV < of_hardware.budget_bytes <= left_bytes
    assert of_hardware.rows(50_000, 8) == 20


def test_a_budget_in_bytes_needs_no_hardware_and_a_reserve_may_not_take_everything(small: Small):
    given = {"backends": {"huggingface": {"kv_budget_bytes": 100 * C_KV}}}
    assert budget_of(small(**given)) == KVBudget(budget_bytes=100 * C_KV, bytes_per_token=C_KV)
    with pytest.raises(ConfigError, match=r"simulation\.kv_reserve_gib 30 leaves no memory"):
        small(hardware="l4", simulation={"kv_reserve_gib": 30})


def test_rows_say_that_memory_ended_batches_and_that_length_pads_less(small: Small, tmp_path: Path):
    mixed = {"distribution": "empirical", "values": [16, 17, 18, 200, 210, 220]}
    simulation = small(
        repeats=1, backends={"huggingface": {"kv_budget_bytes": 3 * 228 * C_KV}}, **PADDED, **prompts(mixed)
    )
    run_simulation(simulation, simulation.root(tmp_path), lambda text: None)
    batches = read(simulation.root(tmp_path)).batches
    batches = batches.filter(pc.equal(batches["kind"], "batch"))
    taken = pc.multiply(batches["size"], pc.add(batches["longest_prompt_tokens"], 8))
    assert pc.max(taken).as_py() <= 3 * 228
    waste = {}
    for setting in ("dynamic · 4 · 50 ms", "dynamic · 4 · 50 ms · length"):
        of_setting = batches.filter(pc.equal(batches["setting"], setting))
        assert {"memory", "size"} <= set(of_setting["trigger"].to_pylist())
        waste[setting] = pc.mean(of_setting["padding_waste"]).as_py()
    assert waste["dynamic · 4 · 50 ms · length"] < waste["dynamic · 4 · 50 ms"] / 2


def test_classes_and_targets_are_of_the_shape_and_of_its_hash(small: Small):
    lengths = prompts({"distribution": "uniform", "low": 8, "high": 64})["workload"]
    plain, terms = (
        small(workload=lengths | more) for more in ({}, {"priority": [1, 1], "ttft_target_ms": 300})
    )
    one, other = (shape_of(simulation.cells()[0]) for simulation in (plain, terms))
    assert (one.priority, one.ttft_target_s) == (None, None)
    assert (one.arrival_s == other.arrival_s).all()
    assert set(other.priority.tolist()) == {0, 1}
    assert set(other.ttft_target_s.tolist()) == {0.3}
    assert shape_hash(one) != shape_hash(other)
