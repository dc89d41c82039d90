"""A budget that ends a sweep halfway, on real lanes: nothing is lost, and what it cost adds up."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from results.cost import spent
from results.price import price_of
from results.store import Store
from tests.experiments.command_process import CommandProcess

pytestmark = [pytest.mark.ray, pytest.mark.fault]

NAIVE = {"strategy": "naive", "backends": "simulated", "max_batch_size": 2}
PRICE = 7.2  # an hour of a lane


def test_a_sweep_that_a_budget_stopped_halfway_goes_on_and_its_cost_is_the_price_of_its_lane_hours(
    started: Callable[..., CommandProcess], short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    config = short_sweep(
        arrival_rate=[6, 8, 10], duration_s=3, repeats=2, strategies=[NAIVE], price_per_gpu_hour=PRICE
    )
    results, half = tmp_path / "results", 26.0 / 3600 * PRICE  # a load, and three trials of about 7 s
    first = started("sweep", config, "--results", results, "--max-cost", f"{half:.4f}")
    code, output, told = first.end(400)
    assert code == 1, told
    [root] = results.iterdir()
    store = Store(root)
    done = len(store.done_cells())
    assert 1 <= done <= 5, "some, and not all"
    info = store.read_sweep() or {}
    used = spent(store, info, price_of(info))
    assert used.cost is not None
    last = max(store.trials(), key=lambda trial: trial.started_at)
    assert used.cost - PRICE * last.lane_time.held_s / 3600 <= half, "the last was begun within it"
    [line] = [line for line in output.splitlines() if line.startswith("stopped at --max-cost")]
    assert f"{done} of 6 cells are done" in line
    assert "goes on up to a larger one" in line
    assert not store.failures(), "what was held back has not failed"

    code, output, told = started("sweep", config, "--results", results, "--json").end(400)
    assert code == 0, told
    store = Store(root)
    assert len(store.done_cells()) == 6
    times = store.lane_times()
    assert all(time is not None for time in times.values())
    assert len(times) == 6, "no attempt was begun in vain"
    hours = sum(time.held_s for time in times.values() if time) / 3600
    cost = json.loads(output)["cost"]
    assert cost["spent"] == pytest.approx(PRICE * hours)
    assert cost["gpu_hours"] == pytest.approx(hours)
    trials = store.trials()
    assert hours * 3600 >= sum(trial.total_s for trial in trials), "with the loading"
