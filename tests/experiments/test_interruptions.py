"""Ctrl-C, SIGKILL and a second driver: the same command goes on, and no row is lost or doubled."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from results.store import Store
from tests.experiments.command_process import CommandProcess

pytestmark = [pytest.mark.ray, pytest.mark.fault]

Start = Callable[..., CommandProcess]


@pytest.fixture
def sweeping(started: Start, short_sweep: Callable[..., Path], tmp_path: Path) -> Start:
    """Starts drivers, always of the same sweep of six cells."""
    config = short_sweep(arrival_rate=[10, 20, 30])
    return lambda *options: started("sweep", config, "--results", tmp_path / "results", *options)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_who_is_impatient_ends_it_as_cleanly(sweeping: Start, tmp_path: Path, first: signal.Signals) -> None:
    driver = sweeping()
    driver.wait_for(lambda: bool(list((tmp_path / "results").glob("*/cells/*"))))
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


def finished(results: Path) -> dict[str, bytes]:
    """Every file of the attempts that are done, with its content."""
    folders = [path.parent for path in results.glob("*/cells/*/*/done.json")]
    return {str(path): path.read_bytes() for folder in folders for path in folder.iterdir()}


def test_ctrl_c_and_sigkill_lose_nothing(sweeping: Start, tmp_path: Path) -> None:
    results = tmp_path / "results"

    first = sweeping()
    first.wait_for(lambda: len(list(results.glob("*/cells/*/*/done.json"))) >= 1)
    first.process.send_signal(signal.SIGINT)
    code, _, told = first.end()
    assert code == 130, told
    assert "goes on" in told
    assert "Traceback" not in told
    after_interrupt = finished(results)

    second = sweeping()
    second.wait_for(lambda: len(list(results.glob("*/cells/*/*/done.json"))) >= 3)
    refused_code, _, refused = sweeping().end()
    assert refused_code == 2
    assert str(second.process.pid) in refused, "it is told of the first driver"
    os.kill(second.process.pid, signal.SIGKILL)
    second.end()
    after_kill = finished(results)

    code, _, told = sweeping().end()
    assert code == 0, told
    assert "lock" in told, "the dead driver's lock is recognised"
    at_the_end = finished(results)
    assert after_interrupt.items() <= after_kill.items() <= at_the_end.items()

    [root] = results.iterdir()
    store = Store(root)
    trials, requests = store.trials(), store.requests()
    assert len(trials) == 6
    assert requests.num_rows == sum(trial.planned_requests for trial in trials)
    assert len(set(requests["request_id"].to_pylist())) == requests.num_rows

    code, output, _ = sweeping().end()
    assert code == 0
    assert "complete" in output
    assert finished(results) == at_the_end

    code, _, told = sweeping("--fresh").end()
    assert code == 0, told
    assert len(list(results.iterdir())) == 2, "the earlier run is kept beside the new one"
