"""What is recorded of an attempt that failed, and what becomes of those of a process that is gone."""

from contextlib import suppress
from datetime import UTC, datetime

from deployments.errors import EngineDead, LaneGone, LoadError, ModelError, last_line
from experiments.errors import TrialError
from results.attempt import Attempt
from results.errors import DiskFull, StoreAway, StoreError
from results.records import Failure, LaneTime
from results.store import Store

_CAUSES: dict[type[BaseException], str] = {
    ModelError: "model",
    EngineDead: "engine-dead",
    LaneGone: "lane-gone",
    LoadError: "load",
    DiskFull: "disk-full",
    StoreAway: "store-away",
}
_END_ALL = {_CAUSES[error]: error for error in (DiskFull, StoreAway)}


def failure_of(
    attempt: Attempt, error: BaseException, *, permanent: bool, lane_time: LaneTime | None = None
) -> Failure:
    """The record; `permanent`: another try would fail too. Its cause is ours where we know one, else the class."""
    return _failure(attempt, cause_of(error), last_line(error), permanent=permanent, lane_time=lane_time)


def cause_of(error: BaseException) -> str:
    """The name of what went wrong: ours where we know one, else the class of the error."""
    if isinstance(error, TrialError):
        return error.cause
    from ray.exceptions import RayActorError

    gone = isinstance(error, RayActorError)  # what a call to a replica raises that is not there any more
    return _CAUSES.get(type(error), "engine-dead" if gone else type(error).__name__)


def ends_all(said: str | None) -> StoreError | None:
    """What a cell failed with, in words, as the error that ends a sweep: nothing more can be written."""
    cause, _, text = (said or "").partition(": ")
    return _END_ALL[cause](text) if cause in _END_ALL else None


def fail_killed(store: Store, cell_id: str, lane_time: LaneTime | None = None) -> None:
    """Record the newest attempt of a cell as failed if the process that ran it is gone and could not."""
    with suppress(StoreError):  # it would not count anyway
        if (attempt := store.open_attempt(cell_id)) is not None:
            text = "the process of the trial was killed, as systems do that run out of memory"
            failure = _failure(attempt, "process-killed", text, permanent=False, lane_time=lane_time)
            attempt.fail(failure)


def _failure(
    attempt: Attempt, cause: str, error: str, *, permanent: bool, lane_time: LaneTime | None
) -> Failure:
    return Failure(
        cell_id=attempt.cell_id,
        attempt=attempt.number,
        cause=cause,
        error=error,
        permanent=permanent,
        failed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        lane_time=lane_time,
    )
