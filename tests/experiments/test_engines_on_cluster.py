"""Real engines on a Ray cluster of several nodes: one whose process dies, and one that has not the memory for a batch."""

import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from results.store import Store
from tests.experiments.command_process import CommandProcess
from tests.experiments.descendants import descendants
from tests.experiments.left_on_cluster import NOTHING, left
from tests.experiments.ray_cluster import RayCluster
from tests.experiments.test_cluster_faults import done, requests_written, whole
from tests.experiments.test_lanes_on_ray import Faults
from tests.soak.kills import replicas
from tests.tiny_model import save_tiny_model

pytestmark = pytest.mark.ray

Start = Callable[..., CommandProcess]
ROWS, PROMPT_TOKENS = 16, 256  # of a batch, and of each
BATCH_EVERY_S = 5  # several times what one takes
KV_BYTES = 2 * 2 * 64 * 64 * 4  # of a token: keys and values, layers, heads, their width, float32
LOOK_EVERY_S = 0.05


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    """A head, and two nodes with a counted GPU each."""
    made = RayCluster()
    for _ in range(2):
        made.add()
    yield made
    made.shutdown()


def engines() -> list[psutil.Process]:
    return descendants(os.getpid(), "EngineCore")


@pytest.mark.vllm
@pytest.mark.soak
def test_engines_that_die_in_trials_and_between_them_cost_those_trials_and_no_row(
    cluster: RayCluster, started: Start, short_sweep: Callable[..., Path], tiny_model: Path, tmp_path: Path
) -> None:
    results, others = tmp_path / "results", engines()
    naive = {"strategy": "naive", "backends": "vllm", "max_batch_size": 2}
    model = {"name": str(tiny_model), "dtype": "float32"}
    config = short_sweep(model=model, arrival_rate=[4, 5, 6], duration_s=8, strategies=[naive])
    driver = started("sweep", config, "--address", cluster.address, "--lanes", 1, "--results", results)
    faults = Faults(results)

    def kill_engine() -> None:
        [engine] = set(engines()) - set(others)
        engine.kill()

    driver.wait_for(lambda: faults.measuring(), deadline_s=300)
    kill_engine()
    driver.wait_for(lambda: len(Store(faults.root).failures()) == 1, deadline_s=300)
    driver.wait_for(lambda: done(results), deadline_s=300)
    kill_engine()
    code, _, told = driver.end(400)
    assert code == 0, told
    store = whole(results, 3)
    assert {failure.cause for failure in store.failures()} == {"engine-dead"}
    assert len(store.failures()) <= 2, "the second died between two trials, or as the next began"
    assert len({trial.incarnation for trial in store.trials()}) == 2
    assert engines() == others
    assert left(cluster.address) == NOTHING


@pytest.mark.fault
def test_a_lane_that_has_not_the_memory_for_a_batch_serves_smaller_ones(
    cluster: RayCluster, started: Start, short_sweep: Callable[..., Path], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    wide = save_tiny_model(tmp_path, num_attention_heads=64, num_key_value_heads=64, head_dim=64)
    config = short_sweep(
        model={"name": str(wide), "dtype": "float32"},
        workload={
            "prompts": {
                "source": "random",
                "tokens": {"distribution": "fixed", "tokens": PROMPT_TOKENS},
            },
            "output_tokens": {"distribution": "fixed", "tokens": 2},
        },
        arrival_rate=[ROWS / BATCH_EVERY_S],
        duration_s=6 * BATCH_EVERY_S,
        strategies=[{"strategy": "naive", "backends": "huggingface", "max_batch_size": ROWS}],
    )
    driver = started("sweep", config, "--address", cluster.address, "--lanes", 1, "--results", results)
    driver.wait_for(lambda: requests_written(results), deadline_s=300)
    [replica] = replicas(os.getpid())
    least = min(vms(replica) for _ in range(round(1.2 * BATCH_EVERY_S / LOOK_EVERY_S)))  # between two batches
    room = least + ROWS * PROMPT_TOKENS * KV_BYTES
    replica.rlimit(resource.RLIMIT_AS, (room, room))
    code, output, told = driver.end(400)
    assert code == 0, told
    store = whole(results, 1)
    [trial] = store.trials()
    assert trial.min_cap is not None
    assert trial.min_cap < ROWS
    assert set(store.requests(columns=["status"])["status"].to_pylist()) == {"finished"}
    assert store.failures() == []
    assert "cap-fell" in output
    assert left(cluster.address) == NOTHING


def vms(process: psutil.Process) -> int:
    """Bytes of its address space, some time later."""
    time.sleep(LOOK_EVERY_S)  # a poll of another process
    return int(process.memory_info().vms)
