"""CUDA_VISIBLE_DEVICES as CUDA reads it, except that what CUDA drops in silence is an error here.

Indexes or the beginning of a UUID, by commas; "" or "-1" ends the list. A GPU that is split (MIG) has to be
named by the UUID of one of its instances, because CUDA would take the first instance of all and no other.
https://docs.nvidia.com/cuda/cuda-c-programming-guide (CUDA environment variables)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deployments.errors import DeviceError

VARIABLE = "CUDA_VISIBLE_DEVICES"
_NONE = ("", "-1", "NoDevFiles")


@dataclass(frozen=True, slots=True)
class Selected:
    """A device to be used: its handle, and the card's, which differ for an instance of a split card."""

    label: str
    handle: Any
    card: Any


def select(nvml: Any, chosen: str | None) -> list[Selected]:
    """What `chosen` (None: all) names, in its order. DeviceError if that is not there, or is split."""
    cards = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    names = [str(index) for index in range(len(cards))] if chosen is None else _names(chosen)
    selected = [_one(nvml, cards, name) for name in names]
    twice = {one.label for one in selected if sum(_same(nvml, one, other) for other in selected) > 1}
    if twice:
        raise DeviceError(f"{VARIABLE} must name each GPU once, got {chosen}")
    return selected


def _names(chosen: str) -> list[str]:
    names = []
    for name in chosen.split(","):
        if name.strip() in _NONE:
            break
        names.append(name.strip())
    return names


def _one(nvml: Any, cards: list[Any], name: str) -> Selected:
    if name.startswith("MIG-"):
        for card in cards:
            for instance in _instances(nvml, card):
                if _uuid(nvml, instance) == name:
                    return Selected(name, instance, card)
        raise DeviceError(
            f"{VARIABLE} must name a MIG instance of this machine ({_here(nvml, cards)}), got {name}"
        )
    if name.isdecimal():
        found = cards[int(name) : int(name) + 1]
    else:
        found = [card for card in cards if name.startswith("GPU-") and _uuid(nvml, card).startswith(name)]
    if len(found) != 1:
        raise DeviceError(f"{VARIABLE} must name GPUs of this machine ({_here(nvml, cards)}), got {name}")
    if _is_split(nvml, found[0]):
        instances = ", ".join(_uuid(nvml, instance) for instance in _instances(nvml, found[0]))
        raise DeviceError(
            f"GPU {name} is split (MIG): {VARIABLE} must name one of its instances: {instances or 'it has none'}"
        )
    return Selected(name, found[0], found[0])


def _same(nvml: Any, one: Selected, other: Selected) -> bool:
    return _uuid(nvml, one.handle) == _uuid(nvml, other.handle)


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


def _uuid(nvml: Any, handle: Any) -> str:
    uuid = nvml.nvmlDeviceGetUUID(handle)
    return uuid.decode() if isinstance(uuid, bytes) else str(uuid)


def _here(nvml: Any, cards: list[Any]) -> str:
    """The names that would be right."""
    names = []
    for index, card in enumerate(cards):
        names += (
            [_uuid(nvml, one) for one in _instances(nvml, card)] if _is_split(nvml, card) else [str(index)]
        )
    return ", ".join(names) if names else "it has none"
