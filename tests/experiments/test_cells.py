"""Cells keep their identity, and blocks keep each lane's cells together within each repeat."""

import dataclasses
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.cells import Cell, blocks, cells
from experiments.config import SweepConfig
from experiments.resolved import Resolved

RESOLVED = Resolved(rates=(1.0, 4.0), durations_s=(40.0, 90.0))


@pytest.fixture(scope="module")
def grid(made_config: Callable[..., SweepConfig]) -> tuple[Cell, ...]:
    return cells(made_config(), RESOLVED)


def test_the_grid_has_each_setting_at_each_rate_in_each_repeat(grid: tuple[Cell, ...]) -> None:
    settings = [
        ("naive · 4", "huggingface"),
        ("naive · 4", "vllm"),
        ("dynamic · 2 · 50 ms", "vllm"),
        ("dynamic · 2 · 500 ms", "vllm"),
        ("dynamic · 4 · 50 ms", "vllm"),
        ("dynamic · 4 · 500 ms", "vllm"),
        ("continuous · 4", "vllm"),
    ]
    assert [(cell.setting, cell.backend, cell.rate, cell.repeat) for cell in grid] == [
        (*setting, rate, repeat) for setting in settings for rate in (1.0, 4.0) for repeat in (0, 1)
    ]
    assert len({cell.cell_id for cell in grid}) == len(grid)


def test_no_cell_has_a_knob_of_another_strategy(grid: tuple[Cell, ...]) -> None:
    knobs = {cell.strategy: set(cell.knobs) for cell in grid}
    assert knobs == {
        "naive": {"max_batch_size"},
        "dynamic": {"max_batch_size", "max_wait_ms", "timer"},
        "continuous": {"max_batch_size"},
    }


def test_one_axis_sets_batch_and_slots_unless_the_engine_says_otherwise(
    grid: tuple[Cell, ...], made_config: Callable[..., SweepConfig]
) -> None:
    assert {(cell.knobs["max_batch_size"], cell.engine["max_num_seqs"]) for cell in grid[4:]} == {
        (2, 2),
        (4, 4),
    }
    for backend in ("vllm", "huggingface-continuous"):
        entry = {"strategy": "dynamic", "backends": backend, "max_batch_size": [2, 4], "max_wait_ms": 0}
        follows = cells(made_config(strategies=[entry], backends={}), RESOLVED)
        assert {(cell.knobs["max_batch_size"], cell.engine["max_num_seqs"]) for cell in follows} == {
            (2, 2),
            (4, 4),
        }
        assert len({cell.lane_key for cell in follows}) == 2, "each value costs a load"
        wide = cells(made_config(strategies=[entry], backends={backend: {"max_num_seqs": 8}}), RESOLVED)
        assert {cell.engine["max_num_seqs"] for cell in wide} == {8}
        assert len({cell.lane_key for cell in wide}) == 1


def test_slots_of_the_simulated_engine_exist_only_where_requests_join(
    made_config: Callable[..., SweepConfig], random_prompts: dict[str, Any]
) -> None:
    entry = {"strategy": "naive", "backends": "simulated", "max_batch_size": 4}
    for engine, slots in (("lockstep", None), ("iteration", 4)):
        backends = {"simulated": {"engine": engine}}
        config = made_config(model=..., strategies=[entry], backends=backends, workload=random_prompts)
        assert {cell.engine.get("max_num_seqs") for cell in cells(config, RESOLVED)} == {slots}


def test_a_cell_drains_as_long_as_it_measured_and_at_least_a_minute(
    grid: tuple[Cell, ...], made_config: Callable[..., SweepConfig]
) -> None:
    assert {(cell.duration_s, cell.drain_limit_s) for cell in grid} == {(40.0, 60.0), (90.0, 90.0)}
    assert {cell.drain_limit_s for cell in cells(made_config(drain_limit_s=5), RESOLVED)} == {5.0}


def test_ids_are_the_same_in_every_version(grid: tuple[Cell, ...]) -> None:
    """Golden: an id that changes here makes every sweep on disk start anew."""
    assert (grid[0].cell_id, grid[-1].cell_id) == ("89ead4e83ade", "387e01fb8741")


CHANGES: dict[str, dict[str, Any]] = {
    "model": {"model": "tinyllama-1.1b"},
    "precision": {"model": {"name": "smollm2-135m", "dtype": "float32"}},
    "workload": {
        "workload": {
            "prompts": {"tokens": {"distribution": "fixed", "tokens": 16}},
            "output_tokens": {"distribution": "fixed", "tokens": 8},
        }
    },
    "warm-up": {"warmup_requests": 5},
    "seed": {"seed": 1},
    "drain limit": {"drain_limit_s": 61},
    "engine": {"backends": {"vllm": {"threads": 1}, "huggingface": {"threads": 1}}},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_anything_resolved_makes_other_cells(
    change: dict[str, Any], grid: tuple[Cell, ...], made_config: Callable[..., SweepConfig]
) -> None:
    other = cells(made_config(**change), RESOLVED)
    assert len(other) == len(grid)
    assert not {cell.cell_id for cell in grid} & {cell.cell_id for cell in other}


def test_a_longer_measured_period_makes_other_cells_at_its_rate_only(
    grid: tuple[Cell, ...], made_config: Callable[..., SweepConfig]
) -> None:
    longer = cells(made_config(), Resolved(rates=RESOLVED.rates, durations_s=(41.0, 90.0)))
    kept = {cell.cell_id for cell in grid} & {cell.cell_id for cell in longer}
    assert {cell.rate for cell in grid if cell.cell_id in kept} == {4.0}
    assert len(kept) == len(grid) / 2


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"max_failures": 0},
        {"isolate": True},
        {"model": {"name": "smollm2-135m", "dtype": "auto"}},
        {"backends": {"vllm": {"gpu_memory_utilization": 0.9}}},  # its default
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_no_cell_depends_on_leaves_the_ids(
    change: dict[str, Any], grid: tuple[Cell, ...], made_config: Callable[..., SweepConfig]
) -> None:
    assert [cell.cell_id for cell in cells(made_config(**change), RESOLVED)] == [
        cell.cell_id for cell in grid
    ]


def test_more_repeats_and_strategies_keep_the_cells_that_were_there(
    grid: tuple[Cell, ...],
    config_values: Callable[..., dict[str, Any]],
    made_config: Callable[..., SweepConfig],
) -> None:
    entries = config_values()["strategies"]
    entries[0]["max_batch_size"] = [2, 4]
    more = cells(made_config(repeats=3, strategies=entries), RESOLVED)
    assert {cell.cell_id for cell in more} > {cell.cell_id for cell in grid}


def test_the_lane_key_is_what_must_be_loaded(grid: tuple[Cell, ...]) -> None:
    loaded = {(cell.backend, cell.engine.get("max_num_seqs")) for cell in grid}
    assert len({cell.lane_key for cell in grid}) == len(loaded) == 3
    cell = grid[0]
    assert json.loads(cell.lane_key)["model"]["name"] == "smollm2-135m"
    assert dataclasses.replace(cell, rate=9.0, strategy="dynamic").lane_key == cell.lane_key


def test_what_was_resolved_survives_json() -> None:
    resolved = Resolved(rates=(0.1, 2.5), durations_s=(400.0, 20.0))
    assert Resolved.from_dict(json.loads(json.dumps(resolved.to_dict()))) == resolved
    with pytest.raises(ValueError, match="as many durations as rates"):
        Resolved.from_dict({"rates": [1], "durations_s": []})


@given(seed=st.integers(0, 2**32), drop=st.sets(st.integers(0, 27)))
def test_each_block_is_one_repeat_and_visits_each_lane_key_once(
    grid: tuple[Cell, ...], seed: int, drop: set[int]
) -> None:
    left = [cell for index, cell in enumerate(grid) if index not in drop]
    order = blocks(left, seed)
    assert sorted(cell.cell_id for block in order for cell in block) == sorted(cell.cell_id for cell in left)
    assert [{cell.repeat for cell in block} for block in order] == [
        {repeat} for repeat in sorted({cell.repeat for cell in left})
    ]
    for block in order:
        visits = [key for key, _ in itertools.groupby(block, key=lambda cell: cell.lane_key)]
        assert len(visits) == len(set(visits))


@given(seed=st.integers(0, 2**32))
def test_no_lane_key_is_first_in_two_repeats_running(grid: tuple[Cell, ...], seed: int) -> None:
    first, second = blocks(grid, seed)
    keys = list(dict.fromkeys(cell.lane_key for cell in first))
    assert len(keys) > 1
    assert list(dict.fromkeys(cell.lane_key for cell in second)) == [*keys[1:], keys[0]]


@given(seed=st.integers(0, 2**32))
def test_kinds_of_gpu_take_turns(grid: tuple[Cell, ...], seed: int) -> None:
    kinds = {"A10G", "L4", "T4"}
    on_each = [
        dataclasses.replace(cell, accelerator=kind, cell_id=f"{cell.cell_id}-{kind}")
        for cell in grid
        for kind in kinds
    ]
    for block in blocks(on_each, seed):
        for three in zip(*[iter(block)] * len(kinds), strict=True):
            assert {cell.accelerator for cell in three} == kinds
            assert len({cell.lane_key for cell in three}) == 1


def test_order_differs_by_seed_and_by_repeat(grid: tuple[Cell, ...]) -> None:
    def points(block: list[Cell]) -> list[tuple[str, str, float]]:
        return [(cell.setting, cell.backend, cell.rate) for cell in block]

    first, second = blocks(grid, 0)
    assert points(first) != points(second)
    assert len({json.dumps(points(blocks(grid, seed)[0])) for seed in range(20)}) == 20
    lanes = {blocks(grid, seed)[0][0].lane_key for seed in range(20)}
    assert lanes == {cell.lane_key for cell in grid}


@given(seed=st.integers(0, 2**32), lane=st.integers(0, 27))
def test_a_warm_lane_comes_first_in_the_first_block(grid: tuple[Cell, ...], seed: int, lane: int) -> None:
    warm = grid[lane].lane_key
    plain, begun = blocks(grid, seed), blocks(grid, seed, first_lane=warm)
    assert begun[0][0].lane_key == warm
    for before, after in zip(plain, begun, strict=True):
        assert [c for c in after if c.lane_key != warm] != []
        assert [c for c in after if c.lane_key == warm] == [c for c in before if c.lane_key == warm]
