"""transformers' `generate`: one padded batch at a time, which runs until its longest row is done.

The engine blocks, so it lives in one thread of its own, where the model is also loaded. Every row of a
batch comes back when the batch ends (`returned_s`), its ids and stamps cut at the row's own length.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from deployments.backends.backend import EngineStep, Limits, Memory, Output, Room, Work, invalid, refused
from deployments.backends.engine_args import HuggingFaceArgs
from deployments.backends.open_runs import OpenRuns
from deployments.backends.starting import Starting
from deployments.errors import BackendError, EngineDead, OutOfMemory
from deployments.models import ModelSpec
from results.errors import one_line

if TYPE_CHECKING:
    from deployments.backends.padded_generation import Generated, PaddedGeneration


class HuggingFace:
    """Backend (see the protocol) on a GPU if there is one, else on the CPU."""

    joinable = False

    def __init__(self, model: ModelSpec, args: HuggingFaceArgs) -> None:
        self._spec, self._args = model, args
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="huggingface")
        self._runs = OpenRuns()
        self._starting = Starting()
        self._engine: PaddedGeneration | None = None

    async def start(self) -> None:
        """Load the model in the thread. ModelError; BackendError at the deadline, which may be tried again."""
        await self._starting.run(self._begin())

    async def _begin(self) -> None:
        loading = asyncio.get_running_loop().run_in_executor(self._worker, self._load)
        deadline_s = self._args.start_deadline_s
        try:
            self._engine = await asyncio.wait_for(loading, deadline_s)
        except TimeoutError as exc:
            self._worker.shutdown(wait=False, cancel_futures=True)  # a load cannot be interrupted
            raise BackendError(f"model {self._spec.name} did not load within {deadline_s:g} s") from exc

    @property
    def limits(self) -> Limits:
        """The bounds for prompts and outputs, known after `start`."""
        return self._started().loaded.limits

    @property
    def setup(self) -> Mapping[str, Any]:
        """Provenance, known after `start`."""
        return self._started().loaded.setup

    async def run(self, batch: Sequence[Work], done: Callable[[Output], None]) -> None:
        """Run one batch; its outputs are all delivered at its end, refused requests among them."""
        engine = self._started()
        reasons = [invalid(work, engine.loaded.limits) for work in batch]
        valid = [work for work, reason in zip(batch, reasons, strict=True) if reason is None]
        cut = threading.Event()
        with self._runs.entered(cut.set):
            loop = asyncio.get_running_loop()
            rows = iter(await loop.run_in_executor(self._worker, _run, engine, valid, cut) if valid else ())
            for work, reason in zip(batch, reasons, strict=True):
                done(next(rows) if reason is None else refused(work, reason))

    async def abort(self) -> None:
        """Stop at the next step and wait until the batch has been delivered as far as it came."""
        await self._runs.cut()

    async def check(self) -> None:
        """EngineDead unless the model is loaded and its device answers (a running batch is an answer)."""
        engine = self._started()
        if self._runs:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._worker, engine.loaded.synchronise)
        except RuntimeError as exc:
            raise EngineDead(f"the device does not answer: {one_line(exc)}") from exc

    def take_steps(self) -> list[EngineStep]:
        """Nothing: the batch does not change from step to step."""
        return []

    def reset_memory(self) -> None:
        """Start a new period for `memory`."""
        self._started().loaded.reset_memory()

    def memory(self) -> Memory:
        """Peak since `reset_memory`: "allocated" on a GPU, "resident" (the whole process) on a CPU."""
        return self._started().loaded.memory()

    def room(self) -> Room | None:
        """Memory in use and free; None where the system does not say."""
        return self._started().loaded.room()

    async def close(self) -> None:
        """Cut what runs, give the model's memory back and end the thread, which cannot leave a load halfway."""
        await self._starting.give_up()
        await self.abort()
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.get_running_loop().run_in_executor(self._worker, engine.loaded.unload)
        self._worker.shutdown(wait=engine is not None, cancel_futures=True)

    def _load(self) -> "PaddedGeneration":
        from deployments.backends.loaded_model import LoadedModel  # torch: seconds of import
        from deployments.backends.padded_generation import PaddedGeneration

        return PaddedGeneration(LoadedModel(self._spec, self._args.threads, self._args.device_map))

    def _started(self) -> "PaddedGeneration":
        if self._engine is None:
            raise EngineDead("the engine is not running: it was not started, or it was closed")
        return self._engine


def _run(engine: "PaddedGeneration", batch: Sequence[Work], cut: threading.Event) -> list[Output]:
    """One output per request, in order. OutOfMemory passes; any other error is the rows' failure."""
    launched_s = time.monotonic()
    try:
        longest = max(work.output_tokens for work in batch)
        generated = engine.generate([work.prompt_ids for work in batch], longest, cut)
    except OutOfMemory:
        raise
    except Exception as exc:  # noqa: BLE001 - a failed batch fails its rows, not the engine
        ended_s, cause, error = time.monotonic(), type(exc).__name__, one_line(exc)
        return [
            Output(
                request_id=work.request_id,
                status="failed",
                scheduled_s=launched_s,
                returned_s=ended_s,
                error=error,
                cause=cause,
            )
            for work in batch
        ]
    return [_row(work, row, generated) for row, work in enumerate(batch)]


def _row(work: Work, row: int, generated: "Generated") -> Output:
    """The row cut at its own length; a batch that was cut short leaves rows unfinished."""
    length = work.output_tokens
    token_s = generated.token_s[:length]
    return Output(
        request_id=work.request_id,
        status="finished" if len(token_s) == length else "unfinished",
        scheduled_s=generated.launched_s,
        token_s=token_s,
        output_ids=tuple(generated.ids[row][:length]),
        returned_s=generated.ended_s,
    )
