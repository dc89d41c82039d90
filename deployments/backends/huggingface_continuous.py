"""transformers' continuous batching: an engine that re-forms its batch at each step, in a thread of this process.

Requests join and leave between two forward passes. The thread counts and stamps (`paged_passes`) and tells
this object what has ended, which answers in the event loop; an aborted request is answered at once and
leaves the engine before its next pass. If the loop crashes, `run` raises EngineDead: what was delivered
until then stands, the rest of the batch is undelivered and is the caller's to fail.

A pass that runs out of memory empties the engine, and every batch of which nothing was delivered raises
OutOfMemory. Of the others what is left goes on after the tokens that it has, one request at a time; one that
runs out of memory alone has failed.
"""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deployments.backends.backend import EngineStep, Limits, Memory, Output, Work, invalid, refused
from deployments.backends.blocking_call import BlockingCall
from deployments.backends.engine_args import HuggingFaceContinuousArgs
from deployments.backends.joined_sequence import JoinedSequence
from deployments.backends.open_runs import OpenRuns
from deployments.backends.paged_passes import PassRecorder
from deployments.backends.starting import Starting
from deployments.errors import BackendError, EngineDead, OutOfMemory
from deployments.models import ModelSpec
from results.errors import one_line

if TYPE_CHECKING:
    from deployments.backends.paged_engine import PagedEngine


ROOM = "smaller kv_blocks or max_num_batched_tokens need less"


class HuggingFaceContinuous:
    """Backend (see the protocol) on a GPU if there is one, else on the CPU."""

    joinable = True

    def __init__(self, model: ModelSpec, args: HuggingFaceContinuousArgs) -> None:
        self._spec, self._args = model, args
        self._passes = PassRecorder()
        self._runs = OpenRuns()
        self._starting = Starting()
        self._engine_ids = map(str, itertools.count())
        self._engine: PagedEngine | None = None
        self._death = ""
        self._held: deque[JoinedSequence] = deque()  # open, and not in the engine
        self._resumed = ""  # the engine's id of the last that was held
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Load within `start_deadline_s`. ModelError if it never can, BackendError if it did not."""
        if self._engine is not None:
            raise BackendError("this backend has already been started")
        await self._starting.run(self._begin())

    async def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        deadline_s = self._args.start_deadline_s
        loading = BlockingCall(self._load, discard=lambda late: late.end())
        try:
            self._engine = await asyncio.wait_for(loading.result(), deadline_s)
        except TimeoutError as exc:
            raise BackendError(f"model {self._spec.name} did not load within {deadline_s:g} s") from exc
        self._engine.manager.begin()

    @property
    def limits(self) -> Limits:
        """The vocabulary, and the context that fits the model and the KV cache."""
        return self._started().limits

    @property
    def setup(self) -> Mapping[str, Any]:
        """Effective values, known after `start`."""
        return self._started().setup

    async def run(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        """Add all at once, in order. EngineDead and OutOfMemory as the module's docstring says."""
        engine = self._alive()
        reasons = [invalid(work, engine.limits) for work in batch]
        joined: list[JoinedSequence] = []
        with self._runs.entered(lambda: self._cut(engine, joined)):
            for work, reason in zip(batch, reasons, strict=True):
                if reason is None:
                    self._join(engine, work, joined)
            lost: BackendError | None = None
            for ended in asyncio.as_completed([sequence.ended for sequence in joined]):
                if isinstance(output := await ended, Output):
                    done(output)
                else:
                    lost = output
            if lost is not None:
                raise lost
            for work, reason in zip(batch, reasons, strict=True):
                if reason is not None:
                    done(refused(work, reason))

    async def abort(self) -> None:
        """Answer what is open with what it has; the engine drops it before its next pass."""
        await self._runs.cut()

    async def check(self) -> None:
        """EngineDead unless the loop runs and, when it is idle, the device answers."""
        engine = self._alive()
        if self._passes.open:
            return
        try:
            await BlockingCall(engine.synchronise).result()
        except RuntimeError as exc:
            raise EngineDead(f"the device does not answer: {one_line(exc)}") from exc

    def take_steps(self) -> list[EngineStep]:
        """The forward passes since the last call."""
        return self._passes.take()

    def reset_memory(self) -> None:
        """Forget the peak use of the KV cache."""
        self._passes.peak_kv_use = 0.0

    def memory(self) -> Memory:
        """Peak use of the KV cache in any pass; it is reserved at the start whatever is used."""
        share, total_bytes = self._passes.peak_kv_use, self._started().kv_cache_bytes
        return Memory(
            peak_bytes=round(share * total_bytes),
            kind="kv-cache",
            detail={"peak_share": share, "cache_bytes": total_bytes},
        )

    async def close(self) -> None:
        """Cut what runs, end the thread and give the memory back; harmless when there is none."""
        await self._starting.give_up()
        await self.abort()
        engine, self._engine = self._engine, None
        if engine is not None:
            await BlockingCall(engine.end).result()

    def _load(self) -> "PagedEngine":
        from deployments.backends.paged_engine import PagedEngine  # torch: seconds of import

        return PagedEngine(self._spec, self._args, self._passes, self)

    def _started(self) -> "PagedEngine":
        if self._engine is None:
            raise EngineDead("the engine is not running: it was not started, or it was closed")
        return self._engine

    def _alive(self) -> "PagedEngine":
        engine = self._started()
        if self._death or not engine.manager.is_running():  # its thread may still be ending
            raise EngineDead(self._death or "the generation loop has ended")
        return engine

    def _join(self, engine: "PagedEngine", work: Work, batch: list[JoinedSequence]) -> None:
        ended: asyncio.Future[Output | BackendError] = asyncio.get_running_loop().create_future()
        sequence = JoinedSequence(work, next(self._engine_ids), ended, batch)
        batch.append(sequence)
        self._passes.open[sequence.engine_id] = sequence
        self._add(engine, sequence)

    def _add(self, engine: "PagedEngine", sequence: JoinedSequence) -> None:
        """Refused while the loop is about to stop; `stopped` then answers for this request too."""
        work = sequence.left
        engine.manager.add_request(
            list(work.prompt_ids), request_id=sequence.engine_id, max_new_tokens=work.output_tokens
        )

    def _cut(self, engine: "PagedEngine", joined: Sequence[JoinedSequence]) -> None:
        for sequence in joined:
            if self._passes.open.pop(sequence.engine_id, None) is not None:
                engine.manager.cancel_request(sequence.engine_id)
                sequence.end("unfinished")
        self._resume()

    def finished(self, engine_ids: Sequence[str]) -> None:
        """In the engine's thread: these have their last token."""
        self._tell(self._answer, engine_ids)

    def failed(self, engine_id: str, error: str) -> None:
        """In the engine's thread: this one alone could not be run."""
        self._tell(self._fail, engine_id, error)

    def out_of_memory(self, engine_ids: Sequence[str], error: str) -> None:
        """In the engine's thread: a pass did not fit, and the engine is empty."""
        self._tell(self._empty, engine_ids, error)

    def stopped(self, error: BaseException | None) -> None:
        """In the engine's thread: the loop has ended."""
        self._tell(self._die, error)

    def _tell(self, call: Callable[..., None], *arguments: Any) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _answer(self, engine_ids: Sequence[str]) -> None:
        for engine_id in engine_ids:
            if (sequence := self._passes.open.pop(engine_id, None)) is not None:
                sequence.end("finished")
        self._resume()

    def _fail(self, engine_id: str, error: str) -> None:
        if (sequence := self._passes.open.pop(engine_id, None)) is not None:
            sequence.end("failed", "engine-error", error)
        self._resume()

    def _empty(self, engine_ids: Sequence[str], error: str) -> None:
        """Batches that are whole go back; the rest is held. What came meanwhile was on its way in: it too."""
        if self._engine is None:
            return
        passes, ran = self._passes, len(engine_ids)
        failure = OutOfMemory(f"{error} (requests in the engine: {ran}; {ROOM})", ran=ran)
        was_open, self._held = list(passes.open.items()), deque()
        whole = {
            key for key, sequence in was_open if not any(beside.ended.done() for beside in sequence.batch)
        }
        for key, sequence in was_open:
            self._engine.manager.cancel_request(key)
            del passes.open[key]
            if key in whole:
                sequence.lose(failure)
            elif [key] == list(engine_ids):
                sequence.end("failed", "out-of-memory", str(failure))
            elif sequence.left.output_tokens:
                sequence.engine_id = next(self._engine_ids)  # what is cancelled is on its way too
                sequence.preemptions += key in engine_ids
                passes.open[sequence.engine_id] = sequence
                self._held.append(sequence)
            else:
                sequence.end("finished")
        self._resume()

    def _resume(self) -> None:
        """The next that is held, when the last one has ended."""
        if self._engine is None or self._resumed in self._passes.open:
            return
        while self._held:
            sequence = self._held.popleft()
            if sequence.engine_id in self._passes.open:  # not cut meanwhile
                self._resumed = sequence.engine_id
                self._add(self._engine, sequence)
                return

    def _die(self, error: BaseException | None) -> None:
        reason = f": {one_line(error)}" if isinstance(error, Exception) else ""
        self._death = f"the generation loop has ended{reason}"
        while self._passes.open:
            _, sequence = self._passes.open.popitem()
            sequence.lose(EngineDead(self._death))
