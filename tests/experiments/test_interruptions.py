"""Ctrl-C and a polite end, also of who is impatient: the same command goes on, and no row is lost or doubled."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.experiments.command_process import CommandProcess
from tests.soak.invariants import account, counted

pytestmark = [pytest.mark.ray, pytest.mark.fault]

CELLS = 6


def end_impatiently(driver: CommandProcess, first: signal.Signals) -> None:
    """Ends a driver by one signal and then Ctrl-C after Ctrl-C; it must end in the clean way."""
    driver.process.send_signal(first)
    end_s = time.monotonic() + 60
    while driver.process.poll() is None and time.monotonic() < end_s:
        driver.process.send_signal(signal.SIGINT)
        time.sleep(0.02)  # as fast as nobody can press, for as long as it takes
    code, _, told = driver.end()
    assert code == 130, told
    assert "Traceback" not in told
    assert "Exception" not in told
    assert told.splitlines()[-1].endswith("goes on")


def test_interruptions_lose_nothing(
    started: Callable[..., CommandProcess], short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    config, results = short_sweep(arrival_rate=[10, 20, 30]), tmp_path / "results"

    def sweeping(*options: str) -> CommandProcess:
        return started("sweep", config, "--results", results, *options)

    def done() -> int:
        return len(list(results.glob("*/cells/*/*/done.json")))

    driver = sweeping()
    driver.wait_for(lambda: list(results.glob("*/cells/*")))
    end_impatiently(driver, signal.SIGTERM)
    before = done()
    driver = sweeping()
    driver.wait_for(lambda: done() > before)
    end_impatiently(driver, signal.SIGINT)
    [root] = results.iterdir()
    before_the_last = counted(root)

    code, _, told = sweeping().end()
    assert code == 0, told
    assert "going on: " in told
    at_the_end = counted(root)
    assert before_the_last.items() <= at_the_end.items()
    assert account(root, CELLS).failed == {}

    code, output, _ = sweeping().end()
    assert code == 0
    assert "complete" in output
    assert counted(root) == at_the_end

    driver = sweeping("--fresh")
    driver.wait_for(lambda: len(list(results.iterdir())) == 2 and list(root.glob("cells/*")))
    driver.kill()
    [aside] = [folder for folder in results.iterdir() if folder != root]
    assert counted(aside) == at_the_end, "the earlier run is kept beside the new one"
