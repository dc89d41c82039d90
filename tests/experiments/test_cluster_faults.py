"""Sweeps on a real Ray cluster of several nodes, with counted GPUs, on which things die and appear."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from results.store import Store
from tests.experiments.command_process import CommandProcess
from tests.experiments.left_on_cluster import NOTHING, left
from tests.experiments.ray_cluster import RayCluster
from tests.experiments.test_lanes_on_ray import Faults
from tests.soak.kills import replicas, trial_processes

pytestmark = [pytest.mark.ray, pytest.mark.fault]

Start = Callable[..., CommandProcess]
AWAY_S = 20.0
NAIVE = {"strategy": "naive", "backends": "simulated", "max_batch_size": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """A head, and one node with an A10G; tests add others, and take them away again."""
    made = RayCluster()
    made.add("A10G")
    yield made
    made.shutdown()


def requests_written(results: Path) -> int:
    return len(list(results.glob("*/cells/*/*/requests-*.parquet")))


def done(results: Path) -> int:
    return len(list(results.glob("*/cells/*/*/done.json")))


def ended(attempt: Path) -> bool:
    return any((attempt / name).exists() for name in ("done.json", "failed.json"))


def whole(results: Path, cells: int) -> Store:
    """The store, once it was seen that every cell is done exactly once and that it reads clean."""
    [root] = results.iterdir()
    store = Store(root)
    trials, requests = store.trials(), store.requests(columns=["request_id"])["request_id"].to_pylist()
    assert len({trial.cell_id for trial in trials}) == len(trials) == cells
    assert len(set(requests)) == len(requests) == sum(trial.planned_requests for trial in trials)
    assert not store.problems
    assert os.path.isfile(root / "report.html")
    return store


def test_a_node_that_comes_late_is_used_and_costs_one_trial_when_it_dies(
    cluster: RayCluster, started: Start, short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    rates = [6 + 0.5 * number for number in range(8)]
    config = short_sweep(arrival_rate=rates, duration_s=8, strategies=[NAIVE])  # its rows come every 5 s
    driver = started("sweep", config, "--address", cluster.address, "--results", results)
    driver.wait_for(lambda: done(results) >= 1, deadline_s=300)
    late = cluster.add("A10G")  # in the middle of the only block of cells

    def measuring_there() -> bool:
        """A trial on it has written its first rows and none since: it is in the middle."""
        parts = [path for path in results.glob("*/cells/*/*/requests-*.parquet") if not ended(path.parent)]
        names = Counter(path.parent for path in parts)
        return any(names[path.parent] == 1 and late.node_id.encode() in path.read_bytes() for path in parts)

    driver.wait_for(measuring_there, deadline_s=300)
    cluster.kill(late)
    code, output, told = driver.end(400)
    assert code == 0, told
    store = whole(results, 8)
    assert {trial.setup["node"]["kind"] for trial in store.trials()} == {"A10G"}
    causes = {failure.cause for failure in store.failures()}
    assert causes, "the trial that it was in failed, and was tried again"
    assert causes <= {"lane-gone", "engine-dead"}
    assert "Raylet" not in output + told
    assert left(cluster.address) == NOTHING


def test_kinds_of_gpu_are_an_axis_and_a_driver_that_was_killed_is_resumed(
    cluster: RayCluster, started: Start, short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    other = cluster.add("L4")
    changes: dict[str, Any] = {"accelerator": ["A10G", "L4"], "strategies": [NAIVE], "repeats": 1}
    config = short_sweep(arrival_rate=[10, 20], **changes)
    command = ("sweep", config, "--address", cluster.address, "--results", results)
    first = started(*command)
    first.wait_for(lambda: done(results) >= 1, deadline_s=300)
    loaded = replicas(os.getpid())
    elsewhere = ("--address", cluster.address, "--results", tmp_path / "other")
    code, _, told = started("sweep", config, *elsewhere).end()
    assert (code, told.count("another sweep runs on the cluster")) == (2, 1), told
    assert loaded
    assert all(one.is_running() for one in loaded), "who is refused takes nothing away"
    os.kill(first.process.pid, signal.SIGKILL)
    first.end()

    end_s = time.monotonic() + 60
    while True:  # the lane board goes with its driver, which Ray notices some seconds later
        code, _, told = started(*command).end(300)
        if "another sweep runs" not in told or time.monotonic() > end_s:
            break
    assert code == 0, told
    trials = whole(results, 4).trials()
    assert {(trial.device, trial.rate) for trial in trials} == {
        (kind, rate) for kind in ("A10G", "L4") for rate in (10, 20)
    }
    assert all(trial.setup["node"]["kind"] == trial.device for trial in trials)
    assert left(cluster.address) == NOTHING
    cluster.kill(other)


def test_an_interruption_is_no_failure_of_what_it_takes_the_lanes_from(
    cluster: RayCluster, started: Start, short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    faults = Faults(results)
    config = short_sweep(arrival_rate=[10], duration_s=30, strategies=[NAIVE])
    driver = started("sweep", config, "--address", cluster.address, "--results", results)
    driver.wait_for(lambda: faults.measuring(), deadline_s=300)
    driver.process.send_signal(signal.SIGINT)
    code, _, told = driver.end()
    assert code == 130, told
    assert faults.causes() == set()
    assert left(cluster.address) == NOTHING


def test_a_lane_of_two_gpus_is_on_the_node_that_has_them_and_costs_both(
    cluster: RayCluster, started: Start, short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    two = cluster.add("A10G", gpus=2)
    changes: dict[str, Any] = {"strategies": [NAIVE], "price_per_gpu_hour": {"A10G": 3.6}}
    config = short_sweep(arrival_rate=[10], backends={"simulated": {"lane_gpus": 2}}, **changes)
    command = ("sweep", config, "--address", cluster.address, "--results", results)
    code, output, told = started(*command, "--json").end(300)
    assert code == 0, told
    [trial] = whole(results, 1).trials()
    assert (trial.setup["node"]["id"], trial.lane_time.gpus, trial.lane_time.kind) == (two.node_id, 2, "A10G")
    assert json.loads(output)["cost"]["spent"] == pytest.approx(3.6 * 2 * trial.lane_time.held_s / 3600)
    assert left(cluster.address) == NOTHING
    config = short_sweep(arrival_rate=[10], backends={"simulated": {"lane_gpus": 3}}, **changes)
    code, _, told = started(*command).end(300)
    assert (code, told.count("must be at most the GPUs of the cluster's largest node, 2, got 3")) == (2, 1), (
        told
    )
    cluster.kill(two)


@pytest.mark.soak
def test_what_dies_on_a_node_is_away_or_never_starts_costs_no_more_than_its_attempts(
    cluster: RayCluster, started: Start, short_sweep: Callable[..., Path], tiny_model: Path, tmp_path: Path
) -> None:
    results, rates = tmp_path / "results", [6, 8, 10]
    faults, second = Faults(results), cluster.add("A10G")
    never = {"strategy": "naive", "backends": "huggingface", "max_batch_size": 2}
    config = short_sweep(
        model={"name": str(tiny_model), "dtype": "float32"},
        backends={"huggingface": {"start_deadline_s": 0.01}},
        arrival_rate=rates,
        duration_s=8,
        strategies=[NAIVE, never],
        max_failures=3,
    )
    driver = started("sweep", config, "--address", cluster.address, "--results", results)
    driver.wait_for(lambda: faults.measuring(), deadline_s=300)
    for victims, cause in ((replicas, "engine-dead"), (trial_processes, "process-killed")):
        faults.kill(driver, lambda _, victims=victims: victims(os.getpid()), cause)
    driver.wait_for(lambda: faults.measuring())
    root = faults.root
    away = root.rename(tmp_path / "away")
    time.sleep(AWAY_S)  # as long as the folder is to be away
    assert not root.exists(), "nothing is made in its place"
    away.rename(root)
    code, _, told = driver.end(400)
    assert code == 1, told
    store = whole(results, len(rates))
    assert {trial.backend for trial in store.trials()} == {"simulated"}
    causes = {failure.cause for failure in store.failures()}
    assert causes == {"engine-dead", "process-killed", "BackendError"}, "none is for the folder's sake"
    late = [failure.error for failure in store.failures() if failure.cause == "BackendError"]
    assert len(late) >= 4 * len(rates), "each was tried again"
    assert all("did not load within 0.01 s" in error for error in late)
    assert left(cluster.address) == NOTHING
    cluster.kill(second)


@pytest.mark.soak
def test_budgets_end_a_sweep_and_its_cost_is_price_times_lane_hours_of_each_kind(
    cluster: RayCluster, started: Start, short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    results, cells = tmp_path / "results", 12
    other = cluster.add("L4")
    prices = {"A10G": 7.2, "L4": 3.6}
    changes: dict[str, Any] = {"accelerator": list(prices), "strategies": [NAIVE], "repeats": 2}
    config = short_sweep(arrival_rate=[6, 8, 10], duration_s=4, price_per_gpu_hour=prices, **changes)
    command = ("sweep", config, "--address", cluster.address, "--results", results)

    def run(*limit: object) -> tuple[int, str, dict[str, int]]:
        """Whatever ends it, its cost is that of its attempts, none of which was begun in vain."""
        code, output, told = started(*command, *limit, "--json").end(400)
        [root] = results.iterdir()
        store, found = Store(root), json.loads(output)["cost"]
        times = [time for time in store.lane_times().values() if time is not None]
        assert len(times) == len(store.done_cells()) == found["attempts"]
        assert found["spent"] == pytest.approx(sum(prices[time.kind] * time.held_s / 3600 for time in times))
        assert found["gpu_hours"] == pytest.approx(sum(time.held_s for time in times) / 3600)
        return code, told, store.done_cells()

    begun_s = time.monotonic()
    code, told, first = run("--max-cost", 0.045)  # a trial on each, with a load, and one or two more
    took_s = time.monotonic() - begun_s
    assert (code, 1 <= len(first) < cells / 2) == (1, True), told
    assert f"stopped at --max-cost: {len(first)} of {cells} cells are done" in told
    assert "goes on up to a larger one" in told
    code, told, half = run("--max-hours", took_s / 3600)  # about as many again
    assert (code, len(half) < cells) == (1, True), told
    assert f"stopped at --max-hours: {len(half)} of {cells} cells are done" in told
    code, told, done = run()
    assert (code, len(done)) == (0, cells), told
    assert first.items() <= half.items() <= done.items(), "nothing is done again"
    assert left(cluster.address) == NOTHING
    cluster.kill(other)


def test_a_model_that_one_node_cannot_load_is_loaded_on_another(
    cluster: RayCluster, started: Start, short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    bad = cluster.add("A10G", XDG_CACHE_HOME="/proc/nowhere")  # the packaged model cannot be converted there
    naive = {"strategy": "naive", "backends": "huggingface", "max_batch_size": 2}
    model = {"name": "smollm2-135m", "dtype": "bfloat16"}  # which no GPU is there to choose
    config = short_sweep(model=model, arrival_rate=[1, 2], duration_s=4, strategies=[naive])
    code, _, told = started("sweep", config, "--address", cluster.address, "--results", results).end(400)
    assert code == 0, told
    store = whole(results, 2)
    assert bad.node_id not in {trial.setup["node"]["id"] for trial in store.trials()}
    assert "cannot be loaded on lane-" in told, "by a trial, or before them, when memory was measured"
    assert {(failure.cause, failure.permanent) for failure in store.failures()} <= {("load", False)}
    assert left(cluster.address) == NOTHING
    cluster.kill(bad)


def test_without_an_address_or_an_answer_there_nothing_is_started(
    started: Start, short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    config = short_sweep(accelerator="L4")
    code, _, told = started("sweep", config, "--results", tmp_path / "results").end()
    assert code == 2
    assert "accelerator: needs a cluster" in told
    for address, why in (
        ("127.0.0.1:1", "no Ray cluster answers at"),
        ("nonsense", "must be HOST:PORT"),
        ("", "got nothing"),
    ):
        command = ("sweep", config, "--address", address, "--results", tmp_path / "results")
        code, _, told = started(*command).end()
        assert code == 2
        assert why in told, told
        assert "Traceback" not in told
    assert not (tmp_path / "results").exists()


def test_a_sweep_whose_head_is_gone_ends_and_goes_on_with_another(
    started: Start, short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    config = short_sweep(arrival_rate=[6, 8, 10], duration_s=4, strategies=[NAIVE])
    earlier = RayCluster()
    earlier.add()
    driver = started("sweep", config, "--address", earlier.address, "--results", results)
    driver.wait_for(lambda: done(results) >= 1, deadline_s=300)
    earlier.shutdown()
    code, _, told = driver.end(120)
    assert code not in (0, 2), told
    assert "the same command goes on once that is there" in told
    later = RayCluster()
    try:
        later.add("L4", gpus=2)
        later.add("A10G")
        code, _, told = started("sweep", config, "--address", later.address, "--results", results).end(300)
        assert code == 0, told
        assert "keeping to A10G, on which its trials ran" in told
        assert {trial.setup["node"]["kind"] for trial in whole(results, 3).trials()} == {"A10G"}
        assert left(later.address) == NOTHING
    finally:
        later.shutdown()
