"""In virtual time a cell runs for as long as a verdict needs, and for as long as a measured one where they are compared."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.config import SweepConfig
from experiments.explain.basis import bases
from experiments.simulation.durations import needed_requests
from experiments.simulation.simulation import Simulation
from results.verdicts import FEWEST_ARRIVALS, FEWEST_BATCHES

Batchyard = Callable[..., Any]
LOW = {
    "arrival_rate": [0.5, 60],
    "duration_s": 10,
    "strategies": [
        {"strategy": "naive", "backends": "huggingface", "max_batch_size": 32},
        {"strategy": "continuous", "backends": "vllm", "max_batch_size": 4},
    ],
}


def test_no_cell_is_too_short_to_be_judged(
    batchyard: Batchyard, written: Callable[..., Path], tmp_path: Path
):
    config = written(tmp_path, **LOW)
    command = ("simulate", config, "--results", tmp_path / "r", "--repeats", 3, "--json")
    first = batchyard(*command)
    cells = json.loads(first.stdout)["cells"]
    assert len(cells) == 4
    assert not any("too-short" in cell["verdicts"] for cell in cells)
    said = "10 s → 768 s at 0.5 requests/s, so that 384 are expected, which verdicts need"
    assert f"durations: {said}" in first.stderr
    (folder,) = (tmp_path / "r").iterdir()
    info = json.loads((folder / "sweep.json").read_text())
    assert info["resolved"]["durations_s"] == [768.0, 10.0], "of a rate, whatever the setting"
    assert said in (folder / "report.html").read_text()
    next(folder.glob("cells/*/*/done.json")).unlink()
    assert batchyard("resume", folder).exit_code == 0
    assert batchyard(*command).exit_code == 0
    assert list((tmp_path / "r").iterdir()) == [folder], "the same command finds it again"
    assert json.loads((folder / "sweep.json").read_text()) == info
    measured = batchyard(*command, "--no-lengthen")
    assert any("too-short" in cell["verdicts"] for cell in json.loads(measured.stdout)["cells"])
    assert "durations:" not in measured.stderr


def test_what_is_needed_is_more_than_a_verdict_needs(small: Callable[..., Simulation]):
    wide = small(strategies=LOW["strategies"]).config
    assert needed_requests(wide) == 384 > 32 * FEWEST_BATCHES
    assert needed_requests(small().config) == 250 > FEWEST_ARRIVALS


def test_a_sweep_that_is_long_enough_keeps_its_name(made_config: Callable[..., SweepConfig]):
    long, short = (made_config(**{**LOW, "arrival_rate": [rate]}) for rate in (60, 0.5))

    def identity(config: SweepConfig, *, lengthen: bool) -> str:
        return Simulation.of(config, bases(config), lengthen=lengthen).identity

    assert identity(long, lengthen=True) == identity(long, lengthen=False)
    assert identity(short, lengthen=True) != identity(short, lengthen=False)
