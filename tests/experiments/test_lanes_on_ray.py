"""One sweep on three lanes through all that can die under it: trials go on, each row is there once, why is told."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from results.store import Store
from tests.experiments.command_process import CommandProcess
from tests.soak.family import Family
from tests.soak.invariants import account, counted
from tests.soak.kills import Victims, replicas, trial_processes

pytestmark = [pytest.mark.ray, pytest.mark.fault]

CELLS, LANES = 15, 3
KILLED = {"engine-dead", "process-killed"}
STARTING = "BackendError"  # of a replica that was killed while it started
AWAY_S = 4.0
AGAIN_S = 10.0  # what a lane takes to notice that it has lost something, and to measure again


class Faults:
    """The sweep's folder, as what dies in it is seen there."""

    def __init__(self, results: Path) -> None:
        self._results = results

    @property
    def root(self) -> Path:
        [root] = self._results.iterdir()
        return root

    def measuring(self) -> int:
        """Attempts that have written rows and have not ended: their trials are in the middle."""
        folders = {path.parent for path in self._results.glob("*/cells/*/*/requests-*.parquet")}
        ends = ("done.json", "failed.json")
        return sum(not any((folder / name).exists() for name in ends) for folder in folders)

    def causes(self) -> set[str]:
        return {failure.cause for failure in Store(self.root).failures()}

    def kill(self, driver: CommandProcess, victims: Victims, cause: str) -> None:
        """One after the other until one of them was in the middle of a trial, which says so."""
        killed_s = 0.0

        def hit() -> bool:
            nonlocal killed_s
            if time.monotonic() - killed_s > AGAIN_S and self.measuring():
                with suppress(psutil.NoSuchProcess):
                    victims(driver.process.pid)[0].kill()
                killed_s = time.monotonic()
            return cause in self.causes()

        driver.wait_for(hit)


def test_a_sweep_on_lanes_loses_nothing_to_what_dies_in_it(
    started: Callable[..., CommandProcess], short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    naive = {"strategy": "naive", "backends": "simulated", "max_batch_size": 2}
    rates = [6 + 0.5 * number for number in range(CELLS)]
    config = short_sweep(arrival_rate=rates, duration_s=8, strategies=[naive])
    results = tmp_path / "results"
    faults = Faults(results)

    def sweep() -> CommandProcess:
        return started("sweep", config, "--lanes", LANES, "--results", results)

    driver = sweep()
    pid = driver.process.pid
    with Family(pid) as first:
        driver.wait_for(lambda: faults.measuring() >= LANES, deadline_s=400)
        faults.kill(driver, replicas, "engine-dead")
        faults.kill(driver, trial_processes, "process-killed")

        code, _, told = sweep().end()
        assert code == 2, "a second driver is refused"
        assert str(pid) in told

        driver.wait_for(lambda: faults.measuring() >= 1)
        root = faults.root
        away = root.rename(tmp_path / "away")
        time.sleep(AWAY_S)  # as long as the folder is to be away
        assert not root.exists(), "nothing is made in its place"
        away.rename(root)
        driver.wait_for(lambda: len(Store(root).done_cells()) >= LANES)
        assert driver.process.poll() is None
        before = counted(root)
        os.kill(pid, signal.SIGKILL)
        _, _, told = driver.end()
    assert faults.causes() - {STARTING} == KILLED, "nothing failed for the folder's sake"

    driver = sweep()
    with Family(driver.process.pid) as second:
        driver.wait_for(lambda: len(Store(root).done_cells()) == CELLS, deadline_s=400)
        assert len(replicas(driver.process.pid)) <= LANES, "no lane has left one behind"
        code, _, told = driver.end()
    assert code == 0, told
    assert "took over the lock" in told
    assert before.items() <= counted(root).items()
    found = account(root, CELLS)
    assert found.failed.keys() - {STARTING} == KILLED
    trials = Store(root).trials()
    assert {trial.lane for trial in trials} == {"lane-0", "lane-1", "lane-2"}
    assert all(
        len({one.lane for one in trials if one.incarnation == trial.incarnation}) == 1 for trial in trials
    )
    page = (root / "report.html").read_text()
    assert "engine-dead" in page
    assert "process-killed" in page
    assert not first.left()
    assert not second.left()
