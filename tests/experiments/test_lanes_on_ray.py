"""Several lanes on one machine: trials at the same time, each alone in its lane, also after a lane was lost."""

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from results.store import Store
from tests.experiments.command_process import CommandProcess
from tests.experiments.descendants import descendants

pytestmark = [pytest.mark.ray, pytest.mark.fault]


def replicas(pid: int) -> list[psutil.Process]:
    """Of a driver; they call themselves otherwise while they work."""
    return [*descendants(pid, "ServeReplica"), *descendants(pid, "SERVE_REPLICA")]


def test_lanes_measure_side_by_side_and_go_on_when_one_is_lost(
    started: Callable[..., CommandProcess], short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    naive = {"strategy": "naive", "backends": "simulated", "max_batch_size": 2}
    config = short_sweep(arrival_rate=[6, 8, 10, 12, 14, 16, 18, 20, 22], duration_s=4, strategies=[naive])
    results = tmp_path / "results"
    driver = started("sweep", config, "--lanes", 3, "--results", results)
    driver.wait_for(lambda: len(list(results.glob("*/cells/*/*/requests-*.parquet"))) >= 3, deadline_s=400)
    replicas(driver.process.pid)[0].kill()
    code, _, told = driver.end()
    assert code == 0, told
    [root] = results.iterdir()
    store = Store(root)
    trials = store.trials()
    assert len(trials) == 9
    assert {trial.lane for trial in trials} == {"lane-0", "lane-1", "lane-2"}
    assert all(
        len({one.lane for one in trials if one.incarnation == trial.incarnation}) == 1 for trial in trials
    )
    assert len({trial.incarnation for trial in trials}) <= 4, "three, and the one that was lost"
    assert len(store.failures()) <= 1, "none if it was killed between two trials"
    requests = store.requests(columns=["request_id"])["request_id"].to_pylist()
    assert len(set(requests)) == len(requests) == sum(trial.planned_requests for trial in trials)
    assert os.path.isfile(root / "report.html")
