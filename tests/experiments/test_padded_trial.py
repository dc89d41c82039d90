"""A trial whose batches have a KV budget: what it keeps to, and what its rows say of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.config import SweepConfig
from tests.experiments.near_trial import cell_maker, run_trial

ROW_TOKENS = 9 + 6  # the longest prompt and the declared limit of the workload


@pytest.mark.parametrize("rows", [2, 4])
async def test_a_trial_keeps_to_its_budget_and_tells_it(
    made_config: Callable[..., SweepConfig], tmp_path: Path, rows: int
):
    budget_bytes = rows * ROW_TOKENS * 100
    engine = {"kv_budget_bytes": budget_bytes, "kv_bytes_per_token": 100}
    cell = cell_maker(made_config)("dynamic", engine, rate=400.0)
    trial, store = await run_trial(cell, tmp_path)
    assert trial.setup["padded_batches"] == {"kv_budget_bytes": budget_bytes}
    batches = store.batches().to_pylist()
    costs = [one["size"] * (one["longest_prompt_tokens"] + 6) * 100 for one in batches]
    assert all(cost <= budget_bytes for cost, one in zip(costs, batches, strict=True) if one["size"] > 1)
    assert ("memory" in {one["trigger"] for one in batches}) == (rows == 2), "a full batch of four rows fits"
