"""The replica: one backend, loaded once, and one strategy at a time in front of it.

A plain class; Ray Serve wraps it in one line (`deployments.lanes`). Every method is async, because Serve
runs the others in another thread, where they would race with the dispatcher. The constructor is trivial
and `start` loads, so that health checks are answered while a model loads. What goes wrong with a request
travels as data in its reply.
"""

import asyncio
import contextlib
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deployments.backends.backend import Backend, EngineStep, Memory, Output, Work
from deployments.backends.registry import create
from deployments.errors import BackendError, EngineDead
from deployments.gpu_claim import claim
from deployments.gpus import facts, visible_gpus
from deployments.models import ModelSpec
from deployments.service import BatchRun, Reply, Service
from strategies.registry import create as create_strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timed batch of equal rows on an idle engine; seconds."""

    batch_size: int
    prompt_tokens: int
    prefill_s: float  # scheduled → first token of all rows
    step_s: float  # median gap between tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How a trial stands now."""

    waiting: int
    running: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a replica says of a trial at its end."""

    incarnation: str
    joinable: bool
    runs: tuple[BatchRun, ...]
    steps: tuple[EngineStep, ...]
    memory: Memory
    min_cap: int | None


class Replica:
    """Serves one trial after another; the strategy is swapped without loading the model again."""

    def __init__(self) -> None:
        self._incarnation = uuid.uuid4().hex[:12]
        self._backend: Backend | None = None
        self._loading: Backend | None = None
        self._service: Service | None = None
        self._trial = ""
        self._warmed = False

    async def start(
        self, backend: str, model: ModelSpec | None, engine: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Load; returns the backend's setup. BackendError or ModelError if it cannot be had."""
        if self._backend is not None or self._loading is not None:
            raise BackendError("this replica has already been started")
        if model is not None:  # what was there before may still hold the GPU
            await asyncio.to_thread(claim, lambda _: None)
        loading = self._loading = create(backend, model, engine)
        try:
            await loading.start()
        finally:
            self._loading = None
        self._backend = loading
        gpus = facts(visible_gpus()) if model is not None else {}
        return {**loading.setup, **({"gpus": gpus} if gpus else {})}

    async def ping(self) -> float:
        """The replica's clock, seconds of `time.monotonic`."""
        return time.monotonic()

    async def check(self) -> None:
        """BackendError or EngineDead unless a backend is loaded and alive."""
        await self._ready()

    async def warm(self, works: Sequence[Work]) -> None:
        """The first time after a load: one batch past the strategy. BackendError if a request fails.

        Later calls do nothing: an engine that has served a trial is warm.
        """
        await self._ready()
        if works and not self._warmed:
            await self.run_bare(works)
            self._warmed = True

    async def run_bare(self, works: Sequence[Work]) -> float:
        """One batch straight through the idle engine; seconds. BackendError if a request fails."""
        backend = await self._ready()
        begun_s = time.monotonic()
        outputs: list[Output] = []
        await backend.run(works, outputs.append)
        took_s = time.monotonic() - begun_s
        if failed := [output for output in outputs if output.status != "finished"]:
            raise BackendError(f"a bare request failed: {failed[0].error}")
        backend.take_steps()
        return took_s

    async def measure(self, batch_size: int, prompt_tokens: int, output_tokens: int) -> Sample:
        """Time one batch of equal rows on the idle engine (random ids: timing does not see them).

        A prompt that the context has no room for is cut; the sample says to what.
        """
        backend = await self._ready()
        prompt_tokens = max(1, min(prompt_tokens, backend.limits.context_tokens - output_tokens))
        rng = np.random.default_rng([batch_size, prompt_tokens])
        works = [
            Work(
                request_id=f"measure-{uuid.uuid4().hex}",
                prompt_ids=rng.integers(0, backend.limits.vocabulary, prompt_tokens).tolist(),
                output_tokens=output_tokens,
            )
            for _ in range(batch_size)
        ]
        outputs: list[Output] = []
        await backend.run(works, outputs.append)
        backend.take_steps()
        if failed := [output for output in outputs if output.status != "finished"]:
            raise BackendError(f"a timing request failed: {failed[0].error}")
        begun = min(output.scheduled_s or math.inf for output in outputs)
        gaps = np.concatenate([np.diff(output.token_s) for output in outputs])
        return Sample(
            batch_size=batch_size,
            prompt_tokens=prompt_tokens,
            prefill_s=max(output.token_s[0] for output in outputs) - begun,
            step_s=float(np.median(gaps)),
        )

    async def begin(
        self, trial: str, strategy: str, knobs: Mapping[str, Any], max_batch_size: int, expected: int
    ) -> str:
        """Put a strategy in front of the engine; aborts what an earlier trial left. Returns the incarnation."""
        backend = await self._ready()
        if self._service is not None:
            await self._service.abort()
        self._service = Service(
            backend, create_strategy(strategy, knobs), max_batch_size=max_batch_size, expected=expected
        )
        self._trial = trial
        backend.take_steps()
        backend.reset_memory()
        return self._incarnation

    async def generate(self, trial: str, work: Work, max_new_tokens: int) -> Reply:
        """Serve one request of the trial in one unary reply."""
        if self._service is None or trial != self._trial:
            ended = Output(
                request_id=work.request_id,
                status="failed",
                cause="other-trial",
                error=f"this replica does not serve trial {trial}",
            )
            return Reply(output=ended, arrived_s=time.monotonic(), batch_id=None)
        return await self._service.submit(work, max_new_tokens)

    async def progress(self) -> Progress:
        """Queue length, running requests and tokens delivered so far."""
        service = self._serving()
        service.collect_steps()
        return Progress(waiting=service.waiting, running=service.running, tokens=service.tokens)

    async def abort(self) -> None:
        """Answer everything that waits or runs as `unfinished`."""
        await self._serving().abort()

    async def end(self) -> Account:
        """End the trial and account for it. EngineDead if the engine did not survive it."""
        service = self._serving()
        await service.abort()
        service.collect_steps()
        await (await self._ready()).check()
        self._service, self._trial = None, ""
        return Account(
            incarnation=self._incarnation,
            joinable=service.backend.joinable,
            runs=tuple(service.runs),
            steps=tuple(service.steps),
            memory=service.backend.memory(),
            min_cap=service.min_cap,
        )

    async def stop(self) -> None:
        """Close the backend, also one that still loads; the replica is of no use afterwards."""
        if self._service is not None:
            with contextlib.suppress(Exception):  # what cannot be stopped must be closed all the more
                await asyncio.wait_for(self._service.abort(), 10)
        backend, self._backend = self._backend or self._loading, None
        if backend is not None:
            await asyncio.wait_for(backend.close(), 30)

    async def _ready(self) -> Backend:
        if self._backend is None:
            raise BackendError("the replica has not loaded its backend")
        await self._backend.check()
        return self._backend

    def _serving(self) -> Service:
        if self._service is None:
            raise EngineDead("the replica serves no trial: it is not the one that the trial began with")
        return self._service
