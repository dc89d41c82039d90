"""A sweep is looked at from another process while it runs, after it was killed, and when it is complete."""

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from results.store import Store
from tests.experiments.command_process import CommandProcess

pytestmark = [pytest.mark.ray, pytest.mark.fault]

CLUTTER = re.compile("ERROR|WARNING|Traceback|ray.serve|LongPoll")  # a line that is not ours


def test_it_is_seen_as_it_goes_and_its_findings_are_one_document(
    started: Callable[..., CommandProcess],
    batchyard: Callable[..., Result],
    short_sweep: Callable[..., Path],
    tmp_path: Path,
):
    naive = {"strategy": "naive", "backends": "simulated", "max_batch_size": 2}
    config = short_sweep(arrival_rate="auto", duration_s=2, isolate=True, strategies=[naive])
    results = tmp_path / "results"
    arguments = ("sweep", config, "--results", results, "--json")

    def look(*command: object) -> Any:
        result = batchyard(*command, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    driver = started(*arguments)

    def stands() -> Any:
        return look("ls", "--results", results) if results.is_dir() else []

    driver.wait_for(lambda: any(one["done_cells"] for one in stands()))
    (seen,) = stands()
    assert (seen["state"], seen["driver"]["pid"]) == ("running", driver.process.pid)
    assert seen["planned_cells"] == 3
    assert seen["last_row_at"] is not None
    root = Path(seen["folder"])
    assert look("status", root)["state"] == "running"
    assert look("sweep", config, "--results", results, "--dry-run")["running"] is True

    os.kill(driver.process.pid, signal.SIGKILL)
    _, _, told = driver.end()
    assert "arrival rates: " in told
    assert not CLUTTER.search(told), told
    killed = look("status", root)
    assert (killed["state"], killed["driver"]["alive"]) == ("stopped", False)
    assert killed["left_cells"] == 3 - killed["done_cells"]
    assert killed["go_on"] == f"batchyard resume {root}"

    driver = started("resume", root, "--json")
    code, said, told = driver.end()
    assert code == 0, told
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
