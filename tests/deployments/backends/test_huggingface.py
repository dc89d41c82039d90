"""What the contract suite cannot ask of every backend: cuts in mid-batch, errors inside a forward pass."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from safetensors.numpy import save_file
from transformers import PreTrainedModel

from deployments.backends.backend import Output, Work
from deployments.backends.cpu_threads import cores
from deployments.backends.engine_args import HuggingFaceArgs
from deployments.backends.huggingface import HuggingFace
from deployments.errors import BackendError, ModelError, OutOfMemory
from deployments.models import ModelSpec
from tests.deployments.backends.forward_pass import before_pass

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(tiny_model: Path) -> AsyncIterator[HuggingFace]:
    started = HuggingFace(ModelSpec(name=str(tiny_model), dtype="float32"), HuggingFaceArgs(threads=1))
    await started.start()
    yield started
    await started.close()


def work(request_id: str, output_tokens: int) -> Work:
    return Work(request_id=request_id, prompt_ids=[5, 6, 7], output_tokens=output_tokens)


async def run(backend: HuggingFace, *batch: Work) -> list[Output]:
    delivered: list[Output] = []
    await backend.run(batch, delivered.append)
    return delivered


def model_of(backend: HuggingFace) -> Any:
    """The model in its engine."""
    assert backend._engine is not None
    return backend._engine.loaded.model


async def test_a_cut_in_mid_batch_finishes_the_rows_that_have_their_length(backend: HuggingFace) -> None:
    loop, sixth_pass = asyncio.get_running_loop(), asyncio.Event()
    whole = await run(backend, work("long", 40))
    with before_pass(model_of(backend), 6, lambda: loop.call_soon_threadsafe(sixth_pass.set)):
        delivered: list[Output] = []
        open_run = asyncio.create_task(
            backend.run([work("short", 3), work("long", 1500), work("five", 5)], delivered.append)
        )
        await sixth_pass.wait()
        await backend.abort()
        await open_run
    short, long, five = delivered
    assert [short.status, long.status, five.status] == ["finished", "unfinished", "finished"]
    assert [len(short.token_s), len(five.token_s)] == [3, 5]
    assert 6 <= len(long.token_s) == len(long.output_ids) < 1500
    compared = min(40, len(long.output_ids))
    assert long.output_ids[:compared] == whole[0].output_ids[:compared]
    assert short.returned_s == long.returned_s


async def test_a_cancelled_run_stops_the_engine(backend: HuggingFace) -> None:
    loop, third_pass, last_passes = asyncio.get_running_loop(), asyncio.Event(), []
    with (
        before_pass(model_of(backend), 3, lambda: loop.call_soon_threadsafe(third_pass.set)),
        before_pass(model_of(backend), 1400, lambda: last_passes.append("reached")),
    ):
        delivered: list[Output] = []
        open_run = asyncio.create_task(backend.run([work("long", 1500)], delivered.append))
        await third_pass.wait()
        open_run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await open_run
        next_run = await run(backend, work("next", 3))  # in the same thread, so after the cancelled one
    assert delivered == last_passes == []
    assert next_run[0].status == "finished"


async def test_out_of_memory_delivers_nothing_and_the_batch_may_run_again(backend: HuggingFace) -> None:
    import torch

    batch = [work("a", 5), Work(request_id="invalid", prompt_ids=[], output_tokens=1), work("b", 5)]
    with before_pass(
        model_of(backend), 3, lambda: torch.empty(2**50, dtype=torch.uint8)
    ):  # the allocator's own error
        delivered: list[Output] = []
        with pytest.raises(OutOfMemory, match="can't allocate memory"):
            await backend.run(batch, delivered.append)
    assert delivered == []
    again = await run(backend, *batch)
    assert [output.status for output in again] == ["finished", "failed", "finished"]


async def test_a_gpu_out_of_memory_is_recognised_too(backend: HuggingFace) -> None:
    import torch

    def fail() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore lines")

    with before_pass(model_of(backend), 1, fail), pytest.raises(OutOfMemory) as caught:
        await run(backend, work("a", 5))
    assert str(caught.value) == "CUDA out of memory. Tried to allocate 2.00 GiB."


async def test_another_error_fails_the_rows_of_its_batch_alone(backend: HuggingFace) -> None:
    def fail() -> None:
        raise IndexError("index out of range in self")

    with before_pass(model_of(backend), 2, fail):
        failed = await run(backend, work("a", 5), work("b", 1))
    for output in failed:
        assert (output.status, output.cause) == ("failed", "IndexError")
        assert output.error == "index out of range in self"
        assert output.output_ids == output.token_s == ()
    assert (await run(backend, work("a", 5)))[0].status == "finished"


async def test_threads_are_set_in_the_engines_thread_and_recorded(tiny_model: Path) -> None:
    backend = HuggingFace(ModelSpec(name=str(tiny_model)), HuggingFaceArgs(threads=2))
    await backend.start()
    assert backend.setup["threads"] == 2
    await backend.close()


async def test_no_engine_gets_more_threads_than_there_are_cores(tiny_model: Path) -> None:
    backend = HuggingFace(ModelSpec(name=str(tiny_model)), HuggingFaceArgs(threads=cores() + 5))
    await backend.start()
    assert backend.setup["threads"] == cores()  # as vLLM, which binds each thread to a core
    await backend.close()


async def test_peak_memory_is_that_of_the_period(backend: HuggingFace) -> None:
    import torch

    def spike() -> None:
        torch.ones(2**28, dtype=torch.uint8)

    if backend.memory().kind != "resident":
        pytest.skip("the spike is in the process's memory")
    backend.reset_memory()
    await run(backend, work("a", 2))
    quiet = backend.memory()
    with before_pass(model_of(backend), 1, spike):
        await run(backend, work("a", 2))
    spiked = backend.memory()
    backend.reset_memory()
    await run(backend, work("a", 2))
    after = backend.memory()
    assert quiet.peak_bytes is not None
    assert spiked.peak_bytes is not None
    assert after.peak_bytes is not None
    assert spiked.peak_bytes - quiet.peak_bytes > 0.9 * 2**28
    assert spiked.peak_bytes - after.peak_bytes > 0.9 * 2**28


async def test_a_load_that_misses_its_deadline_is_no_permanent_error_and_ends_by_itself(
    tiny_model: Path,
) -> None:
    threads = set(threading.enumerate())
    backend = HuggingFace(ModelSpec(name=str(tiny_model)), HuggingFaceArgs(start_deadline_s=1e-6))
    with pytest.raises(BackendError, match="did not load within 1e-06 s") as caught:
        await backend.start()
    assert not isinstance(caught.value, ModelError)
    await backend.close()
    for thread in set(threading.enumerate()) - threads:
        thread.join()


async def test_models_that_load_at_the_same_time_leave_transformers_as_it_was(tiny_model: Path) -> None:
    untouched = PreTrainedModel.tie_weights
    backends = [HuggingFace(ModelSpec(name=str(tiny_model)), HuggingFaceArgs()) for _ in range(4)]
    await asyncio.gather(*(backend.start() for backend in backends))
    assert PreTrainedModel.tie_weights is untouched
    for backend in backends:
        await backend.close()


async def test_broken_weights_are_a_permanent_error_in_one_line(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((tiny_model / "config.json").read_bytes())
    save_file({"model.embed_tokens.weight": np.zeros((3, 3), np.float32)}, tmp_path / "model.safetensors")
    backend = HuggingFace(ModelSpec(name=str(tmp_path)), HuggingFaceArgs())
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        await backend.start()
    assert "\n" not in str(caught.value)
    await backend.close()
