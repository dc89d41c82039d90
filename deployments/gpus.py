"""The GPUs that this process may use, from NVML: no CUDA context is made, so nothing is taken on them.

NVML (https://docs.nvidia.com/deploy/nvml-api) is the library beneath nvidia-smi and numbers GPUs as that
does, by PCI bus; `gpu_selection.only` has CUDA count in the same order. Its Python package is part of
the GPU environment only: where it or a driver is missing there are no GPUs.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from deployments.errors import DeviceError
from deployments.gpu_selection import VARIABLE, Selected, known, select

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that computes on a GPU."""

    pid: int
    used_bytes: int | None  # None where the driver does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU, or one instance of a GPU that is split (MIG). None where NVML does not say."""

    label: str  # its index, an instance's UUID: a name for CUDA_VISIBLE_DEVICES
    uuid: str | None
    name: str
    driver: str | None
    capability: tuple[int, int] | None
    total_bytes: int | None  # none of a GPU whose memory is the machine's
    used_bytes: int | None
    free_bytes: int | None
    utilisation: int | None  # per cent of the last moment during which it computed
    holders: tuple[Holder, ...]
    clock_mhz: int | None = None  # of its multiprocessors, now
    memory_clock_mhz: int | None = None
    highest_clock_mhz: int | None = None  # of its multiprocessors, ever

    def facts(self) -> dict[str, Any]:
        """What does not change, for provenance."""
        return {
            "name": self.name,
            "uuid": self.uuid,
            "driver": self.driver,
            "memory_bytes": self.total_bytes,
            "compute_capability": ".".join(map(str, self.capability)) if self.capability else None,
            "highest_clock_mhz": self.highest_clock_mhz,
        }

    def state(self) -> dict[str, Any]:
        """What changes, for the record of one trial."""
        return {
            "clock_mhz": self.clock_mhz,
            "memory_clock_mhz": self.memory_clock_mhz,
            "used_bytes": self.used_bytes,
        }


def visible_gpus(nvml: Any = None, environment: Mapping[str, str] | None = None) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order; empty without a GPU or without NVML.

    DeviceError if it names one that is not there or that NVML cannot look at. `nvml`: the module `pynvml`,
    or what stands for it.
    """
    with reading(nvml, environment) as read:
        return read()


@contextlib.contextmanager
def reading(
    nvml: Any = None, environment: Mapping[str, str] | None = None
) -> Iterator[Callable[[], tuple[Gpu, ...]]]:
    """The same, to be asked again and again while NVML stays open."""
    chosen = (os.environ if environment is None else environment).get(VARIABLE)
    with _session(nvml) as session:
        selected = () if session is None else select(session, chosen)

        def read() -> tuple[Gpu, ...]:
            if not selected:
                return ()
            try:
                return tuple(_read(session, one) for one in selected)
            except session.NVMLError as error:
                raise DeviceError(f"NVML does not answer: {error}") from error

        yield read


def facts(gpus: Sequence[Gpu]) -> dict[str, dict[str, Any]]:
    """The facts of each, by label."""
    return {gpu.label: gpu.facts() for gpu in gpus}


@contextlib.contextmanager
def _session(nvml: Any) -> Iterator[Any]:
    """NVML for the length of the block, or None where there is none."""
    if nvml is None:
        try:
            nvml = import_module("pynvml")
        except ImportError:
            yield None
            return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield None
        return
    try:
        yield nvml
    except nvml.NVMLError as error:
        raise DeviceError(f"NVML does not answer: {error}") from error
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _read(nvml: Any, selected: Selected) -> Gpu:
    handle, card = selected.handle, selected.card

    def asked(ask: Callable[[], T]) -> T | None:
        return known(nvml, ask)

    # Version 2 leaves out what the driver keeps for itself, which is nobody's use.
    memory = asked(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    memory = memory or asked(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    rates = asked(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    capability = asked(lambda: nvml.nvmlDeviceGetCudaComputeCapability(card))
    processes = asked(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
    return Gpu(
        label=selected.label,
        uuid=selected.uuid,
        name=_text(asked(lambda: nvml.nvmlDeviceGetName(handle))) or "unnamed",
        driver=_text(asked(nvml.nvmlSystemGetDriverVersion)),
        capability=tuple(capability) if capability else None,
        total_bytes=int(memory.total) if memory else None,
        used_bytes=int(memory.used) if memory else None,
        free_bytes=int(memory.free) if memory else None,
        utilisation=int(rates.gpu) if rates else None,
        holders=tuple(Holder(pid=one.pid, used_bytes=one.usedGpuMemory) for one in processes),
        clock_mhz=asked(lambda: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM)),
        memory_clock_mhz=asked(lambda: nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_MEM)),
        highest_clock_mhz=asked(lambda: nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_SM)),
    )


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
