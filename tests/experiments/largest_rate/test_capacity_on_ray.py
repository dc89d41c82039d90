"""The measured search: its trials are a sweep's, on lanes; and what a calibration has it begin with."""

import gc
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import Result

from experiments.config import parse
from experiments.explain.basis import bases
from experiments.largest_rate.question import Question
from experiments.largest_rate.run import guesses_of
from experiments.simulation.premise import Premise
from results.service_level import parse as parse_level
from results.store import Store

CONFIG = {
    "name": "measured",
    "workload": {
        "arrivals": {"process": "constant"},
        "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": 8}},
        "output_tokens": {"distribution": "fixed", "tokens": 4},
    },
    "duration_s": 1,
    "drain_limit_s": 20,
    "strategies": [{"strategy": "naive", "backends": "simulated", "max_batch_size": 4}],
    "backends": {"simulated": {"fixed_ms": 5.0, "per_sequence_ms": 1.0, "per_1000_prefill_tokens_ms": 10.0}},
}
LEVEL = "e2e_p99=150ms"


@pytest.fixture
def _ray_is_collected() -> Iterator[None]:
    """Ray forgets processes that it has ended; their warning must not fall on a later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def test_a_calibrated_search_begins_where_virtual_time_ends():
    config = parse(CONFIG)
    premises = {"simulated": Premise.of(bases(config)["simulated"], config.settings[0])}
    question = Question(config=config, targets=parse_level(LEVEL), width=0.1)
    told: list[str] = []
    guesses = guesses_of(question, premises, told.append)
    capacity = 4 / (4 * 0.009 + 4 * 8 * 10e-6)
    assert guesses.keys() == {0}
    assert guesses[0] == pytest.approx(capacity, rel=0.25)
    assert told == [f"simulated  naive · 4  begins at {guesses[0]:g} req/s, as simulated"]


@pytest.mark.ray
@pytest.mark.fault
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("_ray_is_collected")
def test_a_search_on_lanes_goes_on_from_the_trials_that_are_there(
    batchyard: Callable[..., Result], tmp_path: Path
):
    """One trial is left to run, and the saturation run, which is shorter than in virtual time; both are paid for.

    Those before are of a search in virtual time, whose cells are the same. The one that is left is at the end of the
    bracket that is beyond, which a slow machine does not bring within.
    """
    path = tmp_path / "measured.yaml"
    path.write_text(yaml.safe_dump({**CONFIG, "price_per_gpu_hour": 3600}))
    asked = ("capacity", path, "--slo", LEVEL, "--width", "20%", "--results", tmp_path / "data")
    assert batchyard(*asked, "--simulate").exit_code == 0
    [simulated] = (tmp_path / "data").iterdir()
    root = tmp_path / "data" / f"measured-capacity-{parse(CONFIG).config_hash}"
    shutil.copytree(simulated / "cells", root / "cells")
    info = Store(simulated).read_sweep() or {}
    del info["simulated"]
    Store(root).write_sweep({**info, "name": "measured-capacity", "config_hash": parse(CONFIG).config_hash})
    twice = [trial for trial in Store(root).trials() if trial.repeat == 1]
    again = max(twice, key=lambda trial: trial.rate)
    shutil.rmtree(root / "cells" / again.cell_id)
    result = batchyard(*asked, "--max-hours", "1", "--max-cost", "1000")
    assert result.exit_code == 0, result.stderr
    [measured] = [trial for trial in Store(root).trials() if trial.device != "virtual"]
    assert measured.cell_id == again.cell_id
    assert measured.warm_up is not None
    assert len(Store(root / "at-once").trials()) == 1
    assert Store(root).samples({again.cell_id}).num_rows >= 1
    assert "measured-capacity: largest rate with p99 E2E ≤ 150 ms" in result.stdout
    info = Store(root).read_sweep() or {}
    assert info["capacity"]["answers"][0]["complete"]
    stores = (Store(root), Store(root / "at-once"))
    held_s = [time.held_s for one in stores for time in one.lane_times().values() if time is not None]
    assert len(held_s) == 2
    assert f"Cost: at least ${sum(held_s):.2f}, " in result.stdout, "those in virtual time had no lane"
    narrower = (*asked[:4], "--width", "1%", *asked[6:])
    result = batchyard(*narrower, "--max-cost", f"{sum(held_s) + 0.5}")
    assert result.exit_code == 1, result.stderr
    assert "stopped at --max-cost; `batchyard capacity" in result.stdout
    assert "goes on up to a larger one, or without one to its end." in result.stdout
    assert "starting Ray" not in result.stderr, "not even the next trial may begin"
