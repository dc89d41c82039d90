"""A disk that fills up while a sweep runs: the trial fails by its name, what was done stays, and it goes on."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.config import SweepConfig
from experiments.sweep import run_sweep
from experiments.sweep_record import sweep_root
from results.errors import DiskFull
from results.store import Store
from tests.experiments.test_sweep_on_ray import once

pytestmark = [pytest.mark.ray, pytest.mark.fault, pytest.mark.filterwarnings("ignore")]

LEFT_BYTES = 8192  # room for a folder and a document, not for rows


def fill(folder: Path) -> None:
    space = os.statvfs(folder)
    (folder / "filler").write_bytes(bytes(space.f_bavail * space.f_frsize - LEFT_BYTES))


def test_the_trial_fails_earlier_ones_stay_and_the_same_command_goes_on(
    made_config: Callable[..., SweepConfig],
    random_prompts: dict[str, Any],
    small_disk: Callable[[int], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    disk = small_disk(24 * 1024)
    config = made_config(
        model=...,
        workload=random_prompts,
        strategies=[{"strategy": "dynamic", "backends": "simulated", "max_batch_size": 4, "max_wait_ms": 20}],
        arrival_rate=[20, 21, 22],
        duration_s=4,
        repeats=1,
    )
    root = sweep_root(config, disk)
    said: list[str] = []
    with (
        once(lambda: any(Path(root).glob("cells/*/*/done.json")), lambda: fill(disk)),
        pytest.raises(DiskFull, match=r"cannot be written: the disk is full"),
    ):
        run_sweep(config, root, said.append)
    store = Store(root)
    assert len(store.done_cells()) == 1
    (failed,) = store.failures()  # not tried again at once, which would only measure for nothing
    assert failed.cause == "disk-full"
    told = capsys.readouterr().err
    line = r"\[1/3\] FAILED  simulated  dynamic · 4 · 20 ms  2\d req/s  repeat 1: disk-full: .* cannot be written: the"
    assert len(re.findall(line, told)) == 1, told
    assert told.count("FAILED") == 1, "what is left would be measured in vain"
    assert store.requests().num_rows == store.trials()[0].planned_requests
    assert not list(disk.rglob("*.tmp"))
    (disk / "filler").unlink()
    outcome = run_sweep(config, root, said.append)
    assert (outcome.planned, outcome.done, outcome.ran) == (3, 3, 2)
