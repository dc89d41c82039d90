"""Which build of vLLM is installed: the CUDA build cannot run without a GPU, the CPU build never uses one."""

import os
from collections.abc import Sequence
from importlib import metadata

from deployments.errors import DeviceError
from deployments.gpu_selection import VARIABLE
from deployments.gpus import Gpu


def cuda_build() -> str | None:
    """The version of vLLM's CUDA build; None if another one, or none, is installed."""
    try:
        version = metadata.version("vllm")  # the CPU build's distribution is named otherwise
    except metadata.PackageNotFoundError:
        return None
    return None if "cpu" in version else version


def require_gpu_for_cuda_build(gpus: Sequence[Gpu]) -> None:
    """DeviceError if vLLM here is the CUDA build and no GPU is visible."""
    version = cuda_build()
    if gpus or version is None:
        return
    hidden = os.environ.get(VARIABLE)
    because = f"{VARIABLE} is {hidden!r}" if hidden is not None else "`nvidia-smi` must list one"
    raise DeviceError(
        f"vllm {version} here is the CUDA build and needs a GPU, and none is visible: {because}; "
        "`make KIND=cpu` makes an environment for CPUs"
    )
