"""The dispatcher driven by an asyncio loop: queue → decide → launch → complete, in real time.

One of the two drivers of `Dispatcher` (the other runs in virtual time). It owns the requests' futures and
nothing else: decisions are the strategy's, the cap is the dispatcher's, tokens are the backend's. Times are
seconds of `time.monotonic`, which is also the clock of an asyncio loop and of every backend.
"""

import asyncio
import dataclasses
import math
import time
from dataclasses import dataclass

from deployments.backends.backend import Backend, EngineStep, Output, Work, invalid
from deployments.dispatcher import Batch, Dispatcher, Rejection
from deployments.errors import EngineDead, OutOfMemory
from strategies.kv_budget import KVBudget
from strategies.strategy import Strategy, Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a caller gets back in one piece: the output, and how it came through the queue."""

    output: Output
    arrived_s: float
    batch_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """One launch: what was released together, why, and how it ended."""

    batch: Batch
    outputs: tuple[int, ...]  # tokens made for each request, for the waste of a lockstep batch
    ended_s: float
    out_of_memory: bool


@dataclass(slots=True)
class _Open:
    work: Work
    arrived_s: float
    future: "asyncio.Future[Reply]"
    batch_id: int | None = None


class Service:
    """One strategy in front of one started backend, for the length of one trial."""

    def __init__(
        self,
        backend: Backend,
        strategy: Strategy,
        *,
        max_batch_size: int,
        expected: int,
        kv: KVBudget | None = None,
    ) -> None:
        """`expected`: arrivals until the queue is closed (a closing call could overtake the last one)."""
        self.backend = backend
        self.dispatcher = Dispatcher(
            strategy, max_batch_size=max_batch_size, joinable=backend.joinable, kv=kv
        )
        self._expected = expected
        self.dispatcher.close(expected)
        self.runs: list[BatchRun] = []
        self.steps: list[EngineStep] = []
        self._delivered = self._stepped = 0  # output tokens: of what has ended, and of the engine's own steps
        self.min_cap: int | None = None  # the smallest cap that out-of-memory forced
        self.dead: EngineDead | None = None
        self._failure: OutOfMemory | None = None  # the last, which several batches may share
        self._open: dict[str, _Open] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._aborted = False

    async def submit(self, work: Work, max_new_tokens: int) -> Reply:
        """Queue one request and wait for its end; failures are replies, never exceptions."""
        arrived_s = time.monotonic()
        waiting = Waiting(
            request_id=work.request_id,
            prompt_tokens=len(work.prompt_ids),
            max_new_tokens=max_new_tokens,
            arrived_s=arrived_s,
            priority=work.priority,
            ttft_deadline_s=math.inf if work.ttft_target_s is None else arrived_s + work.ttft_target_s,
        )
        request = _Open(work, arrived_s, asyncio.get_running_loop().create_future())
        if (ended := self._refusal(work)) is not None:
            self._expected -= 1
            self.dispatcher.close(self._expected)
            self._pump()
            return Reply(output=ended, arrived_s=arrived_s, batch_id=None)
        self.dispatcher.arrive(waiting, arrived_s)  # first: it refuses an id that is here already
        self._open[work.request_id] = request
        self._pump()
        return await request.future

    async def abort(self) -> None:
        """End everything: what waits or runs is answered `unfinished`, and the backend is left idle.

        EngineDead if the backend cannot; every caller has its answer then too.
        """
        self._aborted = True
        self._cancel_timer()
        try:
            await self.backend.abort()
        except Exception as error:
            dead = EngineDead(f"the engine could not be stopped: {str(error) or type(error).__name__}")
            self._die(dead)
            raise dead from error
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        for waiting in self.dispatcher.abandon():  # last: a batch out of memory came back to the queue
            self._resolve(Output(request_id=waiting.request_id, status="unfinished"))

    def collect_steps(self) -> None:
        """Take over the engine's own steps so far."""
        taken = self.backend.take_steps()
        self._stepped += sum(step.tokens for step in taken)
        self.steps.extend(taken)

    @property
    def tokens(self) -> int:
        """Output tokens made so far, by the steps collected; of an engine without steps those of what has ended."""
        return max(self._delivered, self._stepped)

    @property
    def waiting(self) -> int:
        """Requests that wait: in the queue, and in the waiting list of an engine that has one."""
        return len(self.dispatcher.waiting) + self._waiting_in_engine

    @property
    def running(self) -> int:
        """Requests that the engine works on."""
        return self.dispatcher.running - self._waiting_in_engine

    @property
    def kv_use(self) -> float | None:
        """Share of the engine's KV cache in use at its last step; None if it does not say."""
        return self.steps[-1].kv_use if self.steps else None

    @property
    def cached_share(self) -> float | None:
        """Share of prompt tokens that came from a prefix cache; None if the engine does not say."""
        cached = [step.cached_tokens for step in self.steps if step.cached_tokens is not None]
        if not cached:
            return None
        return sum(cached) / max(1, sum(cached) + sum(step.prefill_tokens for step in self.steps))

    @property
    def _waiting_in_engine(self) -> int:
        """As of its last step, with what was released since; at most what has not ended."""
        if not self.steps:
            return 0
        last, released = self.steps[-1], self.dispatcher.running
        return max(min(last.waiting, released), released - last.running)

    def _refusal(self, work: Work) -> Output | None:
        if self.dead is not None:
            return Output(
                request_id=work.request_id, status="failed", cause="engine-dead", error=str(self.dead)
            )
        if self._aborted:
            return Output(request_id=work.request_id, status="unfinished")
        if (why := invalid(work, self.backend.limits)) is not None:
            return Output(request_id=work.request_id, status="failed", cause="invalid-request", error=why)
        return None

    def _pump(self) -> None:
        """Do what the strategy decides now, and come back when its Wait ends."""
        self._cancel_timer()
        if self._aborted or self.dead is not None:
            return
        if self._tasks and not self.backend.joinable:  # such an engine is free when its run has returned
            return
        try:
            actions = self.dispatcher.poll(time.monotonic())
        except Exception as error:  # noqa: BLE001 - raised into a timer, it would leave callers waiting
            self._die(EngineDead(f"the strategy failed: {type(error).__name__}: {error}"))
            return
        for action in actions:
            if isinstance(action, Rejection):
                self._resolve(
                    Output(request_id=action.request.request_id, status="rejected", error=action.reason)
                )
            else:
                task = asyncio.create_task(self._run(action))
                self._tasks.add(task)
                task.add_done_callback(self._ran)
        if self.dispatcher.wake_s != float("inf"):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self.dispatcher.wake_s, self._pump)

    def _ran(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:  # a backend that broke its promises: nobody may hang
            self._die(EngineDead(f"a batch could not be accounted for: {type(error).__name__}: {error}"))
        self._pump()

    async def _run(self, batch: Batch) -> None:
        if self._aborted or self.dead is not None:  # since the launch: the engine never sees this batch
            for waiting in batch.requests:
                self._done(Output(request_id=waiting.request_id, status="unfinished"), batch.batch_id)
            return
        works = [self._open[waiting.request_id].work for waiting in batch.requests]
        for waiting in batch.requests:
            self._open[waiting.request_id].batch_id = batch.batch_id
        out_of_memory, lengths = False, dict.fromkeys((work.request_id for work in works), 0)

        def done(output: Output) -> None:
            lengths[output.request_id] = len(output.output_ids)
            self._done(output, batch.batch_id)

        try:
            await self.backend.run(works, done)
        except OutOfMemory as error:
            out_of_memory, again = True, error is self._failure
            self._failure = error
            for waiting in self.dispatcher.out_of_memory(
                batch.batch_id, time.monotonic(), ran=error.ran, again=again
            ):
                self._resolve(_failed(waiting.request_id, "out-of-memory", error))
            for work in works:
                if work.request_id in self._open:  # back in the queue, in no batch
                    self._open[work.request_id].batch_id = None
            self.min_cap = min(self.min_cap or self.dispatcher.cap, self.dispatcher.cap)
        except EngineDead as error:
            self._die(error)
        except Exception as error:  # noqa: BLE001 - a failed batch fails its requests, not the trial
            self._fail_rest(works, batch.batch_id, type(error).__name__, error)
        else:
            missing = RuntimeError("the backend returned without an output for this request")
            self._fail_rest(works, batch.batch_id, "no-output", missing)
        self.runs.append(
            BatchRun(
                batch=batch,
                outputs=tuple(lengths.values()),
                ended_s=time.monotonic(),
                out_of_memory=out_of_memory,
            )
        )

    def _done(self, output: Output, batch_id: int) -> None:
        request = self._open.get(output.request_id)
        if request is None:
            return
        wanted = request.work.output_tokens
        if output.status == "finished" and len(output.output_ids) != wanted:
            error = f"asked for {wanted} output tokens, got {len(output.output_ids)}"
            output = dataclasses.replace(output, status="failed", cause="wrong-length", error=error)
        self._delivered += len(output.output_ids)
        self._resolve(output)
        self.dispatcher.finish(output.request_id, batch_id, time.monotonic())
        self._pump()

    def _fail_rest(self, works: list[Work], batch_id: int, cause: str, error: Exception) -> None:
        for work in works:
            if work.request_id in self._open:
                self._resolve(_failed(work.request_id, cause, error))
                self.dispatcher.finish(work.request_id, batch_id, time.monotonic())

    def _die(self, error: EngineDead) -> None:
        self.dead = self.dead or error  # the first says what happened
        self.dispatcher.abandon()
        for request_id in list(self._open):
            self._resolve(_failed(request_id, "engine-dead", error))

    def _resolve(self, output: Output) -> None:
        request = self._open.pop(output.request_id)
        if not request.future.done():  # the caller may have gone away
            request.future.set_result(
                Reply(output=output, arrived_s=request.arrived_s, batch_id=request.batch_id)
            )

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _failed(request_id: str, cause: str, error: Exception) -> Output:
    return Output(request_id=request_id, status="failed", cause=cause, error=str(error))
