"""What becomes of each request, in columns that an engine and the driver write into as time goes on."""

import math
from array import array

UNFINISHED, FINISHED, FAILED, REJECTED = range(4)
STATUSES = ("unfinished", "finished", "failed", "rejected")  # by code
CANNOT_FIT = "kv-cache"  # cause of a failure: the request is larger than the whole KV cache


class Outcomes:
    """One value per request: stamps in seconds (NaN: it did not happen), steps and counts.

    A request makes its tokens in the engine's steps `first_step` … `last_step`, numbered from 0, one in
    each but those of its `silences`: pairs of steps [from, to) in which it was put off.
    """

    def __init__(self, count: int) -> None:
        self.scheduled_s = array("d", [math.nan]) * count
        self.first_token_s = array("d", [math.nan]) * count
        self.last_token_s = array("d", [math.nan]) * count
        self.returned_s = array("d", [math.nan]) * count
        self.first_step = array("q", [-1]) * count
        self.last_step = array("q", [-1]) * count
        self.output_tokens = array("q", [0]) * count
        self.preemptions = array("q", [0]) * count
        self.batch_id = array("q", [-1]) * count
        self.status = bytearray(count)  # UNFINISHED
        self.errors: dict[int, tuple[str | None, str]] = {}  # cause and text
        self.silences: dict[int, list[int]] = {}

    def fail(self, index: int, cause: str, error: str, now_s: float) -> None:
        """End a request with an error."""
        self.returned_s[index] = now_s
        self.status[index] = FAILED
        self.errors[index] = (cause, error)

    def silence(self, index: int, from_step: int, to_step: int) -> None:
        """No token in these steps; a silence that goes on is one silence."""
        pairs = self.silences.setdefault(index, [])
        if pairs and pairs[-1] == from_step:
            pairs[-1] = to_step
        else:
            pairs += (from_step, to_step)
