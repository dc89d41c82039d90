"""NVML as far as it is asked here, on cards that are written down; what a card lacks is an NVMLError."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

GIB = 2**30


@dataclass
class Card:
    """A GPU, or with `instances` one that is split. `used` as `nvidia-smi` shows it."""

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    capability: tuple[int, int] = (9, 0)
    total: int = 80 * GIB
    used: int = 0
    processes: list[tuple[int, int | None]] = field(default_factory=list)
    instances: "list[Card | None] | None" = None
    is_instance: bool = False
    lost: Literal["at once", "later"] | None = None  # whether it has no handle, or one that answers nothing
    silent: bool = False  # about everything that a device may not support


class NVMLError(Exception):
    """What pynvml raises."""


class GpuIsLost(NVMLError):
    """One of its kinds."""


class FakeNvml:
    """Stands for the module `pynvml`."""

    NVMLError = NVMLError
    NVMLError_GpuIsLost = GpuIsLost
    nvmlMemory_v2 = 2  # noqa: N815 - NVML's name
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, *cards: Card, driver: bool = True, old: bool = False) -> None:
        """`driver`: whether there is one; `old`: one that knows no second version, and answers in bytes."""
        self.cards, self.driver, self.old = list(cards), driver, old
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> Any:  # noqa: N802
        if any(card.silent for card in self.cards):
            raise NVMLError("Not Supported")
        return self._text("580.65.06")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        assert self.open
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:  # noqa: N802
        if self.cards[index].lost == "at once":
            raise GpuIsLost("GPU is lost")
        return self.cards[index]

    def nvmlDeviceGetUUID(self, card: Card) -> Any:  # noqa: N802
        self._answers(card)
        return self._text(card.uuid)

    def nvmlDeviceGetName(self, card: Card) -> Any:  # noqa: N802
        self._answers(card)
        return self._text(card.name)

    def nvmlDeviceGetMemoryInfo(self, card: Card, version: int | None = None) -> Any:  # noqa: N802
        self._answers(card)
        if version is not None and self.old:
            raise NVMLError("Function Not Found")
        reserved = 0 if version else GIB // 2
        return SimpleNamespace(
            total=card.total, used=card.used + reserved, free=card.total - card.used - reserved
        )

    def nvmlDeviceGetUtilizationRates(self, card: Card) -> Any:  # noqa: N802
        self._answers(card, not card.is_instance)
        return SimpleNamespace(gpu=17, memory=3)

    def nvmlDeviceGetClockInfo(self, card: Card, clock: int) -> int:  # noqa: N802
        self._answers(card, not card.is_instance)
        return {self.NVML_CLOCK_SM: 1335, self.NVML_CLOCK_MEM: 2619}[clock]

    def nvmlDeviceGetMaxClockInfo(self, card: Card, clock: int) -> int:  # noqa: N802
        return self.nvmlDeviceGetClockInfo(card, clock) + 645

    def nvmlDeviceGetCudaComputeCapability(self, card: Card) -> tuple[int, int]:  # noqa: N802
        self._answers(card, not card.is_instance)
        return card.capability

    def nvmlDeviceGetComputeRunningProcesses(self, card: Card) -> list[Any]:  # noqa: N802
        self._answers(card)
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in card.processes]

    def nvmlDeviceGetMigMode(self, card: Card) -> tuple[int, int]:  # noqa: N802
        self._answers(card, card.instances is not None)
        return 1, 1

    def nvmlDeviceGetMaxMigDeviceCount(self, card: Card) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: Card, index: int) -> Card:  # noqa: N802
        found = card.instances[index] if card.instances and index < len(card.instances) else None
        if found is None:
            raise NVMLError("Not Found")
        return found

    def _answers(self, card: Card, supported: bool = True) -> None:
        if card.lost:
            raise GpuIsLost("GPU is lost")
        if card.silent or not supported:
            raise NVMLError("Not Supported")

    def _text(self, value: str) -> Any:
        return value.encode() if self.old else value
