"""What is recorded of an attempt that failed."""

from datetime import UTC, datetime

from deployments.errors import EngineDead, LaneGone, ModelError, last_line
from experiments.errors import TrialError
from results.attempt import Attempt
from results.errors import DiskFull
from results.records import Failure

_CAUSES: dict[type[BaseException], str] = {
    ModelError: "model",
    EngineDead: "engine-dead",
    LaneGone: "lane-gone",
    DiskFull: "disk-full",
}


def failure_of(attempt: Attempt, error: BaseException, *, permanent: bool) -> Failure:
    """The record; `permanent`: another try would fail too. Its cause is ours where we know one, else the class."""
    cause = error.cause if isinstance(error, TrialError) else _CAUSES.get(type(error), type(error).__name__)
    return Failure(
        cell_id=attempt.cell_id,
        attempt=attempt.number,
        cause=cause,
        error=last_line(error),
        permanent=permanent,
        failed_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
