"""What becomes of each request, in columns that an engine and the driver write into as time goes on."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

UNFINISHED, FINISHED, FAILED, REJECTED = range(4)
STATUSES = ("unfinished", "finished", "failed", "rejected")  # by code
CANNOT_FIT = "kv-cache"  # cause of a failure: the request is larger than the whole KV cache

Records: TypeAlias = Any  # a structured array, whose fields numpy's types do not know

OUTCOME = np.dtype(
    [
        ("scheduled_s", "<f8"),  # stamps; NaN: it did not happen
        ("first_token_s", "<f8"),
        ("last_token_s", "<f8"),
        ("returned_s", "<f8"),
        ("first_step", "<i8"),  # of the engine's, from 0; -1 likewise
        ("last_step", "<i8"),
        ("output_tokens", "<i8"),  # made
        ("preemptions", "<i4"),
        ("status", "<i4"),
    ]
)
SILENCE = np.dtype([("index", "<i8"), ("from_step", "<i8"), ("to_step", "<i8")])


class Outcomes:
    """One row per request (dtype OUTCOME), and the errors of those that failed or were rejected.

    A request makes its tokens in the engine's steps `first_step` … `last_step`, one in each but those of its
    silences (dtype SILENCE): steps [from, to) in which it was put off.
    """

    def __init__(self, count: int) -> None:
        self.rows: Records = np.zeros(count, dtype=OUTCOME)
        for name in ("scheduled_s", "first_token_s", "last_token_s", "returned_s"):
            self.rows[name] = np.nan
        for name in ("first_step", "last_step"):
            self.rows[name] = -1
        self.errors: dict[int, tuple[str | None, str]] = {}  # cause and text

    def end(self, index: int, status: int, cause: str | None, error: str, now_s: float) -> None:
        """End a request with an error."""
        self.rows["returned_s"][index] = now_s
        self.rows["status"][index] = status
        self.errors[index] = (cause, error)


def in_order(silences: Records) -> npt.NDArray[np.void]:
    """By request, and those of one in order of time, without empty ones."""
    some: npt.NDArray[np.void] = silences[silences["to_step"] > silences["from_step"]]
    return some[np.argsort(some["index"], kind="stable")]
