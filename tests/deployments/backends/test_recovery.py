"""A real engine that runs out of memory by the size of its batches, behind a strategy: nothing is lost or doubled."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import torch

from deployments.backends.backend import Work
from deployments.backends.huggingface import HuggingFace
from deployments.models import ModelSpec
from deployments.replica import Account, Replica
from deployments.service import Reply

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

FITS_ROWS, FITS_TOKENS = 3, 40  # what the device is made to hold: rows of a batch, tokens of a row


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(tiny_model: Path) -> AsyncIterator[Replica]:
    started = Replica()
    await started.start("huggingface", ModelSpec(name=str(tiny_model), dtype="float32"), {"threads": 1})
    yield started
    await started.stop()


@contextmanager
def small_device(replica: Replica, *, python: bool) -> Iterator[None]:
    """More than it holds is the allocator's own error, or Python's."""
    backend = replica._backend
    assert isinstance(backend, HuggingFace)
    assert backend._engine is not None

    def allocate(module: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        rows, tokens = kwargs["input_ids"].shape
        if rows > FITS_ROWS or tokens > FITS_TOKENS:
            if python:
                bytearray(2**62)
            torch.empty(2**50, dtype=torch.uint8)

    hook = backend._engine.loaded.model.register_forward_pre_hook(allocate, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


async def served(replica: Replica, prompts: dict[str, int]) -> tuple[list[Reply], Account]:
    """One trial of dynamic batching with a cap of 8: all arrive at once, and wait for nobody."""
    knobs = {"max_batch_size": 8, "max_wait_ms": 0.0}
    await replica.begin("t", "dynamic", knobs, 8, len(prompts))
    calls = [
        asyncio.create_task(
            replica.generate("t", Work(request_id=name, prompt_ids=[5] * length, output_tokens=2), 2)
        )
        for name, length in prompts.items()
    ]
    replies = await asyncio.gather(*calls)
    return replies, await replica.end()


@pytest.mark.parametrize("python", [False, True])
async def test_the_cap_halves_until_batches_fit_and_all_are_served_in_order(replica: Replica, python: bool):
    prompts = {f"r{number}": 3 + number for number in range(9)}
    alone, _ = await served(replica, prompts)
    with small_device(replica, python=python):
        replies, account = await served(replica, prompts)
    assert [reply.output.output_ids for reply in replies] == [reply.output.output_ids for reply in alone]
    seen = [
        f"{run.batch.cap}{'x' if run.out_of_memory else '.'}{len(run.batch.requests)}" for run in account.runs
    ]
    first = "8.1"  # whoever comes first finds the engine idle
    assert seen == [first, "8x8", "4x4", "2.2", "2.2", "2.2", "2.2"]
    assert account.min_cap == 2
    order = [
        request.request_id for run in account.runs if not run.out_of_memory for request in run.batch.requests
    ]
    assert order == list(prompts)


async def test_a_request_that_does_not_fit_alone_is_a_failed_row_with_its_reason(replica: Replica):
    prompts = {"first": 4, "long": FITS_TOKENS + 1, "short": 4, "last": 4}
    with small_device(replica, python=False):
        replies, _ = await served(replica, prompts)
    ended = {reply.output.request_id: reply.output for reply in replies}
    assert {name: one.status for name, one in ended.items()} == {
        "first": "finished",
        "long": "failed",
        "short": "finished",
        "last": "finished",
    }
    assert ended["long"].cause == "out-of-memory"
    assert "can't allocate memory" in str(ended["long"].error)
