"""The open-loop client: every request leaves at its planned time, whatever the server does.

Deadlines are absolute (start + planned), so that one late request does not push the others; how late each
was is recorded (`sent_s`) and judged later. A call that raises is a failed request, and ends the sending
where it says that the replica or its engine is gone.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from deployments.backends.backend import Output, Work
from deployments.errors import last_line
from deployments.service import Reply
from workloads.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request as the client saw it; client stamps in seconds from trial start."""

    request: Request
    sent_s: float
    received_s: float
    reply: Reply | None  # None: the call itself failed
    error: str | None = None
    cause: str | None = None


class Client:
    """Sends a workload to one replica and hands each exchange over when it ends."""

    def __init__(
        self,
        generate: Callable[[Work, int], Awaitable[Reply]],
        name: Callable[[Request], str],
        ended: Callable[[Exchange], None],
    ) -> None:
        """`generate(work, max_new_tokens)` is the call; `name` gives a request its id."""
        self.sent = 0
        self.lost: str | None = None  # why sending stopped: the replica or engine is gone
        self.start_s = 0.0  # the client's clock at trial start
        self._generate, self._name, self._ended = generate, name, ended
        self._calls: set[asyncio.Task[None]] = set()
        self._settled = asyncio.Event()  # no call is open, or it makes no sense to wait for them

    async def send(self, requests: Sequence[Request]) -> None:
        """Send all requests at their planned times; returns when the last one left."""
        self.start_s = time.monotonic()
        for request in requests:
            delay_s = self.start_s + request.planned_s - time.monotonic()
            await asyncio.sleep(max(0.0, delay_s))  # also when late: what was sent before leaves first
            if self.lost is not None:
                return
            call = asyncio.create_task(self._exchange(request))
            self._calls.add(call)
            call.add_done_callback(self._call_ended)
            self.sent += 1

    async def drain(self, until_s: float) -> bool:
        """Wait for all replies, at most until `until_s` from trial start; True if none is left.

        Gives up at once when the replica or engine is lost.
        """
        if self._calls and self.lost is None:
            self._settled.clear()
            timeout_s = max(0.0, self.start_s + until_s - time.monotonic())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), timeout_s)
        return not self._calls

    def cancel(self) -> None:
        """Give up the calls that are still open; they hand over nothing."""
        for call in self._calls:
            call.cancel()

    def _call_ended(self, call: "asyncio.Task[None]") -> None:
        self._calls.discard(call)
        if not self._calls or self.lost is not None:
            self._settled.set()

    async def _exchange(self, request: Request) -> None:
        work = Work(
            request_id=self._name(request),
            prompt_ids=request.prompt_ids,
            output_tokens=request.output_tokens,
            priority=request.priority,
            ttft_target_s=request.ttft_target_s,
        )
        sent_s = time.monotonic() - self.start_s
        reply: Reply | None = None
        error = cause = None
        try:
            reply = await self._generate(work, request.max_new_tokens)
        except Exception as raised:  # noqa: BLE001 - the replica is gone: a row, and the end of sending
            cause = type(raised).__name__
            error = last_line(raised)
            self.lost = f"{cause}: {error}"
        else:
            if _fatal(reply.output):
                self.lost = f"{reply.output.cause}: {reply.output.error}"
        self._ended(
            Exchange(
                request=request,
                sent_s=sent_s,
                received_s=time.monotonic() - self.start_s,
                reply=reply,
                error=error,
                cause=cause,
            )
        )


def _fatal(output: Output) -> bool:
    return output.cause in ("engine-dead", "other-trial")
