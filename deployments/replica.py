"""The replica: one backend, loaded once, and one strategy at a time in front of it.

A plain class; Ray Serve wraps it in one line (`deployments.lanes`). Every method is async, because Serve
runs the others in another thread, where they would race with the dispatcher. The constructor is trivial
and `start` loads, so that health checks are answered while a model loads. What goes wrong with a request
travels as data in its reply.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deployments.backends.backend import Backend, EngineStep, Memory, Output, TellsRoom, Work
from deployments.backends.registry import create
from deployments.cpu_time import CpuTime
from deployments.errors import BackendError, EngineDead
from deployments.gpu_claim import claim
from deployments.gpu_watch import GpuWatch
from deployments.gpus import facts
from deployments.idle_engine import Sample, outputs_of, reserve_of, timed
from deployments.models import ModelSpec
from deployments.padded_memory import PaddedBudget, given, left_free
from deployments.reserve import Reserve
from deployments.service import BatchRun, Reply, Service
from deployments.warming import WarmUp, warm_up
from strategies.registry import create as create_strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How a trial stands now."""

    at_s: float  # the replica's clock
    waiting: int
    running: int
    tokens: int
    kv_use: float | None
    cpu_s: float  # of the replica and the processes below it, since the trial began
    device_bytes: int | None
    device_utilisation: float | None  # 0..1, of the last moment during which it computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The GPUs of a replica at one moment; both empty without one."""

    state: Mapping[str, Mapping[str, Any]]  # by label
    strangers: tuple[str, ...]  # who else computes on them, in one phrase each


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a replica says of a trial at its end."""

    incarnation: str
    joinable: bool
    runs: tuple[BatchRun, ...]
    steps: tuple[EngineStep, ...]
    memory: Memory
    min_cap: int | None
    cached_share: float | None  # of prompt tokens, from a prefix cache; None if the engine does not say
    strangers: tuple[str, ...]  # who else computed on its GPUs at the end


class Replica:
    """Serves one trial after another; the strategy is swapped without loading the model again."""

    def __init__(self) -> None:
        self._incarnation = uuid.uuid4().hex[:12]
        self._backend: Backend | None = None
        self._loading: Backend | None = None
        self._padded: PaddedBudget | None = None
        self._row_tokens: int | None = None  # of the longest row that will be sent; None: nobody said
        self._service: Service | None = None
        self._trial = ""
        self._warm_up: WarmUp | None = None
        self._gpus: GpuWatch | None = None
        self._cpu = CpuTime(descendants=False)

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
        self._padded = given(engine.get("kv_budget_bytes"), loading.setup.get("kv_bytes_per_token"))
        self._gpus = await asyncio.to_thread(GpuWatch) if model is not None else None
        gpus = facts(self._gpus.read()) if self._gpus is not None else {}
        return {**loading.setup, **({"gpus": gpus} if gpus else {})}

    async def ping(self) -> float:
        """The replica's clock, seconds of `time.monotonic`."""
        return time.monotonic()

    async def check(self) -> None:
        """BackendError or EngineDead unless a backend is loaded and alive."""
        await self._ready()

    async def warm(self, works: Sequence[Work]) -> WarmUp | None:
        """The first time after a load: batches of `works` past the strategy, until the step time has settled.

        Later calls run nothing and give what the first one found: an engine that has served a trial is warm.
        None if there is nothing to warm up with. BackendError if a request fails.
        """
        backend = await self._ready()
        if works and self._warm_up is None:

            async def batch(number: int) -> list[Output]:
                return await outputs_of(
                    backend, [replace(work, request_id=f"{work.request_id}-{number}") for work in works]
                )

            self._warm_up = await warm_up(batch)
        return self._warm_up

    async def run_bare(self, works: Sequence[Work]) -> float:
        """One batch straight through the idle engine; seconds. BackendError if a request fails."""
        begun_s = time.monotonic()
        await outputs_of(await self._ready(), works)
        return time.monotonic() - begun_s

    async def devices(self) -> Devices:
        """How its GPUs are now, and who else computes on them."""
        if self._gpus is None:
            return Devices(state={}, strangers=())
        gpus = await asyncio.to_thread(self._gpus.read)
        return Devices(
            state={gpu.label: gpu.state() for gpu in gpus},
            strangers=await asyncio.to_thread(self._gpus.strangers),
        )

    async def measure(self, batch_size: int, prompt_tokens: int, output_tokens: int) -> Sample:
        """Time one batch of equal rows on the idle engine (random ids: timing does not see them).

        A prompt that the context has no room for is cut; the sample says to what.
        """
        return await timed(await self._ready(), batch_size, prompt_tokens, output_tokens)

    async def measure_reserve(self, prompt_tokens: int) -> Reserve | None:
        """What padded batches take beside their keys and values: two small ones on the idle engine.

        None where the engine does not pad, or its memory or what a token takes is not known. BackendError.
        """
        return await reserve_of(await self._ready(), prompt_tokens)

    async def budget(self, reserve: Reserve | None, row_tokens: int) -> Mapping[str, Any] | None:
        """What padded batches may take: the bytes that were given, or what the reserve leaves; None: no limit.

        Of memory that is free at the first call after a load; later ones give what the first found.
        `row_tokens`: the longest prompt and the declared limit of what will be sent.
        """
        backend = await self._ready()
        self._row_tokens = row_tokens
        if self._padded is None and reserve is not None and isinstance(backend, TellsRoom):
            room = backend.room()
            self._padded = left_free(room, reserve) if room is not None else None
        return self._padded.to_dict() if self._padded is not None else None

    async def begin(
        self, trial: str, strategy: str, knobs: Mapping[str, Any], max_batch_size: int, expected: int
    ) -> str:
        """Put a strategy in front of the engine; aborts what an earlier trial left. Returns the incarnation."""
        backend = await self._ready()
        if self._service is not None:
            await self._service.abort()
        self._service = Service(
            backend,
            create_strategy(strategy, knobs),
            max_batch_size=max_batch_size,
            expected=expected,
            kv=self._padded.limit(max_batch_size, self._row_tokens) if self._padded is not None else None,
        )
        self._trial = trial
        backend.take_steps()
        backend.reset_memory()
        self._cpu = CpuTime()
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
        """Queue length, running requests, tokens made so far, and what processors and GPUs do."""
        service = self._serving()
        service.collect_steps()
        at_s, cpu_s = time.monotonic(), self._cpu.used_s()
        waiting, running, tokens, kv_use = service.waiting, service.running, service.tokens, service.kv_use
        gpus = await asyncio.to_thread(self._gpus.read) if self._gpus is not None else ()
        used = [gpu.used_bytes for gpu in gpus if gpu.used_bytes is not None]
        busy = [gpu.utilisation for gpu in gpus if gpu.utilisation is not None]
        return Progress(
            at_s=at_s,
            waiting=waiting,
            running=running,
            tokens=tokens,
            kv_use=kv_use,
            cpu_s=cpu_s,
            device_bytes=sum(used) if used else None,
            device_utilisation=sum(busy) / len(busy) / 100 if busy else None,
        )

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
            cached_share=service.cached_share,
            strangers=(await self.devices()).strangers,
        )

    async def stop(self) -> None:
        """Close the backend, also one that still loads; the replica is of no use afterwards."""
        if self._service is not None:
            with contextlib.suppress(Exception):  # what cannot be stopped must be closed all the more
                await asyncio.wait_for(self._service.abort(), 10)
        if self._gpus is not None:
            self._gpus.close()
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
