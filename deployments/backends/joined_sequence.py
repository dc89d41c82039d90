"""One request inside an engine that re-forms its batch: its ids, and the moment at which each came.

The engine's thread adds tokens while the event loop may cut the request. An id is added before its stamp,
and only ids that have a stamp are read, so that both agree at any moment.
"""

import asyncio
import time
from dataclasses import dataclass, field

from deployments.backends.backend import Output, Status, Work
from deployments.errors import BackendError


@dataclass(slots=True, eq=False)
class JoinedSequence:
    """What the engine preempts and begins again keeps what it has here."""

    work: Work
    engine_id: str  # the engine's own; a request id may come again in a later attempt
    ended: "asyncio.Future[Output | BackendError]"  # an error: of its batch, or of the engine
    batch: "list[JoinedSequence]"  # those that were released with it, itself among them
    scheduled_s: float | None = None  # first put into a batch
    preemptions: int = 0
    _ids: list[int] = field(default_factory=list)
    _token_s: list[float] = field(default_factory=list)

    @property
    def left(self) -> Work:
        """What an engine that has lost it is asked for: to go on after the tokens that it has."""
        done = self._ids[: len(self._token_s)]
        return Work(
            request_id=self.work.request_id,
            prompt_ids=[*self.work.prompt_ids, *done],
            output_tokens=self.work.output_tokens - len(done),
        )

    def add(self, token_id: int, now_s: float) -> None:
        """One more token, in the engine's thread."""
        self._ids.append(token_id)
        self._token_s.append(now_s)

    def end(self, status: Status, cause: str | None = None, error: str | None = None) -> None:
        """Resolve with what there is, in the event loop; harmless when it has ended before."""
        if self.ended.done():
            return
        token_s = tuple(self._token_s)
        length, wanted = len(token_s), self.work.output_tokens
        if status == "finished" and length != wanted:
            status, cause = "failed", "wrong-length"
            error = f"asked for {wanted} tokens, got {length}"
        output = Output(
            request_id=self.work.request_id,
            status=status,
            scheduled_s=self.scheduled_s,
            token_s=token_s,
            output_ids=tuple(self._ids[:length]),
            returned_s=time.monotonic(),
            preemptions=self.preemptions,
            error=error,
            cause=cause,
        )
        self.ended.set_result(output)

    def lose(self, error: BackendError) -> None:
        """It has no end of its own: its batch raises this."""
        if not self.ended.done():
            self.ended.set_result(error)
