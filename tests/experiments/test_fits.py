"""A model that can never fit is refused before anything is started."""

from collections.abc import Callable
from typing import Any

import pytest

import experiments.fits
from deployments.gpus import visible_gpus
from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.fits import check_fits, here, on_cluster
from tests.deployments.fake_nvml import GIB, Card, FakeNvml

MISTRAL_GIB = 7_248_023_552 * 2 / GIB  # parameters in bfloat16: 13.5


@pytest.fixture
def on(made_config: Callable[..., SweepConfig]) -> Callable[..., SweepConfig]:
    """`on("vllm", tensor_parallel_size=2)`: a 7B model on one backend."""

    def config(backend: str, tokens: int = 64, **engine: Any) -> SweepConfig:
        return made_config(
            model="mistral-7b",
            strategies=[{"strategy": "naive", "backends": backend, "max_batch_size": 4}],
            backends={backend: engine} if engine else {},
            workload={
                "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": tokens}},
                "output_tokens": {"distribution": "fixed", "tokens": 8},
            },
        )

    return config


def gpus(*totals_gib: float) -> list[Any]:
    cards = [Card(f"GPU-{n}", name="NVIDIA L4", total=int(size * GIB)) for n, size in enumerate(totals_gib)]
    return here(visible_gpus(FakeNvml(*cards), {}))


def test_the_smallest_gpu_must_hold_the_weights_and_one_request(on: Callable[..., SweepConfig]):
    check_fits(on("huggingface"), gpus(14))
    with pytest.raises(ConfigError, match=r"model: must fit NVIDIA L4 \(12 GiB\), got 13\.5 GiB of weights"):
        check_fits(on("huggingface"), gpus(80, 12))
    with pytest.raises(ConfigError, match=r"3\.66 GiB of keys and values of one request \(30008 tokens"):
        check_fits(on("huggingface", tokens=30_000), gpus(17))


def test_a_share_of_the_memory_and_several_gpus_of_a_lane_are_counted(on: Callable[..., SweepConfig]):
    with pytest.raises(
        ConfigError, match=r"14 GiB, 0\.9 of it for vllm.*tensor_parallel_size takes more GPUs"
    ):
        check_fits(on("vllm"), gpus(14))
    check_fits(on("vllm", tensor_parallel_size=2), gpus(8, 8))
    with pytest.raises(ConfigError, match=r"must fit 2 times NVIDIA L4 \(14 GiB"):
        check_fits(on("vllm", tensor_parallel_size=2), gpus(7, 7))
    check_fits(on("huggingface", lane_gpus=2, device_map="auto"), gpus(7, 7))


def test_on_processors_it_is_the_memory_that_is_available(
    on: Callable[..., SweepConfig], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(experiments.fits, "available_bytes", lambda: 6 * GIB)
    with pytest.raises(ConfigError, match=r"must fit the memory that is available here, 6 GiB, got 13\.5"):
        check_fits(on("huggingface"), here(()))


def test_kinds_of_a_cluster_go_by_their_data_sheets_and_what_is_not_known_is_not_refused(
    made_config: Callable[..., SweepConfig],
):
    naive = [{"strategy": "naive", "backends": "vllm", "max_batch_size": 4}]
    config = made_config(model="llama-2-13b", strategies=naive, accelerator=["L4", "H100"])
    with pytest.raises(ConfigError, match=r"model: must fit L4 \("):
        check_fits(config, on_cluster(config.accelerator or ()))
    with pytest.raises(ConfigError, match=r"model: must fit A10G \("):
        check_fits(made_config(model="llama-2-13b", strategies=naive), on_cluster(["A10G"]))
    assert [one.memory_bytes for one in on_cluster(["A100-80G", "A10G", "MI300X"])] == [80e9, 24e9]
    check_fits(config, on_cluster(["MI300X"]))
    check_fits(config, [])
    hub = made_config(model="somebody/unknown", strategies=naive)
    check_fits(hub, gpus(0.1))
