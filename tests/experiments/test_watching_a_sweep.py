"""A sweep is looked at from another process while it runs, after it was killed, and when it is complete."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from results.store import Store

pytestmark = [pytest.mark.ray, pytest.mark.fault]

CLUTTER = re.compile("ERROR|WARNING|Traceback|ray.serve|LongPoll")  # a line that is not ours
ROOT = Path(__file__).parents[2]
START = "import sys; sys.argv[0] = 'batchyard'; from experiments.cli import main; main()"


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `batchyard` in a process of its own; what still lives is ended with the test."""
    drivers: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", START, *map(str, arguments)]
        driver = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        drivers.append(driver)
        return driver

    yield start
    for driver in drivers:
        if driver.poll() is None:
            driver.kill()
        driver.communicate()


@pytest.fixture
def config(config_values: Callable[..., dict[str, Any]], tmp_path: Path) -> Path:
    """Three short cells on the simulated backend, each on a replica of its own, at rates that are measured."""
    values = config_values(
        model=...,
        workload={
            "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": 8}},
            "output_tokens": {"distribution": "fixed", "tokens": 4},
        },
        arrival_rate="auto",
        duration_s=2,
        repeats=1,
        isolate=True,
        strategies=[{"strategy": "naive", "backends": "simulated", "max_batch_size": 2}],
    )
    path = tmp_path / "made.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def test_it_is_seen_as_it_goes_and_its_findings_are_one_document(
    started: Callable[..., subprocess.Popen[str]],
    batchyard: Callable[..., Result],
    config: Path,
    tmp_path: Path,
):
    results = tmp_path / "results"
    arguments = ("sweep", config, "--results", results, "--json")

    def look(*command: object) -> Any:
        result = batchyard(*command, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    driver = started(*arguments)
    end_s = time.monotonic() + 120
    stands: list[Any] = []
    while not stands or not stands[0]["done_cells"]:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < end_s, "no cell was done in time"
        time.sleep(0.1)  # a poll of another process: there is nothing to wait on
        stands = look("ls", "--results", results) if results.is_dir() else []
    (seen,) = stands
    assert (seen["state"], seen["driver"]["pid"]) == ("running", driver.pid)
    assert seen["planned_cells"] == 3
    assert seen["last_row_at"] is not None
    root = Path(seen["folder"])
    assert look("status", root)["state"] == "running"
    assert look("sweep", config, "--results", results, "--dry-run")["running"] is True

    os.kill(driver.pid, signal.SIGKILL)
    _, told = driver.communicate()
    assert "arrival rates: " in told
    assert not CLUTTER.search(told), told
    killed = look("status", root)
    assert (killed["state"], killed["driver"]["alive"]) == ("stopped", False)
    assert killed["left_cells"] == 3 - killed["done_cells"]
    assert killed["go_on"] == f"batchyard resume {root}"

    driver = started("resume", root, "--json")
    said, told = driver.communicate(timeout=300)
    assert driver.returncode == 0, told
    findings = json.loads(said)
    assert (findings["complete"], findings["done_cells"]) == (True, 3)
    assert len({cell["rate"] for cell in findings["cells"]}) == 3
    assert all(cell["throughput_tokens_per_s"] > 0 for cell in findings["cells"])
    assert Path(findings["page"]).is_file()
    assert "going on" in told, "what goes on is told beside the document"
    assert not CLUTTER.search(told), told

    complete = look("status", root)
    assert (complete["state"], complete["go_on"]) == ("complete", None)
    assert {cell["state"] for cell in complete["cells"]} == {"done"}
    assert look("report", root) == findings

    path = tmp_path / "rows.csv"
    assert batchyard("export", root, "--csv", path).exit_code == 0
    assert len(path.read_text().splitlines()) == 1 + Store(root).requests().num_rows
