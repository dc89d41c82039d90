"""A sweep on a machine with GPUs, as far as that can be seen without one."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import experiments.preflight
import experiments.provenance
import experiments.sweep
import experiments.where
from deployments.errors import DeviceError
from deployments.gpu_claim import claim
from deployments.gpus import Gpu, visible_gpus
from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.preflight import check, lanes_here
from experiments.provenance import provenance
from experiments.sweep import run_sweep
from results.errors import StoreError
from results.lock import SweepLock
from tests.deployments.fake_nvml import GIB, Card, FakeNvml

NOBODY = 2**22 + 1  # above the largest process id of Linux


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`machine(card, …)`: the machine has these GPUs; Ray and CUDA know nothing of them."""

    def has(*cards: Card) -> None:
        nvml = FakeNvml(*cards)

        def found() -> Any:
            return visible_gpus(nvml, {})

        for module in (experiments.preflight, experiments.provenance):
            monkeypatch.setattr(module, "visible_gpus", found)
        monkeypatch.setattr(
            experiments.where, "claim", lambda notify, wanted: claim(notify, wanted, found, wait_s=0)
        )

    return has


@pytest.fixture
def config(
    made_config: Callable[..., SweepConfig], tiny_model: Path, random_prompts: Any
) -> Callable[..., Any]:
    def made(dtype: str = "auto", **changes: Any) -> SweepConfig:
        return made_config(
            model={"name": str(tiny_model), "dtype": dtype},
            workload=random_prompts,
            strategies=[{"strategy": "naive", "backends": "huggingface", "max_batch_size": 4}],
            **changes,
        )

    return made


def test_more_gpus_than_there_are_is_an_error(
    machine: Callable[..., None], config: Callable[..., SweepConfig]
) -> None:
    machine(Card("GPU-1"), Card("GPU-2"))
    check(config(gpus=2), print)
    with pytest.raises(ConfigError, match="gpus: must be at most the GPUs that can be used here, 2, got 3"):
        check(config(gpus=3), print)


def test_a_lane_of_more_gpus_than_there_are_is_an_error(
    machine: Callable[..., None], config: Callable[..., SweepConfig]
) -> None:
    split = {"huggingface": {"lane_gpus": 3, "device_map": "auto"}}
    machine(*(Card(f"GPU-{n}") for n in range(7)))
    check(config(backends=split), print)
    assert lanes_here(config(backends=split), 0) == 2
    assert lanes_here(config(backends=split, gpus=5), 0) == 1
    machine(Card("GPU-1"), Card("GPU-2"))
    text = "backends.huggingface.lane_gpus: must be at most the GPUs that can be used here, 2, got 3"
    with pytest.raises(ConfigError, match=text):
        check(config(backends=split), print)
    with pytest.raises(ConfigError, match=r"gpus: must be at least 3, the GPUs of one lane, got 2"):
        config(backends=split, gpus=2)


def test_bfloat16_is_refused_where_one_of_the_gpus_does_not_compute_in_it(
    machine: Callable[..., None], config: Callable[..., SweepConfig]
) -> None:
    machine(Card("GPU-1"), Card("GPU-2", name="Tesla T4", capability=(7, 5)))
    check(config("float16"), print)
    with pytest.raises(ConfigError, match=r"model: must have dtype float16 or float32 on Tesla T4"):
        check(config("bfloat16"), print)


def test_a_preset_that_is_in_bfloat16_is_not_sent_back_to_auto(
    machine: Callable[..., None], made_config: Callable[..., SweepConfig], random_prompts: Any
) -> None:
    machine(Card("GPU-1", name="Tesla T4", capability=(7, 5)))
    naive = {"strategy": "naive", "backends": "huggingface", "max_batch_size": 4}
    config = made_config(model="tinyllama-1.1b", workload=random_prompts, strategies=[naive])
    with pytest.raises(ConfigError, match=r"model: must have dtype float16 or float32 on Tesla T4"):
        check(config, print)


TAKEN = Card("GPU-1", used=9 * GIB, processes=[(NOBODY, 9 * GIB)])


class Begun(Exception):
    """Ray would have been started."""


@pytest.fixture
def begun_with(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The labels of the GPUs that a sweep was begun with, which ends it with Begun."""
    seen: list[list[str]] = []

    def begin(gpus: Sequence[Gpu]) -> None:
        seen.append([gpu.label for gpu in gpus])
        raise Begun

    monkeypatch.setattr(experiments.where, "local_ray", begin)
    return seen


@pytest.mark.parametrize("fresh", [False, True])
def test_a_gpu_in_other_hands_is_refused_before_anything_is_started_written_or_moved(
    machine: Callable[..., None], config: Callable[..., SweepConfig], tmp_path: Path, fresh: bool
) -> None:
    machine(TAKEN)
    earlier = tmp_path / "sweep" / "kept"
    if fresh:
        earlier.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    said: list[str] = []
    with pytest.raises(DeviceError, match=re.escape(f"is taken: pid {NOBODY} (unknown, 9.0 GiB); end it")):
        run_sweep(config(), str(tmp_path / "sweep"), said.append, fresh=fresh)
    assert said == []
    assert sorted(tmp_path.rglob("*")) == before


def test_what_can_begin_anew_keeps_the_earlier_run_aside(
    machine: Callable[..., None],
    config: Callable[..., SweepConfig],
    begun_with: list[list[str]],
    tmp_path: Path,
) -> None:
    machine(Card("GPU-1"))
    (tmp_path / "sweep" / "kept").mkdir(parents=True)
    with pytest.raises(Begun):
        run_sweep(config(), str(tmp_path / "sweep"), lambda _: None, fresh=True)
    assert begun_with == [["0"]]
    [aside] = tmp_path.glob("sweep-until-*")
    assert [path.name for path in aside.iterdir()] == ["kept"]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_sweep_that_runs_already_is_named_before_its_gpu_is_looked_at(
    config: Callable[..., SweepConfig], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh: bool
) -> None:
    monkeypatch.setattr(experiments.where, "claim", lambda *_: pytest.fail("the GPU was looked at"))
    monkeypatch.setattr(experiments.sweep, "check", lambda *_, **__: pytest.fail("the model was looked at"))
    root = str(tmp_path / "sweep")
    with SweepLock(root), pytest.raises(StoreError, match=f"is driven by process {os.getpid()} "):
        run_sweep(config(), root, print, fresh=fresh)


def test_a_sweep_takes_as_many_free_gpus_as_it_asks_for(
    machine: Callable[..., None],
    config: Callable[..., SweepConfig],
    begun_with: list[list[str]],
    tmp_path: Path,
) -> None:
    machine(TAKEN, Card("GPU-2"), Card("GPU-3"))
    with pytest.raises(Begun):
        run_sweep(config(gpus=1), str(tmp_path / "sweep"), print)
    assert begun_with == [["1"]]
    with pytest.raises(DeviceError, match=r"leave it out with CUDA_VISIBLE_DEVICES=1,2$"):
        run_sweep(config(), str(tmp_path / "sweep"), print)
    assert begun_with == [["1"]]


@pytest.mark.parametrize("card", [TAKEN, Card("GPU-1", instances=[None])], ids=["taken", "split"])
def test_what_no_gpu_is_needed_for_is_not_refused_because_of_one(
    machine: Callable[..., None],
    made_config: Callable[..., SweepConfig],
    random_prompts: Any,
    begun_with: list[list[str]],
    tmp_path: Path,
    card: Card,
) -> None:
    machine(card)
    naive = {"strategy": "naive", "backends": "simulated", "max_batch_size": 4}
    config = made_config(model=..., workload=random_prompts, strategies=[naive])
    with pytest.raises(Begun):
        run_sweep(config, str(tmp_path / "sweep"), print)
    assert begun_with == [[]]
    assert provenance()["gpus"].keys() <= {"0"}


def test_provenance_names_each_gpu(machine: Callable[..., None]) -> None:
    machine(Card("GPU-1"), Card("GPU-2", name="NVIDIA L4", capability=(8, 9), total=24 * GIB))
    found = provenance()["gpus"]
    assert list(found) == ["0", "1"]
    assert found["1"] == {
        "name": "NVIDIA L4",
        "uuid": "GPU-2",
        "driver": "580.65.06",
        "memory_bytes": 24 * GIB,
        "compute_capability": "8.9",
        "highest_clock_mhz": 1980,
    }
