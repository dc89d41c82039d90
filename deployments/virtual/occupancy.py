"""Who held which slot over which steps: what the page draws as slot × step.

Slots are numbered from 0, and a free one of the lowest number is taken.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

Holding: TypeAlias = Literal["prefill", "decode", "padding", "finished", "waiting"]
HOLDINGS: tuple[Holding, ...] = get_args(Holding)  # by code
PREFILL, DECODE, PADDING, DONE, PUT_OFF = range(5)

STRETCH = np.dtype(
    [("slot", "<i8"), ("index", "<i8"), ("holding", "<i8"), ("first_step", "<i8"), ("end_step", "<i8")]
)


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


def stretches_of(rows: Iterable[tuple[int, ...]]) -> tuple[Stretch, ...]:
    """Rows of the dtype STRETCH, read."""
    return tuple(Stretch(slot, index, HOLDINGS[code], *steps) for slot, index, code, *steps in rows)
