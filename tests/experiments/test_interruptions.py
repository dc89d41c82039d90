"""Ctrl-C, SIGKILL and a second driver: the same command goes on, and no row is lost or doubled."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from results.store import Store

pytestmark = [pytest.mark.ray, pytest.mark.fault]

START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & would have it ignored
import sys
from experiments.cli import main
sys.argv[0] = "batchyard"
main()
"""


class Driver:
    """`batchyard sweep` in a process of its own."""

    def __init__(self, config: Path, results: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, "sweep", str(config), "--results", str(results), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for(self, happened: Callable[[], bool], deadline_s: float = 120) -> None:
        end_s = time.monotonic() + deadline_s
        while not happened():
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < end_s, "it did not happen in time"
            time.sleep(0.05)  # a poll of another process: there is nothing to wait on

    def end(self, deadline_s: float = 180) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=deadline_s)
        return self.process.returncode, output


@pytest.fixture
def config(config_values: Callable[..., dict[str, Any]], tmp_path: Path) -> Path:
    """Six short cells on the simulated backend."""
    values = config_values(
        model=...,
        workload={
            "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": 8}},
            "output_tokens": {"distribution": "fixed", "tokens": 4},
        },
        arrival_rate=[10, 20, 30],
        duration_s=3,
        repeats=1,
        strategies=[
            {"strategy": "naive", "backends": "simulated", "max_batch_size": 2},
            {"strategy": "dynamic", "backends": "simulated", "max_batch_size": 2, "max_wait_ms": 20},
        ],
    )
    path = tmp_path / "made.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.fixture
def started(tmp_path: Path, config: Path) -> Iterator[Callable[..., Driver]]:
    """Starts drivers; those that still live are ended with the test."""
    drivers: list[Driver] = []

    def start(*arguments: str) -> Driver:
        drivers.append(Driver(config, tmp_path / "results", *arguments))
        return drivers[-1]

    yield start
    for driver in drivers:
        if driver.process.poll() is None:
            driver.process.kill()
            driver.process.communicate()


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_who_is_impatient_ends_it_as_cleanly(
    started: Callable[..., Driver], tmp_path: Path, first: signal.Signals
) -> None:
    driver = started()
    driver.wait_for(lambda: bool(list((tmp_path / "results").glob("*/cells/*"))))
    driver.process.send_signal(first)
    end_s = time.monotonic() + 60
    while driver.process.poll() is None and time.monotonic() < end_s:
        driver.process.send_signal(signal.SIGINT)
        time.sleep(0.02)  # as fast as nobody can press, for as long as it takes
    code, output = driver.end()
    assert code == 130, output
    assert "Traceback" not in output
    assert "Exception" not in output
    assert output.splitlines()[-1].endswith("goes on")


def finished(results: Path) -> dict[str, bytes]:
    """Every file of the attempts that are done, with its content."""
    folders = [path.parent for path in results.glob("*/cells/*/*/done.json")]
    return {str(path): path.read_bytes() for folder in folders for path in folder.iterdir()}


def test_ctrl_c_and_sigkill_lose_nothing(started: Callable[..., Driver], tmp_path: Path) -> None:
    results = tmp_path / "results"

    first = started()
    first.wait_for(lambda: len(list(results.glob("*/cells/*/*/done.json"))) >= 1)
    first.process.send_signal(signal.SIGINT)
    code, output = first.end()
    assert code == 130, output
    assert "goes on" in output
    assert "Traceback" not in output
    after_interrupt = finished(results)

    second = started()
    second.wait_for(lambda: len(list(results.glob("*/cells/*/*/done.json"))) >= 3)
    refused_code, refused = started().end()
    assert refused_code == 2
    assert str(second.process.pid) in refused, "it is told of the first driver"
    os.kill(second.process.pid, signal.SIGKILL)
    second.end()
    after_kill = finished(results)

    code, output = started().end()
    assert code == 0, output
    assert "lock" in output, "the dead driver's lock is recognised"
    at_the_end = finished(results)
    assert after_interrupt.items() <= after_kill.items() <= at_the_end.items()

    [root] = results.iterdir()
    store = Store(root)
    trials, requests = store.trials(), store.requests()
    assert len(trials) == 6
    assert requests.num_rows == sum(trial.planned_requests for trial in trials)
    assert len(set(requests["request_id"].to_pylist())) == requests.num_rows

    code, output = started().end()
    assert code == 0
    assert "complete" in output
    assert finished(results) == at_the_end

    code, output = started("--fresh").end()
    assert code == 0, output
    assert len(list(results.iterdir())) == 2, "the earlier run is kept beside the new one"
