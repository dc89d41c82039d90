"""A simulation that is stopped while its processes work: nothing is lost, none is left behind, it goes on."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from results.store import Store
from tests.experiments.command_process import CommandProcess
from tests.experiments.descendants import descendants

pytestmark = pytest.mark.fault

CELLS = 48
Start = Callable[..., CommandProcess]


@pytest.fixture
def simulating(started: Start, written: Callable[..., Path], tmp_path: Path) -> Start:
    """Starts the same simulation, of a hundred thousand requests, and so in processes of its own."""
    config = written(tmp_path, arrival_rate=[40, 60], duration_s=60)
    arguments = ("simulate", config, "--results", tmp_path / "results", "--repeats", CELLS // 8)
    return lambda: started(*arguments)


def workers(driver: CommandProcess) -> list[psutil.Process]:
    return descendants(driver.process.pid, "spawn_main")


def finished(results: Path) -> dict[Path, bytes]:
    """Every file of the attempts that are done, with its content."""
    folders = [path.parent for path in results.glob("*/cells/*/*/done.json")]
    return {path: path.read_bytes() for folder in folders for path in folder.iterdir()}


def goes_on(simulating: Start, results: Path) -> str:
    """Run it to its end; what it told."""
    before = finished(results)
    code, _, told = simulating().end()
    assert code == 0, told
    assert before.items() <= finished(results).items()
    [root] = results.iterdir()
    store = Store(root)
    trials, requests = store.trials(), store.requests(columns=["request_id"])
    assert len(trials) == CELLS
    assert requests.num_rows == sum(trial.planned_requests for trial in trials)
    assert not store.problems
    return told


@pytest.mark.parametrize("when", ["its processes start", "a cell is done"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_loses_nothing_and_leaves_no_process(
    simulating: Start, tmp_path: Path, number: signal.Signals, when: str
):
    results = tmp_path / "results"
    driver = simulating()
    driver.wait_for(
        lambda: workers(driver) if when == "its processes start" else list(results.rglob("done.json"))
    )
    left = psutil.Process(driver.process.pid).children(recursive=True)
    assert left
    if number == signal.SIGINT:
        os.killpg(driver.process.pid, number)  # as a terminal does: to its processes too
    else:
        driver.process.send_signal(number)
    code, said, told = driver.end()
    assert (code, said) == (130, ""), told
    assert told.splitlines()[-1].startswith(
        "interrupted; nothing that was done is lost: `batchyard simulate "
    )
    assert "Traceback" not in told
    assert "Error" not in told
    assert not psutil.wait_procs(left, timeout=10)[1]
    assert len(list(results.rglob("done.json"))) < CELLS, "it was over before it was stopped"
    assert "lock" not in goes_on(simulating, results)


def test_a_process_that_is_killed_is_one_line_and_the_same_command_goes_on(simulating: Start, tmp_path: Path):
    results = tmp_path / "results"
    driver = simulating()
    driver.wait_for(lambda: list(results.rglob("done.json")))
    left = psutil.Process(driver.process.pid).children(recursive=True)
    workers(driver)[0].kill()
    code, said, told = driver.end()
    assert (code, said) == (1, "")
    [line] = [line for line in told.splitlines() if not line.startswith(("simulated ", "["))]
    assert line.startswith("error: a process that ran cells was killed, ")
    assert line.endswith("the same command goes on")
    assert not psutil.wait_procs(left, timeout=10)[1]
    goes_on(simulating, results)


def test_its_processes_end_with_it_when_it_is_killed(simulating: Start, tmp_path: Path):
    results = tmp_path / "results"
    driver = simulating()
    driver.wait_for(lambda: list(results.rglob("done.json")))
    left = psutil.Process(driver.process.pid).children(recursive=True)
    driver.process.kill()
    driver.end()
    assert not psutil.wait_procs(left, timeout=10)[1]
    assert "took over the lock" in goes_on(simulating, results)
