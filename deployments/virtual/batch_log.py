"""The launches of a run, packed: what their requests were is in the columns of the requests."""

import struct
from typing import get_args

import numpy as np
import numpy.typing as npt

from deployments.dispatcher import Batch
from strategies.strategy import Trigger

TRIGGERS: tuple[str, ...] = get_args(Trigger)  # by code
LAUNCH = np.dtype(
    [("launched_s", "<f8"), ("size", "<i4"), ("cap", "<i4"), ("waiting", "<i4"), ("trigger", "<i4")]
)
_PACK = struct.Struct("<diiii").pack
_CODES = {trigger: code for code, trigger in enumerate(TRIGGERS)}


class BatchLog:
    """Appends launches in the order of their ids."""

    def __init__(self) -> None:
        self._packed = bytearray()

    def add(self, batch: Batch) -> None:
        """Append the next launch."""
        _, requests, trigger, cap, waiting_left, launched_s = batch
        self._packed += _PACK(launched_s, len(requests), cap, waiting_left, _CODES[trigger])

    def launches(self) -> npt.NDArray[np.void]:
        """Everything (dtype LAUNCH); nothing can be added afterwards."""
        return np.frombuffer(self._packed, dtype=LAUNCH)
