"""GPUs by their data sheets: what bounds a forward pass, and what holds the KV cache.

All numbers are the vendor's, in decimal units (but the GeForce cards have their 24 GB in GiB, as
their drivers say), for dense bfloat16 (the sheets print twice as much, "with
sparsity") with accumulation in float32. PCIe is one direction, half of what the sheets print for both. What
a kernel reaches is less: a roofline of these is the best that can be had, not a forecast.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from deployments.errors import ModelError
from deployments.virtual.model_shape import ModelShape
from deployments.virtual.step_model import Roofline

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One GPU."""

    title: str
    memory_bytes: float
    bandwidth_bytes_per_s: float  # of its memory
    flop_per_s: float  # dense, bfloat16
    pcie_bytes_per_s: float  # one direction
    source: str
    driver_names: tuple[str, ...] = ()  # as NVML and CUDA call it; other bandwidth, other name

    def roofline(self, shape: ModelShape) -> Roofline:
        """The least time that a pass of this model can take."""
        return Roofline(
            weight_bytes=shape.weight_bytes,
            kv_bytes_per_token=shape.kv_bytes_per_token,
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s,
            flop_per_s=self.flop_per_s,
            parameters=shape.parameters,
        )

    def kv_tokens(self, shape: ModelShape, memory_share: float = 0.9) -> int:
        """How many tokens the KV cache holds: what the weights leave of a share of the memory.

        Activations and the CUDA context are not counted, so the real cache is somewhat smaller. ModelError
        if the weights do not fit.
        """
        room_bytes = memory_share * self.memory_bytes - shape.weight_bytes
        if room_bytes < shape.kv_bytes_per_token:
            memory = f"{memory_share * self.memory_bytes / 1e9:.3g} GB of memory"
            need = f"its weights take {shape.weight_bytes / 1e9:.3g} GB"
            raise ModelError(f"{shape.name} does not fit {self.title}: {need}, and there are {memory} for it")
        return int(room_bytes // shape.kv_bytes_per_token)


HARDWARE: Mapping[str, Hardware] = {
    "a100-40": Hardware(
        title="NVIDIA A100 40 GB (SXM4)",
        memory_bytes=40e9,
        bandwidth_bytes_per_s=1_555e9,
        flop_per_s=312e12,
        pcie_bytes_per_s=32e9,
        source="NVIDIA A100 data sheet (nvidia-a100-datasheet), A100 40GB SXM; PCIe Gen4, 64 GB/s both ways",
        driver_names=("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"),
    ),
    "a100-80": Hardware(
        title="NVIDIA A100 80 GB (SXM4)",
        memory_bytes=80e9,
        bandwidth_bytes_per_s=2_039e9,
        flop_per_s=312e12,
        pcie_bytes_per_s=32e9,
        source="NVIDIA A100 data sheet (nvidia-a100-datasheet), A100 80GB SXM; PCIe Gen4, 64 GB/s both ways",
        driver_names=("NVIDIA A100-SXM4-80GB",),
    ),
    "h100": Hardware(
        title="NVIDIA H100 80 GB (SXM5)",
        memory_bytes=80e9,
        bandwidth_bytes_per_s=3.35e12,
        flop_per_s=989e12,
        pcie_bytes_per_s=64e9,
        source="NVIDIA H100 data sheet, H100 SXM: 1,979 TFLOPS with sparsity; PCIe Gen5, 128 GB/s both ways",
        driver_names=("NVIDIA H100 80GB HBM3",),
    ),
    "h200": Hardware(
        title="NVIDIA H200 141 GB (SXM5)",
        memory_bytes=141e9,
        bandwidth_bytes_per_s=4.8e12,
        flop_per_s=989e12,
        pcie_bytes_per_s=64e9,
        source="NVIDIA H200 data sheet, H200 SXM: 1,979 TFLOPS with sparsity; PCIe Gen5, 128 GB/s both ways",
        driver_names=("NVIDIA H200",),
    ),
    "rtx-3090": Hardware(
        title="NVIDIA GeForce RTX 3090 24 GB (PCIe)",
        memory_bytes=24 * GIB,
        bandwidth_bytes_per_s=936e9,
        flop_per_s=71e12,
        pcie_bytes_per_s=32e9,
        source="NVIDIA Ampere GA102 GPU architecture white paper: peak BF16 tensor TFLOPS, FP32 accumulate; Gen4",
        driver_names=("NVIDIA GeForce RTX 3090",),
    ),
    "rtx-4090": Hardware(
        title="NVIDIA GeForce RTX 4090 24 GB (PCIe)",
        memory_bytes=24 * GIB,
        bandwidth_bytes_per_s=1_008e9,
        flop_per_s=165.2e12,
        pcie_bytes_per_s=32e9,
        source="NVIDIA Ada GPU architecture white paper: peak BF16 tensor TFLOPS, FP32 accumulate; Gen4",
        driver_names=("NVIDIA GeForce RTX 4090",),
    ),
    "l4": Hardware(
        title="NVIDIA L4 24 GB (PCIe)",
        memory_bytes=24e9,
        bandwidth_bytes_per_s=300e9,
        flop_per_s=121e12,
        pcie_bytes_per_s=32e9,
        source="NVIDIA L4 data sheet: 242 TFLOPS with sparsity; PCIe Gen4 x16, 64 GB/s both ways",
        driver_names=("NVIDIA L4",),
    ),
}


def bandwidth_of(device: str) -> float | None:
    """Bytes/s of a GPU by the name that its driver gives; None of one that is not above, of a part of one, of a CPU."""
    return next((one.bandwidth_bytes_per_s for one in HARDWARE.values() if device in one.driver_names), None)


def spelt(name: str) -> str:
    """A name of a GPU as the keys above are written: "RTX 4090" and "rtx_4090" are rtx-4090."""
    words = name.lower().replace("_", " ").replace("-", " ").split()
    key = "-".join(words)
    return next((known for known in HARDWARE if known.replace("-", "") == key.replace("-", "")), key)
