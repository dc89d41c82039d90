"""A simulation that is stopped while its processes work: nothing is lost, none is left behind, it goes on."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.experiments.command_process import CommandProcess
from tests.experiments.descendants import descendants
from tests.soak.invariants import account, counted

pytestmark = pytest.mark.fault

CELLS = 48
Start = Callable[..., CommandProcess]


@pytest.fixture
def simulating(started: Start, written: Callable[..., Path], tmp_path: Path) -> Start:
    """Starts the same simulation, of a hundred thousand requests, and so in processes of its own."""
    config = written(tmp_path, arrival_rate=[40, 60], duration_s=60)
    arguments = ("simulate", config, "--results", tmp_path / "results", "--repeats", CELLS // 8)
    return lambda: started(*arguments)


class Stopped:
    """One simulation, stopped again and again a few cells further on."""

    def __init__(self, simulating: Start, results: Path) -> None:
        self._simulating, self._results = simulating, results

    def done(self) -> int:
        return len(list(self._results.rglob("done.json")))

    def start(self, *, whole: bool = True) -> tuple[CommandProcess, list[psutil.Process]]:
        """A driver whose processes start, or (`whole`) have done one cell more; and those processes."""
        driver, before = self._simulating(), self.done()
        driver.wait_for(lambda: self.done() > before if whole else self.workers(driver))
        return driver, psutil.Process(driver.process.pid).children(recursive=True)

    def workers(self, driver: CommandProcess) -> list[psutil.Process]:
        return descendants(driver.process.pid, "spawn_main")

    def interrupt(self, number: signal.Signals, *, whole: bool) -> None:
        driver, left = self.start(whole=whole)
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
        assert "lock" not in told
        self.check(left)

    def check(self, left: list[psutil.Process]) -> None:
        assert not psutil.wait_procs(left, timeout=10)[1]
        assert self.done() < CELLS, "it was over before it was stopped"


def test_however_it_is_stopped_it_goes_on_and_leaves_no_process(simulating: Start, tmp_path: Path):
    results = tmp_path / "results"
    stopped = Stopped(simulating, results)
    for whole in (False, True):
        for number in (signal.SIGINT, signal.SIGTERM):
            stopped.interrupt(number, whole=whole)
    [root] = results.iterdir()
    before = counted(root)

    driver, left = stopped.start()
    stopped.workers(driver)[0].kill()
    code, said, told = driver.end()
    assert (code, said) == (1, "")
    assert "Traceback" not in told
    assert told.count("rror") == 1, told
    assert told.splitlines()[-1].startswith("error: a process that ran cells was killed, ")
    assert told.splitlines()[-1].endswith("the same command goes on")
    stopped.check(left)

    driver, left = stopped.start()
    driver.process.kill()
    driver.end()
    stopped.check(left)

    code, _, told = simulating().end()
    assert code == 0, told
    assert "took over the lock" in told
    assert before.items() <= counted(root).items()
    assert account(root, CELLS).cells == CELLS
