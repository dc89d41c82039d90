"""vLLM's CUDA build without a GPU is refused before anything is started."""

from importlib import metadata

import pytest

from deployments.errors import DeviceError
from deployments.gpus import Gpu, visible_gpus
from deployments.vllm_build import require_gpu_for_cuda_build
from tests.deployments.fake_nvml import Card, FakeNvml

ONE = visible_gpus(FakeNvml(Card("GPU-1")), {})


@pytest.mark.parametrize(
    ("version", "gpus", "refused"),
    [("0.33.0", (), True), ("0.33.0", ONE, False), ("0.33.0+cpu", (), False), (None, (), False)],
)
def test_the_cuda_build_of_vllm_wants_a_gpu(
    monkeypatch: pytest.MonkeyPatch, version: str | None, gpus: tuple[Gpu, ...], refused: bool
) -> None:
    def installed(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", installed)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    if not refused:
        require_gpu_for_cuda_build(gpus)
        return
    with pytest.raises(
        DeviceError, match=r"^vllm 0.33.0 here is the CUDA build .* CUDA_VISIBLE_DEVICES is '-1'; "
    ):
        require_gpu_for_cuda_build(gpus)
