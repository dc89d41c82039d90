"""The launches of a run, in columns."""

from array import array

from deployments.dispatcher import Batch


class BatchLog:
    """One value per batch, by its id; what its requests were is in their own columns."""

    def __init__(self) -> None:
        self.size = array("q")
        self.trigger: list[str] = []
        self.cap = array("q")
        self.waiting = array("q")
        self.launched_s = array("d")

    def add(self, batch: Batch) -> None:
        """Append the next launch."""
        self.size.append(len(batch.requests))
        self.trigger.append(batch.trigger)
        self.cap.append(batch.cap)
        self.waiting.append(batch.waiting_left)
        self.launched_s.append(batch.launched_s)
