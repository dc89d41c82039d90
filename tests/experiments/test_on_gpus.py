"""A sweep on a machine with GPUs, as far as that can be seen without one."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import experiments.preflight
import experiments.provenance
import experiments.sweep
from deployments.errors import DeviceError
from deployments.gpu_claim import require_free
from deployments.gpus import visible_gpus
from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.preflight import check
from experiments.provenance import provenance
from experiments.sweep import run_sweep
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
            experiments.sweep, "require_free", lambda notify: require_free(notify, found, wait_s=0)
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


def test_bfloat16_is_refused_where_the_gpu_does_not_compute_in_it(
    machine: Callable[..., None], config: Callable[..., SweepConfig]
) -> None:
    machine(Card("GPU-1"), Card("GPU-2", name="Tesla T4", capability=(7, 5)))
    check(config("auto"), print)
    check(config("float16"), print)
    with pytest.raises(ConfigError, match=r"model: must have dtype auto, float16 or float32 on Tesla T4"):
        check(config("bfloat16"), print)


def test_a_gpu_in_other_hands_is_refused_before_anything_is_started_or_written(
    machine: Callable[..., None], config: Callable[..., SweepConfig], tmp_path: Path
) -> None:
    machine(Card("GPU-1", used=9 * GIB, processes=[(NOBODY, 9 * GIB)]))
    said: list[str] = []
    with pytest.raises(DeviceError, match=re.escape(f"is taken: pid {NOBODY} (unknown, 9.0 GiB); end it")):
        run_sweep(config(), str(tmp_path / "sweep"), said.append)
    assert said == []
    assert list(tmp_path.iterdir()) == []


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
    }
