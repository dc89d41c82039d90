"""How a sweep stands: running, complete, stopped, killed while the rates were measured, damaged."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from results.errors import StoreError
from results.lock import SweepLock, driver
from results.standing import standing, standings
from results.store import Store


@pytest.fixture
def sweep(made_sweep: ModuleType, tmp_path: Path) -> Path:
    made_sweep.make_sweep(tmp_path / "made", repeats=1, requests=4)
    return tmp_path / "made"


def plan(folder: Path, cells: int) -> None:
    info = json.loads((folder / "sweep.json").read_text())
    (folder / "sweep.json").write_text(json.dumps(info | {"planned_cells": cells}))


def killed_driver(folder: Path) -> int:
    """A lock as a driver leaves it that was killed; its process id."""
    code = (
        "import os, sys; from results.lock import SweepLock; SweepLock(sys.argv[1]).__enter__(); os._exit(1)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], cwd=Path(__file__).parents[2])
    process.wait()
    return process.pid


def test_a_complete_sweep(sweep: Path):
    stands = standing(sweep)
    assert stands.state == "complete"
    assert stands.name == "made"
    assert len(stands.done) == stands.planned == 21
    assert (stands.failed, stands.failed_attempts) == ({}, 1), "its second try succeeded"
    assert (stands.driver, stands.page, stands.problems) == (None, None, ())
    last_row_at = datetime.fromisoformat(stands.last_row_at)
    newest = max(path.stat().st_mtime for path in sweep.rglob("*.parquet"))
    assert last_row_at == datetime.fromtimestamp(int(newest), UTC)


def test_its_page(sweep: Path):
    (sweep / "report.html").write_text("a page")
    assert standing(sweep).page == sweep / "report.html"


def test_a_sweep_of_which_a_part_is_left(sweep: Path):
    plan(sweep, 22)
    assert standing(sweep).state == "stopped"


def test_a_sweep_that_runs(sweep: Path):
    plan(sweep, 22)
    with SweepLock(sweep):
        stands = standing(sweep)
        assert stands.state == "running"
        assert stands.driver.alive
        assert stands.driver == driver(sweep)
    assert standing(sweep).state == "stopped"


def test_a_sweep_whose_driver_was_killed(sweep: Path):
    plan(sweep, 22)
    pid = killed_driver(sweep)
    stands = standing(sweep)
    assert stands.state == "stopped"
    assert (stands.driver.pid, stands.driver.alive) == (pid, False)


def test_a_driver_on_another_host_may_live(sweep: Path):
    plan(sweep, 22)
    holder = {"pid": 1, "host": "elsewhere", "since": "2026-11-01T10:00:00+00:00", "process_started": "x"}
    (sweep / "driver.lock").write_text(json.dumps(holder))
    stands = standing(sweep)
    assert stands.state == "elsewhere"
    assert stands.driver.host == "elsewhere"
    assert stands.driver.alive is None


def test_a_lock_that_names_nobody_is_no_driver(sweep: Path):
    (sweep / "driver.lock").write_text("{")
    assert driver(sweep) is None
    assert standing(sweep).state == "complete"


def test_a_sweep_that_is_measuring_its_rates(tmp_path: Path):
    folder = tmp_path / "begun"
    with SweepLock(folder):
        stands = standing(folder)
        assert (stands.state, stands.planned, stands.begun_at, stands.last_row_at) == (
            "running",
            None,
            None,
            None,
        )
    with pytest.raises(StoreError, match=r"does not exist"):
        standing(folder)


def test_a_cell_whose_tries_ran_out(sweep: Path):
    done = sweep / "cells" / "cell-000" / "attempt-2" / "done.json"
    done.unlink()
    stands = standing(sweep)
    assert stands.state == "stopped"
    assert stands.failed["cell-000"].error == "the engine is gone"


def test_a_results_folder_with_all_kinds_in_it(sweep: Path):
    (sweep.parent / "broken").mkdir()
    (sweep.parent / "broken" / "sweep.json").write_text("{")
    (sweep.parent / "no-sweep").mkdir()
    (sweep.parent / "a-file").write_text("")
    broken, made = standings(sweep.parent)
    assert (broken.name, broken.state) == ("broken", "unreadable")
    assert "sweep.json must be JSON" in broken.problems[0]
    assert made.state == "complete"


def test_a_damaged_part_is_named_and_its_cell_left(sweep: Path):
    next(iter(sorted(sweep.rglob("requests-00001.parquet")))).unlink()
    stands = standing(sweep)
    assert stands.state == "stopped"
    assert len(stands.done) == 20
    assert len(stands.problems) == 1


def test_looking_changes_nothing(sweep: Path):
    before = {path: path.stat().st_mtime_ns for path in sweep.rglob("*")}
    standing(sweep)
    list(standings(sweep.parent))
    assert {path: path.stat().st_mtime_ns for path in sweep.rglob("*")} == before
    assert Store(sweep).read_sweep() is not None
