"""vLLM in this process (AsyncLLM), its EngineCore in another; requests join a running batch.

Each request is one task that reads its own stream. Tokens are stamped here, when the step that made
them arrives from the EngineCore; `scheduled_s` is the EngineCore's own, on the same system-wide monotonic
clock.

When the engine dies, `run` raises EngineDead once every stream has ended: what it delivered until
then stands, the rest of the batch is undelivered and is the caller's to fail.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from deployments.backends.backend import EngineStep, Limits, Memory, Output, Status, Work, invalid, refused
from deployments.backends.blocking_call import BlockingCall
from deployments.backends.child_processes import ChildProcesses
from deployments.backends.engine_args import VllmArgs
from deployments.backends.starting import Starting
from deployments.backends.vllm_engine import Engine, build, end_sockets, release
from deployments.backends.vllm_steps import StepRecorder
from deployments.backends.vllm_stream import Stream
from deployments.errors import BackendError, EngineDead, ModelError
from deployments.models import ModelSpec
from results.errors import one_line

CLOSE_GRACE_S = 5.0
ABORT_AGAIN_S = 0.05


class Vllm:
    """See the module's docstring and `Backend`."""

    joinable = True

    def __init__(self, model: ModelSpec, args: VllmArgs) -> None:
        self._model = model
        self._args = args
        self._steps = StepRecorder(self._stamp)
        self._starting = Starting()
        self._engine: Engine | None = None
        self._children: ChildProcesses | None = None
        self._open: dict[asyncio.Task[None], str] = {}
        self._streams: set[Stream] = set()

    async def start(self) -> None:
        """Load within `start_deadline_s`. ModelError if it never can, BackendError if it did not."""
        if self._engine is not None:
            raise BackendError("this vLLM backend has already been started")
        await self._starting.run(self._begin())

    async def _begin(self) -> None:
        children = ChildProcesses()
        try:
            self._engine = await asyncio.wait_for(self._load(children), self._args.start_deadline_s)
        except BaseException as exc:
            await BlockingCall(lambda: children.end(grace_s=0.0)).result()
            if isinstance(exc, TimeoutError):
                raise BackendError(f"vLLM did not load within {self._args.start_deadline_s:g} s") from exc
            if isinstance(exc, ModelError) or not isinstance(exc, Exception):
                raise
            raise BackendError(f"vLLM did not start: {one_line(exc)}") from exc
        children.adopt()
        self._children = children

    async def _load(self, children: ChildProcesses) -> Engine:
        loading: BlockingCall[Engine] = BlockingCall(
            lambda: build(self._model, self._args, self._steps, given_up=lambda: loading.abandoned),
            discard=lambda engine: _discard(engine, children),
        )
        engine = await loading.result()
        # Asked now, because each first request would, and a dead engine never answers.
        await engine.llm.get_supported_tasks()
        return engine

    @property
    def limits(self) -> Limits:
        """The vocabulary, and the context that fits the model and the KV cache."""
        return self._ready().limits

    @property
    def setup(self) -> Mapping[str, Any]:
        """Effective values, read from the loaded engine."""
        return self._ready().setup

    @property
    def engine_pids(self) -> tuple[int, ...]:
        """The processes of the engine, oldest first: the EngineCore, then its workers."""
        return self._children.pids if self._children else ()

    async def run(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        """Add all at once, in order. EngineDead as the module's docstring says."""
        engine = self._ready()

        def deliver(output: Output) -> None:
            try:
                done(output)
            except BaseException:  # nobody waits for the rest any more
                for task in tasks:
                    task.cancel()
                raise

        tasks = [asyncio.create_task(self._deliver(engine, work, deliver)) for work in batch]
        self._open.update({task: work.request_id for task, work in zip(tasks, batch, strict=True)})
        try:
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                self._open.pop(task, None)
        errors = [end for end in ends if isinstance(end, BaseException)]
        for error in sorted(errors, key=lambda one: isinstance(one, asyncio.CancelledError)):
            raise error

    async def abort(self) -> None:
        """Stop what runs now; a request that was still on its way in is caught by asking again."""
        engine = self._ready()
        pending = {task for task in self._open if not task.done()}
        while pending:
            await engine.llm.abort([self._open[task] for task in pending if task in self._open])
            _, pending = await asyncio.wait(pending, timeout=ABORT_AGAIN_S)

    async def check(self) -> None:
        """EngineDead unless vLLM thinks it is well and each of its processes lives."""
        engine = self._ready()
        if gone := self._children.gone() if self._children else ():
            raise EngineDead(f"process {gone[0]} of the engine has ended")
        try:
            await engine.llm.check_health()
        except Exception as exc:
            raise EngineDead(f"the engine is not well: {exc}") from exc

    def take_steps(self) -> list[EngineStep]:
        """vLLM's iterations since the last call, from its stat logger."""
        return self._steps.take()

    def reset_memory(self) -> None:
        """Forget the peak use of the KV cache."""
        self._steps.peak_kv_use = 0.0

    def memory(self) -> Memory:
        """Peak use of the KV cache after any step; its pool is reserved at the start whatever is used."""
        share, total_bytes = self._steps.peak_kv_use, self._ready().kv_cache_bytes
        return Memory(
            peak_bytes=None if total_bytes is None else round(share * total_bytes),
            kind="kv-cache",
            detail={"peak_share": share, "cache_bytes": total_bytes},
        )

    async def close(self) -> None:
        """End the engine and each process that it started; harmless when there is none."""
        await self._starting.give_up()
        if self._engine is None or self._children is None:
            return
        await self.abort()
        engine, self._engine = self._engine, None
        await BlockingCall(partial(_end, engine, self._children)).result()
        await release(engine)

    def _ready(self) -> Engine:
        if self._engine is None:
            raise EngineDead("the engine is not running: it was not started, or it was closed")
        return self._engine

    async def _deliver(self, engine: Engine, work: Work, done: Callable[[Output], None]) -> None:
        if reason := invalid(work, engine.limits):
            done(refused(work, reason))
        else:
            done(await self._generate(engine.llm, work))

    async def _generate(self, llm: Any, work: Work) -> Output:
        """Read one stream to its end. EngineDead if the engine died under it."""
        from vllm.inputs import tokens_input

        stream: Stream | None = None
        try:
            prompt = tokens_input(list(work.prompt_ids))
            stream = Stream(await llm.add_request(work.request_id, prompt, _sampling(work)))
            self._streams.add(stream)
            await stream.read()
            return _ended(work, stream)
        except BaseException as exc:
            if not llm.errored:  # without a stream it may be on its way in
                await (llm.abort(stream.engine_id, internal=True) if stream else llm.abort(work.request_id))
            if not isinstance(exc, Exception):
                raise
            if llm.errored:
                raise EngineDead(f"the engine died: {one_line(exc)}") from exc
            return _output(work, stream, "failed", type(exc).__name__, one_line(exc))
        finally:
            if stream:
                self._streams.discard(stream)

    def _stamp(self, now_s: float) -> None:
        for stream in self._streams:
            stream.stamp(now_s)


def _sampling(work: Work) -> Any:
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    # No min_tokens: it would forbid the end-of-sequence token, where the other backends merely ignore it.
    return SamplingParams(
        temperature=0.0,
        max_tokens=work.output_tokens,
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def _ended(work: Work, stream: Stream) -> Output:
    """The row of a stream that came to its end in order."""
    if stream.finish_reason == "abort":
        return _output(work, stream, "unfinished")
    if (got := len(stream.ids)) != work.output_tokens:
        wrong = f"asked for {work.output_tokens} tokens, got {got}"
        return _output(work, stream, "failed", "wrong-length", wrong)
    return _output(work, stream, "finished")


def _output(
    work: Work, stream: Stream | None, status: Status, cause: str | None = None, error: str | None = None
) -> Output:
    if stream is None or stream.metrics is None:
        return Output(
            request_id=work.request_id,
            status=status,
            returned_s=time.monotonic(),
            error=error,
            cause=cause,
        )
    # 0.0 is vLLM's "not yet": aborted while it waited, or before its first token came back.
    scheduled_s = stream.metrics.scheduled_ts or None
    if scheduled_s is not None and stream.token_s:
        scheduled_s = min(scheduled_s, stream.token_s[0])
    return Output(
        request_id=work.request_id,
        status=status,
        scheduled_s=scheduled_s,
        token_s=tuple(stream.token_s[: len(stream.ids)]),
        output_ids=tuple(stream.ids),
        returned_s=stream.returned_s,
        preemptions=stream.metrics.num_preemptions,
        error=error,
        cause=cause,
    )


def _end(engine: Engine, children: ChildProcesses) -> None:
    dead = bool(children.gone())
    engine.llm.shutdown()
    # Once one has died the others have nobody to tell them to end.
    children.end(0.0 if dead else CLOSE_GRACE_S)


def _discard(engine: Engine, children: ChildProcesses) -> None:
    """End an engine that came after its deadline; no event loop has touched its sockets yet."""
    _end(engine, children)
    end_sockets(engine)
