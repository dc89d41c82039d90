"""Whether a model can fit at all: its weights and the keys and values of one request, against a lane's memory.

    needed = weights + (longest prompt + longest output) · c_kv  ≤  GPUs of the lane × memory of each (× vLLM's share)

Told before anything is started, where it can be told: the shape of the model must be known here without asking a
hub, and the memory from the driver of this machine's GPUs, or for the kinds of a cluster's from their data sheets.
Activations and the CUDA context are not counted: what passes may still not fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deployments.backends.available_memory import available_bytes
from deployments.backends.engine_args import lane_gpus
from deployments.errors import ModelError
from deployments.gpus import Gpu
from deployments.models import Dtype, gpu_dtype, pick_dtype
from deployments.virtual.hardware import GIB, HARDWARE, spelt
from deployments.virtual.model_shape import ModelShape, model_shape
from experiments.config import SweepConfig
from experiments.grid import Setting

_MOST_BYTES = {  # of kinds, as Ray names them, that come in two sizes or have no data sheet with the others
    "T4": 16e9,  # NVIDIA T4 data sheet
    "V100": 32 * GIB,  # NVIDIA V100 data sheet: 16 or 32 GB
    "A10G": 24e9,  # Amazon EC2 G5 instances
    "L40S": 48e9,  # NVIDIA L40S data sheet
    "A100": 80e9,  # NVIDIA A100 data sheet: 40 or 80 GB
    "H100": 94e9,  # NVIDIA H100 data sheet: 80, or 94 GB (NVL)
}
SHARE = "gpu_memory_utilization"  # of a GPU's memory, that vLLM takes
VLLM = "vllm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What one lane computes on."""

    name: str
    memory_bytes: float  # of one; of processors what is available now
    is_gpu: bool
    dtype: Dtype  # what `auto` is there


def here(gpus: Sequence[Gpu]) -> list[Device]:
    """Of this machine: the GPU with the least memory, or the processors. Empty where nobody says how much it is."""
    known = [gpu for gpu in gpus if gpu.total_bytes is not None]
    if gpus:
        smallest = min(known, key=lambda gpu: gpu.total_bytes or 0, default=None)
        capabilities = [gpu.capability for gpu in gpus if gpu.capability is not None]
        dtype: Dtype = gpu_dtype(min(capabilities)) if capabilities else "bfloat16"
        if smallest is None or smallest.total_bytes is None:
            return []
        return [Device(name=smallest.name, memory_bytes=smallest.total_bytes, is_gpu=True, dtype=dtype)]
    free = available_bytes()
    return (
        []
        if free is None
        else [Device(name="memory", memory_bytes=free, is_gpu=False, dtype=pick_dtype("cpu"))]
    )


def on_cluster(kinds: Sequence[str]) -> list[Device]:
    """Of these kinds of GPU, as Ray names them, those whose memory is known here."""
    known = {kind: _memory_bytes(kind) for kind in kinds}
    return [
        Device(name=kind, memory_bytes=memory_bytes, is_gpu=True, dtype="bfloat16")
        for kind, memory_bytes in known.items()
        if memory_bytes is not None
    ]


def _memory_bytes(kind: str) -> float | None:
    if kind in _MOST_BYTES:
        return _MOST_BYTES[kind]
    sheet = HARDWARE.get(spelt(kind)) or HARDWARE.get(spelt(kind.removesuffix("G")))
    return None if sheet is None else sheet.memory_bytes


def check_fits(config: SweepConfig, devices: Sequence[Device]) -> None:
    """ConfigError, one line, where a model can never be run on one of the devices."""
    tokens = config.workload.prompt_law().maximum + config.workload.limit_tokens
    for setting, device in _pairs(config, devices):
        shape = _shape(setting, device)
        if shape is None:
            continue
        kept = min(tokens, shape.sliding_window or tokens)
        cache_bytes = kept * shape.kv_bytes_per_token
        room_bytes = _room_bytes(setting, device)
        if shape.weight_bytes + cache_bytes > room_bytes:
            need = f"{_gib(shape.weight_bytes)} of weights and {_gib(cache_bytes)} of keys and values of one request"
            text = (
                f"must fit {_room(setting, device, room_bytes)}, got {need} ({tokens} tokens, {shape.dtype})"
            )
            raise config.error(("model",), f"{text}{_way_out(setting, device)}")


def _pairs(config: SweepConfig, devices: Sequence[Device]) -> Iterator[tuple[Setting, Device]]:
    """One setting of each engine and device, of those that load a model."""
    seen = set()
    for setting in config.settings:
        for device in devices:
            wrong_kind = device.is_gpu and setting.accelerator not in (None, device.name)
            key = setting.backend, setting.model, device
            if setting.model is not None and not wrong_kind and key not in seen:
                seen.add(key)
                yield setting, device


def _shape(setting: Setting, device: Device) -> ModelShape | None:
    """None where it is not known without asking a hub, or the formulas do not hold for the model."""
    assert setting.model is not None, "chosen for it"
    model = setting.model
    try:
        return model_shape(replace(model, dtype=device.dtype) if model.dtype == "auto" else model)
    except ModelError:
        return None


def _room_bytes(setting: Setting, device: Device) -> float:
    if not device.is_gpu:
        return device.memory_bytes
    share: float = setting.engine.get(SHARE, 1.0)
    return device.memory_bytes * lane_gpus(setting.engine) * share


def _room(setting: Setting, device: Device, room_bytes: float) -> str:
    if not device.is_gpu:
        return f"the memory that is available here, {_gib(room_bytes)}"
    gpus = lane_gpus(setting.engine)
    several = f"{gpus} times {device.name}" if gpus > 1 else device.name
    share = f", {setting.engine[SHARE]:g} of it for {setting.backend}" if SHARE in setting.engine else ""
    return f"{several} ({_gib(device.memory_bytes * gpus)}{share})"


def _way_out(setting: Setting, device: Device) -> str:
    if not device.is_gpu:
        return ""
    more = "tensor_parallel_size" if setting.backend == VLLM else "lane_gpus with device_map"
    return (
        f"; backends.{setting.backend}.{more} takes more GPUs"
        if setting.backend in (VLLM, "huggingface")
        else ""
    )


def _gib(count: float) -> str:
    return f"{count / GIB:.3g} GiB"
