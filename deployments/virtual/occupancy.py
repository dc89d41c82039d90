"""Who held which slot over which steps: what the page draws as slot × step."""

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal, TypeAlias

Holding: TypeAlias = Literal["prefill", "decode", "padding", "finished", "waiting"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """One request in one slot doing one thing over the steps [first_step, end_step).

    `padding`: a prefill step in which the row is all padding. `finished`: a row that is done, in a batch
    that is not. `waiting`: it holds its slot, and others take the step's tokens.
    """

    slot: int
    index: int
    holding: Holding
    first_step: int
    end_step: int


class OccupancyLog:
    """Stretches in order of their end. Slots are numbered from 0; a free one of the lowest number is taken."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self._free: list[int] = []
        self._slots = 0
        self._held: dict[int, tuple[int, Holding, int]] = {}  # slot, what for, since which step

    def hold(self, index: int, holding: Holding, step: int) -> None:
        """From this step on; the request takes a slot if it has none."""
        held = self._held.get(index)
        slot = self._take() if held is None else held[0]
        if held is not None:
            if held[1] == holding:
                return
            self._close(index, held, step)
        self._held[index] = (slot, holding, step)

    def leave(self, index: int, step: int) -> None:
        """The slot is free from this step on."""
        held = self._held.pop(index)
        self._close(index, held, step)
        heappush(self._free, held[0])

    def leave_all(self, step: int) -> None:
        """Every slot is free from this step on."""
        for index in list(self._held):
            self.leave(index, step)

    def _take(self) -> int:
        if self._free:
            return heappop(self._free)
        self._slots += 1
        return self._slots - 1

    def _close(self, index: int, held: tuple[int, Holding, int], step: int) -> None:
        slot, holding, since = held
        if step > since:
            self.stretches.append(Stretch(slot, index, holding, since, step))
