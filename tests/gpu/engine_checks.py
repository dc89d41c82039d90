"""Checks of one loaded backend: its tokens, stamps and memory, and that it leaves nothing behind.

`huggingface` on a GPU computes in this process, so the CUDA context that it leaves (some 0.5 GiB) is ours.
"""

import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Mapping
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import psutil

from deployments.backends.backend import Backend, Output, Work
from deployments.backends.huggingface import HuggingFace
from deployments.backends.registry import create
from deployments.errors import OutOfMemory
from deployments.gpus import visible_gpus
from deployments.models import ModelSpec
from tests.gpu.agreement import agreement, shortfalls
from tests.gpu.device_checks import SMALL_VLLM
from tests.gpu.outcome import Failed, require
from tests.tiny_model import VOCABULARY

ARGS: Mapping[str, Mapping[str, Any]] = {
    "huggingface": {},
    "huggingface-continuous": {},
    "vllm": {"max_num_seqs": 8, **SMALL_VLLM},
}
LENGTHS = ((7, 5), (30, 1), (1, 24), (12, 12), (64, 3), (3, 32))  # (prompt, output) tokens
CONTEXT_BYTES = 2**30  # a CUDA context and its libraries, at most
FREED_WITHIN_S = 15.0
TOO_MUCH_BYTES = 2**50


class LoadedEngine:
    """A backend with the tiny model in float32, what it was asked, and what it answered."""

    def __init__(self, name: str, folder: Path, device: str) -> None:
        self.name, self._folder, self._device = name, folder, device
        self._backend: Backend | None = None
        self._outputs: dict[str, Output] = {}
        self._used_before, self._children_before = 0, frozenset[int]()
        rng = random.Random(7)
        self._works = [
            Work(
                request_id=f"check-{index}",
                prompt_ids=[rng.randrange(VOCABULARY) for _ in range(prompt)],
                output_tokens=count,
            )
            for index, (prompt, count) in enumerate(LENGTHS)
        ]

    async def tokens(self) -> str:
        """Those of the CPU, or one that is nearly as likely."""
        backend = create(self.name, ModelSpec(name=str(self._folder), dtype="float32"), ARGS[self.name])
        self._used_before, self._children_before = self._used(), _children()
        begun_s = time.monotonic()
        await backend.start()
        self._backend = backend
        loaded_s = time.monotonic() - begun_s
        backend.reset_memory()
        self._outputs = await self._run()
        for work in self._works:
            output = self._outputs[work.request_id]
            require(output.status == "finished", f"{work.request_id} {output.status}: {output.error}")
            count = len(output.output_ids)
            require(count == work.output_tokens, f"{work.request_id}: {count} tokens of {work.output_tokens}")
        names = [work.request_id for work in self._works]
        answers = [self._outputs[name].output_ids for name in names]
        found = shortfalls(self._folder, [work.prompt_ids for work in self._works], answers)
        return f"{agreement(names, found)} on {backend.setup['device']}, loaded in {loaded_s:.1f} s"

    async def stamps(self) -> str:
        """In order, one for each step, and spread over the time that the batch took."""
        self._loaded()
        gaps: list[float] = []
        for output in self._outputs.values():
            in_order = [output.scheduled_s, *output.token_s, output.returned_s]
            require(None not in in_order, f"{output.request_id} lacks a stamp")
            require(in_order == sorted(in_order), f"the stamps of {output.request_id} decrease")  # type: ignore[type-var]
            gaps += [later - earlier for earlier, later in itertools.pairwise(output.token_s)]
        median_s = statistics.median(gaps)
        require(median_s > 0, "steps have no length: the device was not waited for")
        return f"{len(gaps)} gaps, median {1_000 * median_s:.2f} ms"

    async def memory(self) -> str:
        """Between the weights and what the device has, or within the cache that was reserved."""
        backend = self._loaded()
        memory, peak = backend.memory(), backend.memory().peak_bytes
        of_gpu = visible_gpus()[0].total_bytes if self._device == "cuda" else None
        total = of_gpu or psutil.virtual_memory().total  # a GPU without memory of its own uses the machine's
        require(peak is not None and 0 < peak <= total, f"a peak of {peak} bytes of {total}")
        assert peak is not None
        least = backend.setup.get("weight_bytes", 0) if memory.kind == "allocated" else 0
        require(peak >= least, f"a peak of {peak} bytes, below the weights' {least}")
        cache = memory.detail.get("cache_bytes")
        require(cache is None or peak <= cache <= total, f"a cache of {cache} bytes, {peak} used, of {total}")
        return f"{peak / 2**20:.1f} MiB ({memory.kind})"

    async def out_of_memory(self) -> str:
        """The allocator's own error, raised on purpose in a forward pass, and the same batch again."""
        backend = self._loaded()
        assert isinstance(backend, HuggingFace)
        assert backend._engine is not None
        import torch

        def ask_for_too_much(*_: object) -> None:
            torch.empty(TOO_MUCH_BYTES, dtype=torch.uint8, device=self._device)

        hook = backend._engine.loaded.model.register_forward_pre_hook(ask_for_too_much)
        said = ""
        try:
            await self._run()
        except OutOfMemory as error:
            said = str(error)
        finally:
            hook.remove()
        require(bool(said), "too much was allocated and nothing was said")
        again = await self._run()
        for request_id, output in self._outputs.items():
            require(again[request_id].output_ids == output.output_ids, f"{request_id} differs afterwards")
        return f"recognised, and the batch again: {said[:60]}"

    async def freed(self) -> str:
        """Within seconds of `close`: no process left, and no more used than before but for a context."""
        await self.close()
        end_s = time.monotonic() + FREED_WITHIN_S
        while True:
            left, more = _children() - self._children_before, self._used() - self._used_before
            if not left and more <= CONTEXT_BYTES:
                return f"{max(0, more) / 2**20:.0f} MiB more than before, no process left"
            if time.monotonic() > end_s:
                raise Failed(f"{more / 2**20:.0f} MiB more than before, processes {sorted(left)} left")
            await asyncio.sleep(0.5)  # a poll of the device: there is nothing to wait on

    async def close(self) -> None:
        """End the backend; harmless when there is none."""
        backend, self._backend = self._backend, None
        if backend is not None:
            await backend.close()

    def _loaded(self) -> Backend:
        require(self._backend is not None, "it is not loaded")
        assert self._backend is not None
        return self._backend

    async def _run(self) -> dict[str, Output]:
        delivered: list[Output] = []
        await self._loaded().run(self._works, delivered.append)
        return {output.request_id: output for output in delivered}

    def _used(self) -> int:
        return (visible_gpus()[0].used_bytes or 0) if self._device == "cuda" else 0


def _children() -> frozenset[int]:
    """But for the resource tracker, which is the interpreter's own and ends with it."""
    tracker = getattr(resource_tracker._resource_tracker, "_pid", None)
    return frozenset(child.pid for child in psutil.Process().children(recursive=True)) - {tracker}
