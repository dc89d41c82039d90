"""The backend side of the error tree; foreign errors are mapped to it once, `from exc`."""


class BackendError(Exception):
    """A backend could not do what it was asked."""


class ModelError(BackendError):
    """A model cannot be found or loaded: permanent, never retried."""


class DeviceError(BackendError):
    """A GPU that was asked for is not there, or is taken by others: nothing is started."""


class JobError(BackendError):
    """A cluster's job API does not answer, refuses, or knows no such job."""


class OutOfMemory(BackendError):
    """A batch did not fit: it returns to its place in the queue and the cap is halved.

    `ran`: how many requests were in an engine that others join; one failure is then raised, as the same
    object, in every batch that had a part in it.
    """

    def __init__(self, text: str, *, ran: int | None = None) -> None:
        super().__init__(text)
        self.ran = ran


class EngineDead(BackendError):
    """The engine is gone: the trial fails and its lane is condemned."""


class LoadError(BackendError):
    """A lane cannot load what another may: the trial fails, and is tried again there."""


class LaneGone(BackendError):
    """The node that the lane was on is gone: the trial fails, and is tried again on another."""


def last_line(error: BaseException) -> str:
    """What an error says that came through Ray, which puts a traceback above it; or the name of its class."""
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
