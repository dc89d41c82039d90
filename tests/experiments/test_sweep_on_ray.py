"""The whole path on a local Ray: Tune, Serve, lanes, client, store and page, with real failures."""

import gc
import json
import os
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
import yaml
from click.testing import Result

from experiments.config import SweepConfig
from experiments.sweep import Outcome, run_sweep
from experiments.sweep_record import sweep_root
from results.store import Store
from results.summary import find
from tests.experiments.descendants import descendants

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]  # Ray's and vLLM's own warnings

RANDOM_PROMPTS = {"source": "random", "tokens": {"distribution": "uniform", "low": 4, "high": 24}}
MIXED_OUTPUTS = {"distribution": "uniform", "low": 2, "high": 16}


@pytest.fixture(autouse=True)
def _collect_what_ray_left() -> Iterator[None]:
    """Ray forgets processes that it has ended; their warning must not fall on a later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def run(config: SweepConfig, folder: Path) -> tuple[Outcome, Store, list[str]]:
    """Run a sweep in this process; what it said is kept."""
    said: list[str] = []
    root = sweep_root(config, folder)
    outcome = run_sweep(config, root, said.append)
    return outcome, Store(root), said


@contextmanager
def once(happened: Callable[[], bool], act: Callable[[], object]) -> Iterator[list[object]]:
    """Beside the block: as soon as something has happened, act; what `act` gave is in the list."""
    acted: list[object] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            if happened():
                acted.append(act())
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield acted
    finally:
        stop.set()
        thread.join()


def kill_newest(word: str) -> int:
    """SIGKILL the process of ours that was started last, and not one that other tests still use; its id."""
    victim = max(descendants(os.getpid(), word), key=lambda process: process.create_time())
    victim.kill()
    return victim.pid


def held_in_ray() -> tuple[int, int]:
    """Serve applications, and placement groups that are not removed."""
    import ray
    from ray import serve

    groups = ray.util.placement_group_table().values()  # type: ignore[no-untyped-call]
    return len(serve.status().applications), sum(group["state"] != "REMOVED" for group in groups)


@pytest.mark.fault
def test_a_replica_killed_in_mid_trial_costs_one_attempt_and_no_row(
    made_config: Callable[..., SweepConfig], tmp_path: Path
) -> None:
    config = made_config(
        model=...,
        workload={"prompts": RANDOM_PROMPTS, "output_tokens": MIXED_OUTPUTS},
        arrival_rate=[10, 60],  # 60/s is far beyond what the engine can do, and is cut off
        duration_s=4,
        drain_limit_s=1,
        repeats=1,
        strategies=[
            {"strategy": "naive", "backends": "simulated", "max_batch_size": 2},
            {"strategy": "dynamic", "backends": "simulated", "max_batch_size": 2, "max_wait_ms": 50},
        ],
    )
    parts = f"{sweep_root(config, tmp_path)}/cells"

    def mid_trial() -> bool:
        return any(Path(parts).glob("*/attempt-1")) and bool(descendants(os.getpid(), "ServeReplica"))

    page = Path(sweep_root(config, tmp_path)) / "report.html"
    with (
        once(mid_trial, lambda: kill_newest("ServeReplica")) as killed,
        once(page.is_file, held_in_ray) as held,
    ):
        outcome, store, _ = run(config, tmp_path)

    assert killed
    assert held == [(1, 0)], "one lane holds one application; no trial has left its place behind"
    assert outcome.complete
    assert outcome.ran == outcome.planned == 4
    failures = store.failures()
    assert len(failures) == 1
    assert store.done_cells()[failures[0].cell_id] == 2
    requests = store.requests()
    assert len(set(requests["request_id"].to_pylist())) == requests.num_rows
    assert requests.num_rows == sum(trial.planned_requests for trial in store.trials())
    overloaded = [trial for trial in find(store).trials if trial.trial.rate == 60]
    assert len(overloaded) == 2
    for summary in overloaded:
        assert summary.trial.cut_off
        assert summary.has("overloaded")
        assert summary.has("unfinished")
    cut = requests.filter(pc.equal(requests["status"], "unfinished"))
    assert cut.num_rows > 0
    assert cut["last_token_s"].null_count > 0, "what never began has no stamp"

    again, _, _ = run(config, tmp_path)
    assert (again.ran, again.complete) == (0, True)


def test_a_tiny_model_runs_through_both_engines_and_survives_the_loss_of_one(
    made_config: Callable[..., SweepConfig], tiny_model: Path, tmp_path: Path
) -> None:
    config = made_config(
        model={"name": str(tiny_model), "dtype": "float32"},
        workload={"prompts": RANDOM_PROMPTS, "output_tokens": MIXED_OUTPUTS},
        arrival_rate=[6],
        duration_s=5,
        repeats=1,
        strategies=[
            {"strategy": "naive", "backends": ["huggingface", "vllm"], "max_batch_size": 3},
            {"strategy": "dynamic", "backends": "vllm", "max_batch_size": 3, "max_wait_ms": 100},
            {"strategy": "continuous", "backends": "vllm", "max_batch_size": 3},
        ],
    )
    root = sweep_root(config, tmp_path)
    others = descendants(os.getpid(), "EngineCore")  # engines that other tests share

    def first_on_vllm_is_done() -> bool:
        return any('"backend": "vllm"' in path.read_text() for path in Path(root).glob("cells/*/*/done.json"))

    with once(first_on_vllm_is_done, lambda: kill_newest("EngineCore")) as killed:
        outcome, store, _ = run(config, tmp_path)

    assert killed
    assert outcome.complete
    trials = store.trials()
    assert {trial.backend for trial in trials} == {"huggingface", "vllm"}
    assert [failure.cause for failure in store.failures()] in (["engine-dead"], [])
    assert len({trial.incarnation for trial in trials if trial.backend == "vllm"}) == 2, "it was loaded anew"
    hashes: dict[int, set[Any]] = {}
    for row in store.requests(columns=["index", "output_hash", "status"]).to_pylist():
        assert row["status"] == "finished"
        hashes.setdefault(row["index"], set()).add(row["output_hash"])
    assert len(hashes) > 10
    assert all(len(found) == 1 for found in hashes.values()), (
        "the same tokens under every strategy and engine"
    )
    page = Path(outcome.page).read_text()
    assert "huggingface" in page
    assert "vllm" in page
    assert descendants(os.getpid(), "EngineCore") == others


ONE = [{"strategy": "naive", "backends": "huggingface", "max_batch_size": 2}]


@pytest.fixture
def unloadable(tiny_model: Path, tmp_path: Path) -> str:
    """A model that passes every look at its files, and that no engine can load: its tables are of other sizes."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 600}))
    return str(folder)


@pytest.mark.fault
def test_of_what_cannot_start_only_what_may_the_next_time_is_tried_again(
    made_config: Callable[..., SweepConfig],
    unloadable: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = made_config(
        model={"name": unloadable, "dtype": "float32"},
        workload={"prompts": RANDOM_PROMPTS, "output_tokens": MIXED_OUTPUTS},
        arrival_rate=[5],
        duration_s=2,
        repeats=1,
        strategies=[*ONE, {**ONE[0], "backends": "simulated"}],
        backends={"simulated": {"load_s": 60, "start_deadline_s": 0.5}},
        max_failures=1,
    )
    outcome, store, _ = run(config, tmp_path)
    assert (outcome.planned, outcome.done) == (2, 0)
    by_attempts = sorted(
        (failure.attempt, failure.cause, failure.permanent, failure.error) for failure in store.failures()
    )
    late = "simulated could not be started: did not load within 0.5 s"
    assert by_attempts[0] == (1, "BackendError", False, late)
    assert by_attempts[1][:3] == (1, "model", True)
    assert by_attempts[2:] == [(2, "BackendError", False, late)]
    told = sorted(line for line in capsys.readouterr().err.splitlines() if "FAILED" in line)
    assert len(told) == 2
    cell = "naive · 2  5 req/s  repeat 1"
    assert told[0].startswith(
        f"[0/2] FAILED  huggingface  {cell}: model: model {unloadable} cannot be loaded: "
    )
    assert told[1].startswith(f"[0/2] FAILED  simulated  {cell}: BackendError: {late}")
    page = Path(outcome.page).read_text()
    assert late in page
    assert "BackendError" in page


def test_an_engine_that_cannot_be_timed_is_exit_1_in_one_line_and_leaves_no_folder(
    batchyard: Callable[..., Result],
    config_values: Callable[..., dict[str, Any]],
    unloadable: str,
    tmp_path: Path,
) -> None:
    values = config_values(
        model={"name": unloadable, "dtype": "float32"},
        workload={"prompts": RANDOM_PROMPTS, "output_tokens": MIXED_OUTPUTS},
        arrival_rate="auto",
        strategies=ONE,
    )
    (tmp_path / "made.yaml").write_text(yaml.safe_dump(values))
    result = batchyard("sweep", tmp_path / "made.yaml", "--results", tmp_path / "results")
    assert result.exit_code == 1, result.output
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: model {unloadable} cannot be loaded: ")
    assert result.stderr.endswith(f"{error}\n")
    assert not (tmp_path / "results").exists()
