"""`batchyard ls` and `batchyard status`, of sweeps that run, were stopped or killed, or cannot be read."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from experiments.config import SweepConfig
from results.earlier_run import move_aside
from results.fetched import write_mark
from results.lock import SweepLock

ROOT = Path(__file__).parents[2]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder."""
    return tmp_path / "results"


@pytest.fixture
def stopped(made_config: Callable[..., SweepConfig], begun_sweep: Callable[..., Path], results: Path) -> Path:
    """A sweep of 28 cells: 3 done, 2 failed."""
    return begun_sweep(made_config(), results, done=3, failed=2)


def document(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_sweeps_are_listed(batchyard: Callable[..., Result], results: Path, stopped: Path):
    (stopped / "report.html").write_text("a page")
    result = batchyard("ls", "--results", results)
    assert result.exit_code == 0, result.output
    head, line = result.stdout.splitlines()
    assert head.split("  ")[0] == "sweep"
    assert line == f"{stopped.name}  2026-11-01 10:00  3 of 28     2       stopped  {stopped / 'report.html'}"


def test_sweeps_are_listed_for_a_script(batchyard: Callable[..., Result], results: Path, stopped: Path):
    with SweepLock(stopped):
        (listed,) = document(batchyard("ls", "--results", results, "--json"))
        assert listed["driver"]["pid"] == os.getpid()
    last_row_at = listed.pop("last_row_at")
    assert last_row_at.startswith("20")
    assert listed.pop("driver")["alive"] is True
    assert listed == {
        "name": stopped.name,
        "folder": str(stopped),
        "state": "running",
        "simulated": False,
        "begun_at": "2026-11-01T10:00:00+00:00",
        "planned_cells": 28,
        "done_cells": 3,
        "failed_cells": 2,
        "failed_attempts": 2,
        "page": None,
        "problems": [],
    }


def test_a_running_sweep_is_listed_with_its_process(
    batchyard: Callable[..., Result], results: Path, stopped: Path
):
    with SweepLock(stopped):
        assert f"running (process {os.getpid()})" in batchyard("ls", "--results", results).stdout


def test_no_sweeps_yet(batchyard: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    result = batchyard("ls")
    assert (result.exit_code, result.stdout) == (
        0,
        "No sweeps in results/data; `batchyard sweep CONFIG` begins one.\n",
    )
    assert document(batchyard("ls", "--json")) == []
    assert list(tmp_path.iterdir()) == []


def test_a_results_folder_that_is_not_there(batchyard: Callable[..., Result], tmp_path: Path):
    result = batchyard("ls", "--results", tmp_path / "none")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: --results must be a folder that exists, got {tmp_path / 'none'}\n"


def test_a_sweep_that_cannot_be_read_is_named_and_hides_no_other(
    batchyard: Callable[..., Result], results: Path, stopped: Path
):
    (results / "broken").mkdir()
    (results / "broken" / "sweep.json").write_text("{")
    result = batchyard("ls", "--results", results)
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["broken", stopped.name]
    assert result.stderr.startswith("warning: broken: ")
    (broken, _) = document(batchyard("ls", "--results", results, "--json"))
    assert broken["state"] == "unreadable"


def test_status_of_a_stopped_sweep(batchyard: Callable[..., Result], stopped: Path):
    result = batchyard("status", stopped)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        f"{stopped.name}: stopped",
        "cells: 3 of 28 done, 2 failed, 23 left; attempts that failed: 2",
        "rates: 1, 4 requests/s",
    ]
    assert lines[3].split() == ["backend", "strategy", "1/s", "4/s"]
    assert lines[4].split() == ["huggingface", "naive", "·", "4", "2/2", "1/2"]
    failed = [line for line in lines if line.startswith("failed: ")]
    assert "cells done in lanes: lane-huggingface 3" not in lines, "of one there is nothing to say"
    assert failed[0] == "failed: huggingface  naive · 4  4 req/s  repeat 2: engine-dead: the engine is gone"
    assert len(failed) == 2
    assert lines[-1] == f"go on: batchyard resume {stopped}"


def test_a_copy_is_gone_on_with_where_it_was_measured(batchyard: Callable[..., Result], stopped: Path):
    write_mark(stopped, "the-job")
    shown = batchyard("status", stopped).stdout.splitlines()
    assert "fetched: from the-job, as it stood then" in shown
    assert shown[-1] == "go on: batchyard submit CONFIG"
    assert "stopped, fetched" in batchyard("ls", "--results", stopped.parent).stdout


def test_status_for_a_script(batchyard: Callable[..., Result], stopped: Path):
    stands = document(batchyard("status", stopped, "--json"))
    assert (stands["state"], stands["done_cells"], stands["left_cells"]) == ("stopped", 3, 23)
    assert [cell["state"] for cell in stands["cells"]] == ["done"] * 3 + ["failed"] * 2 + ["left"] * 23
    assert [failure["cause"] for failure in stands["failed"]] == ["engine-dead"] * 2
    assert (stands["rates"], stands["durations_s"]) == ([1, 4], [20, 20])
    assert stands["go_on"] == f"batchyard resume {stopped}"


def test_what_a_sweep_has_cost_and_will_by_the_price_in_its_config(
    batchyard: Callable[..., Result],
    made_config: Callable[..., SweepConfig],
    begun_sweep: Callable[..., Path],
    results: Path,
):
    config = made_config(price_per_gpu_hour=3600, currency="EUR")
    folder = begun_sweep(config, results, done=3, failed=2)
    (folder / "cells" / "killed" / "attempt-1").mkdir(parents=True)
    cost = document(batchyard("status", folder, "--json"))["cost"]
    assert (cost["spent"], cost["currency"]) == (3 * 9.0 + 2 * 3.0, "EUR")
    assert cost["gpu_hours"] == pytest.approx(33 / 3600)
    assert (cost["attempts"], cost["attempts_without_record"], cost["per_trial"]) == (5, 1, 33 / 5)
    assert cost["left"] > 25 * 7, "each of the cells that are left is held for longer than its twin's trial"
    (line,) = [one for one in batchyard("status", folder).stdout.splitlines() if one.startswith("cost: ")]
    assert line.startswith("cost: at least 33.00 EUR spent (6.60 EUR a trial), about ")
    assert line.endswith("attempts that run or were killed until the last that they wrote: 1")
    assert document(batchyard("status", begun_sweep(made_config(seed=9), results), "--json"))["cost"] is None


def test_a_sweep_under_another_name_is_told_of_because_nothing_goes_on_with_it(
    batchyard: Callable[..., Result], results: Path, stopped: Path
):
    own, renamed = stopped.name, stopped.rename(results / "mine")
    said = f"its folder must be named {own}, got mine: by this name neither sweep nor resume finds it"
    assert batchyard("ls", "--results", results).stderr == f"warning: mine: {said}\n"
    result = batchyard("status", renamed)
    assert (result.exit_code, result.stderr) == (0, f"warning: {said}\n")
    assert "go on: " not in result.stdout
    for command in (("ls", "--results", results), ("status", renamed)):
        seen = document(batchyard(*command, "--json"))
        assert (seen if isinstance(seen, dict) else seen[0])["problems"] == [said]
    refused = batchyard("resume", renamed)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"must be named {own}" in refused.stderr


def test_an_earlier_run_beside_a_new_one_is_told_of_by_its_name_alone(
    batchyard: Callable[..., Result], results: Path, stopped: Path
):
    move_aside(stopped, print)
    result = batchyard("ls", "--results", results)
    assert f"{stopped.name}-until-" in result.stdout
    assert result.stderr == ""


def test_status_while_it_runs(batchyard: Callable[..., Result], stopped: Path):
    with SweepLock(stopped):
        shown = batchyard("status", stopped).stdout
        assert shown.startswith(f"{stopped.name}: running (process {os.getpid()})\n")
        assert "go on: " not in shown
        assert document(batchyard("status", stopped, "--json"))["go_on"] is None


def test_status_of_a_sweep_whose_driver_was_killed(batchyard: Callable[..., Result], stopped: Path):
    code = (
        "import os, sys; from results.lock import SweepLock; SweepLock(sys.argv[1]).__enter__(); os._exit(1)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(stopped)], cwd=ROOT) as killed:
        killed.wait()
    shown = batchyard("status", stopped).stdout
    assert f"driver: process {killed.pid} on " in shown
    assert ", has ended\n" in shown
    assert f"go on: batchyard resume {stopped}\n" in shown


def test_status_while_the_engines_are_timed(batchyard: Callable[..., Result], results: Path):
    with SweepLock(results / "made-0"):
        result = batchyard("status", results / "made-0")
        assert result.exit_code == 0, result.output
        assert "cells: not known yet, its engines are timed first" in result.stdout
        assert document(batchyard("status", results / "made-0", "--json"))["planned_cells"] is None


def test_status_of_a_complete_sweep(
    batchyard: Callable[..., Result],
    made_config: Callable[..., SweepConfig],
    begun_sweep: Callable[..., Path],
    results: Path,
):
    root = begun_sweep(made_config(repeats=1), results, done=14)
    shown = batchyard("status", root).stdout
    assert shown.startswith(f"{root.name}: complete\n")
    assert "\ncells done in lanes: lane-huggingface 2, lane-vllm 12\n" in shown
    assert document(batchyard("status", root, "--json"))["lanes"] == {"lane-huggingface": 2, "lane-vllm": 12}
    assert "go on: " not in shown


def test_a_sweep_set_aside_by_fresh_cannot_be_gone_on_with(batchyard: Callable[..., Result], stopped: Path):
    aside = stopped.rename(stopped.with_name(f"{stopped.name}-until-20261101T100000Z"))
    stands = document(batchyard("status", aside, "--json"))
    assert (stands["state"], stands["go_on"]) == ("stopped", None)


def test_cells_that_another_version_made_are_only_counted(batchyard: Callable[..., Result], stopped: Path):
    info = json.loads((stopped / "sweep.json").read_text())
    (stopped / "sweep.json").write_text(json.dumps(info | {"cells_hash": "0" * 16}))
    result = batchyard("status", stopped)
    assert result.exit_code == 0, result.output
    assert "cells: 3 of 28 done, 2 failed, 23 left" in result.stdout
    assert result.stderr.startswith("warning: its cells are only counted: ")
    assert "the cells of this config are not those that the sweep began with" in result.stderr


def test_status_of_a_folder_that_is_no_sweep(batchyard: Callable[..., Result], tmp_path: Path):
    result = batchyard("status", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {tmp_path}: holds no sweep.json")


def test_looking_changes_nothing(batchyard: Callable[..., Result], results: Path, stopped: Path):
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*")}
    for command in (("ls", "--results", results), ("status", stopped), ("status", stopped, "--json")):
        assert batchyard(*command).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in results.rglob("*")} == before
