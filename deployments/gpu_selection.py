"""CUDA_VISIBLE_DEVICES as CUDA reads it, except that what CUDA drops in silence is an error here.

Indexes or the beginning of a UUID, by commas; "" or "-1" ends the list. A GPU that is split (MIG) has to be
named by the UUID of one of its instances, because CUDA would take the first instance of all and no other.
https://docs.nvidia.com/cuda/cuda-c-programming-guide (CUDA environment variables)

Only the cards that are named are asked anything: another one may be lost.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from deployments.errors import DeviceError

VARIABLE = "CUDA_VISIBLE_DEVICES"
NUMBERING = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # as NVML and nvidia-smi number; not "the fastest first"
_NONE = ("", "-1", "NoDevFiles")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A device to be used: its handle, and the card's, which differ for an instance of a split card."""

    label: str  # the index of a card, the UUID of an instance: what each reader of VARIABLE understands
    uuid: str | None  # None where NVML does not say
    handle: Any
    card: Any


def select(nvml: Any, chosen: str | None) -> list[Selected]:
    """What `chosen` (None: all) names, in its order. DeviceError if that is not there, is lost or is split."""
    count = nvml.nvmlDeviceGetCount()
    names = [str(index) for index in range(count)] if chosen is None else _names(chosen)
    selected = [_one(nvml, count, name) for name in names]
    if len({one.label for one in selected}) < len(selected):
        raise DeviceError(f"{VARIABLE} must name each GPU once, got {chosen}")
    return selected


def known(nvml: Any, ask: Callable[[], T]) -> T | None:
    """What NVML answers; None where the device does not support it, or it is not allowed. NVMLError if it is lost."""
    try:
        return ask()
    except nvml.NVMLError as error:
        if isinstance(error, nvml.NVMLError_GpuIsLost):
            raise
        return None


@contextmanager
def only(labels: Sequence[str]) -> Iterator[None]:
    """For the length of the block this process, and what it starts, sees these GPUs and no others.

    Ray and vLLM look a name up that CUDA would take, and do not know the beginning of a UUID.
    """
    wanted = {VARIABLE: ",".join(labels), **NUMBERING}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _names(chosen: str) -> list[str]:
    names = []
    for name in chosen.split(","):
        if name.strip() in _NONE:
            break
        names.append(name.strip())
    return names


def _one(nvml: Any, count: int, name: str) -> Selected:
    if name.startswith("MIG-"):
        return _instance(nvml, count, name)
    if name.isdecimal():
        found = [(int(name), _card(nvml, count, int(name)))] if int(name) < count else []
    else:
        found = [(index, card) for index, card in _cards(nvml, count) if _begins(nvml, card, name)]
    if len(found) != 1:
        raise DeviceError(f"{VARIABLE} must name GPUs of this machine ({_here(nvml, count)}), got {name}")
    index, card = found[0]
    if _is_split(nvml, card):
        instances = ", ".join(_uuids(nvml, card))
        raise DeviceError(
            f"GPU {name} is split (MIG): {VARIABLE} must name one of its instances: {instances or 'it has none'}"
        )
    return Selected(label=str(index), uuid=_uuid(nvml, card), handle=card, card=card)


def _instance(nvml: Any, count: int, name: str) -> Selected:
    for _, card in _cards(nvml, count):
        for instance in _instances(nvml, card):
            if _uuid(nvml, instance) == name:
                return Selected(label=name, uuid=name, handle=instance, card=card)
    raise DeviceError(
        f"{VARIABLE} must name a MIG instance of this machine ({_here(nvml, count)}), got {name}"
    )


def _card(nvml: Any, count: int, index: int) -> Any:
    try:
        return _handle(nvml, index)
    except nvml.NVMLError as error:
        rest = ",".join(str(other) for other, _ in _cards(nvml, count))
        way_out = f"leave it out with {VARIABLE}={rest}" if rest else "`nvidia-smi` must list one that works"
        raise DeviceError(f"GPU {index} cannot be used: {error}; {way_out}") from error


def _handle(nvml: Any, index: int) -> Any:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    _uuid(nvml, handle)  # a lost one may have a handle, and answers nothing
    return handle


def _cards(nvml: Any, count: int) -> Iterator[tuple[int, Any]]:
    """Those that can be looked at, with their indexes."""
    for index in range(count):
        try:
            yield index, _handle(nvml, index)
        except nvml.NVMLError:  # lost: no name fits it
            continue


def _begins(nvml: Any, card: Any, name: str) -> bool:
    uuid = _uuid(nvml, card)
    return name.startswith("GPU-") and uuid is not None and uuid.startswith(name)


def _is_split(nvml: Any, card: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(card)[0])
    except nvml.NVMLError:  # most cards cannot be
        return False


def _instances(nvml: Any, card: Any) -> Iterator[Any]:
    if not _is_split(nvml, card):
        return
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
        try:
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index)
        except nvml.NVMLError:  # places may be empty
            continue


def _uuids(nvml: Any, card: Any) -> list[str]:
    return [uuid for one in _instances(nvml, card) if (uuid := _uuid(nvml, one)) is not None]


def _uuid(nvml: Any, handle: Any) -> str | None:
    uuid = known(nvml, lambda: nvml.nvmlDeviceGetUUID(handle))
    return uuid.decode() if isinstance(uuid, bytes) else uuid


def _here(nvml: Any, count: int) -> str:
    """The names that would be right."""
    names = []
    for index, card in _cards(nvml, count):
        names += _uuids(nvml, card) if _is_split(nvml, card) else [str(index)]
    return ", ".join(names) if names else "it has none"
