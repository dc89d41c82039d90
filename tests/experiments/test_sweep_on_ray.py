"""The whole path on a local Ray: Tune, Serve, lanes, client, store and page, with real failures."""

import gc
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from experiments.config import SweepConfig
from experiments.sweep import Outcome, run_sweep, sweep_root
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

    with once(mid_trial, lambda: kill_newest("ServeReplica")) as killed:
        outcome, store, _ = run(config, tmp_path)

    assert killed
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


def test_a_model_that_cannot_load_is_tried_once_and_named(
    made_config: Callable[..., SweepConfig], tmp_path: Path
) -> None:
    empty = tmp_path / "no-model"
    empty.mkdir()
    config = made_config(
        model=str(empty),
        workload={"prompts": RANDOM_PROMPTS, "output_tokens": MIXED_OUTPUTS},
        arrival_rate=[5],
        duration_s=2,
        repeats=1,
        strategies=[{"strategy": "naive", "backends": "huggingface", "max_batch_size": 2}],
    )
    from deployments.errors import ModelError

    with pytest.raises(ModelError, match="no-model"):
        run(config, tmp_path)
    assert not list(Path(sweep_root(config, tmp_path)).glob("cells/*"))


def test_a_prompt_that_the_model_has_no_room_for_is_said_before_anything_is_started(
    made_config: Callable[..., SweepConfig], tiny_model: Path, tmp_path: Path
) -> None:
    from experiments.errors import ConfigError

    config = made_config(
        model=str(tiny_model),
        workload={
            "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": 2040}},
            "output_tokens": {"distribution": "fixed", "tokens": 9},
        },
        strategies=[{"strategy": "naive", "backends": "huggingface", "max_batch_size": 2}],
    )
    with pytest.raises(
        ConfigError, match="at most 2048 tokens, the longest prompt and output together are 2049"
    ):
        run(config, tmp_path)
    assert not list(Path(sweep_root(config, tmp_path)).iterdir())
