"""What only the vLLM backend promises; the rest is in the contract suite. Its last test kills the shared engine."""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
import pytest_asyncio
from safetensors.numpy import save_file

from deployments.backends.backend import Output, Work
from deployments.backends.child_processes import ChildProcesses
from deployments.backends.engine_args import VLLM_BATCHED_TOKENS, VllmArgs
from deployments.backends.vllm import Vllm
from deployments.errors import BackendError, EngineDead, ModelError
from deployments.models import ModelSpec

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),  # vLLM's import
]


def backend_of(model: Path) -> Vllm:
    return Vllm(ModelSpec(name=str(model), dtype="float32"), VllmArgs(threads=1))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def vllm(tiny_model: Path, shared_vllm: Callable[[Path], Awaitable[Vllm]]) -> Vllm:
    return await shared_vllm(tiny_model)


def works(count: int, *, output_tokens: int = 6) -> list[Work]:
    return [
        Work(
            request_id=f"r{i}",
            prompt_ids=[(7 * i + k) % 256 for k in range(3 + 5 * i)],
            output_tokens=output_tokens + 3 * i,
        )
        for i in range(count)
    ]


async def outputs_of(backend: Vllm, batch: list[Work]) -> dict[str, Output]:
    outputs: list[Output] = []
    await backend.run(batch, outputs.append)
    return {output.request_id: output for output in outputs}


async def test_a_request_beyond_the_slots_waits_until_one_is_free(vllm):
    outputs = (await outputs_of(vllm, works(6))).values()  # 4 slots
    first_end = min(output.token_s[-1] for output in outputs)
    begun = sorted(output.scheduled_s for output in outputs)
    assert begun[3] < first_end
    assert begun[4] > begun[3]
    assert {output.preemptions for output in outputs} == {0}


async def test_tokens_of_one_step_share_its_stamp(vllm):
    vllm.take_steps()
    outputs = (await outputs_of(vllm, works(4))).values()
    ends = [step.end_s for step in vllm.take_steps()]
    assert {stamp for output in outputs for stamp in output.token_s} == set(ends)


async def test_an_invalid_request_never_reaches_the_engine(vllm):
    vllm.take_steps()
    outputs = await outputs_of(vllm, [Work(request_id="bad", prompt_ids=[1, 512], output_tokens=4)])
    assert outputs["bad"].status == "failed"
    assert vllm.take_steps() == []


async def test_abort_returns_partial_rows_with_their_stamps(vllm):
    vllm.take_steps()
    outputs: list[Output] = []
    batch = [Work(request_id=f"r{i}", prompt_ids=[9, 8, 7], output_tokens=2000) for i in range(6)]
    running = asyncio.create_task(vllm.run(batch, outputs.append))
    while not running.done() and not any(step.tokens == 4 for step in vllm.take_steps()):
        await asyncio.sleep(0)
    await vllm.abort()
    await running
    assert [output.status for output in outputs] == ["unfinished"] * 6
    partial = [output for output in outputs if output.output_ids]
    waiting = [output for output in outputs if not output.output_ids]
    assert len(partial) == 4
    for output in partial:
        assert output.scheduled_s <= output.token_s[0]
        assert 0 < len(output.output_ids) == len(output.token_s) < 2000
    assert all(output.scheduled_s is None and output.token_s == () for output in waiting)


async def test_abort_before_a_request_reached_the_engine_ends_it_too(vllm):
    outputs: list[Output] = []
    running = asyncio.create_task(vllm.run(works(2, output_tokens=2000), outputs.append))
    await asyncio.sleep(0)  # the tasks exist, none has added its request
    await vllm.abort()
    await running
    assert [output.status for output in outputs] == ["unfinished"] * 2


async def test_steps_and_memory_say_what_ran(vllm):
    await outputs_of(vllm, works(1))  # behind it, no step of a request that was aborted can still come in
    vllm.take_steps()
    vllm.reset_memory()
    assert vllm.memory().peak_bytes == 0
    batch = works(6)
    await outputs_of(vllm, batch)
    steps = vllm.take_steps()
    assert max(step.running for step in steps) == 4
    assert all(step.running >= step.tokens > 0 for step in steps)
    assert max(step.waiting for step in steps) >= 1
    memory = vllm.memory()
    assert memory.kind == "kv-cache"
    # 4 sequences of one block each: 2 · 2 layers · 1 head · 32 · 4 bytes for each of 128 tokens.
    assert memory.peak_bytes == pytest.approx(4 * 128 * 512, rel=0.001)


async def test_setup_says_what_is_effective(vllm):
    assert vllm.setup["dtype"] == "float32"
    assert vllm.setup["device"] == "cpu"
    assert vllm.setup["threads"] == 1
    assert vllm.setup["engine_args"]["max_num_seqs"] == 4
    assert vllm.setup["engine_args"]["enforce_eager"] is True
    assert vllm.setup["engine_args"]["enable_prefix_caching"] is False
    assert vllm.setup["kv_cache_bytes"] == 2**30
    assert vllm.setup["weight_bytes"] > 0
    assert vllm.setup["bandwidth_bytes_per_s"] is None  # of a CPU
    worker = psutil.Process(vllm.engine_pids[-1])
    assert worker.cpu_affinity() == sorted(os.sched_getaffinity(0))[:1]
    assert (vllm.limits.vocabulary, vllm.limits.context_tokens) == (512, 2048)


async def test_a_step_that_is_given_no_budget_takes_the_one_that_simulations_assume(vllm):
    """And on any device: the tables by device know nothing of the way in which it is run here."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    assert vllm.setup["engine_args"]["max_num_batched_tokens"] == VLLM_BATCHED_TOKENS
    assert UsageContext.ENGINE_CONTEXT not in EngineArgs.get_batch_defaults(1)[0]


async def test_a_started_backend_is_not_started_twice(vllm):
    with pytest.raises(BackendError, match="already been started"):
        await vllm.start()
    await vllm.check()


async def test_a_folder_that_is_no_model_is_a_model_error(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "no-such-model"}')
    save_file({"weight": np.zeros((3, 3), np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match="vLLM cannot load"):
        await backend_of(tmp_path).start()


async def test_where_vllm_cannot_be_imported_the_error_says_what_runs_continuous(tiny_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm.engine.arg_utils", None)
    with pytest.raises(
        ModelError, match=r"cannot be imported .*; continuous batching runs on huggingface-con"
    ):
        await backend_of(tiny_model).start()


async def test_a_load_past_its_deadline_is_given_up_and_leaves_nothing(vllm, tiny_model):
    children = ChildProcesses()
    threads = set(threading.enumerate())
    late = Vllm(ModelSpec(name=str(tiny_model)), VllmArgs(start_deadline_s=1e-6))
    with pytest.raises(BackendError, match="did not load within 1e-06 s"):
        await late.start()
    for thread in set(threading.enumerate()) - threads:
        thread.join()  # the abandoned call comes to its end by itself
    children.adopt()
    assert children.pids == ()
    await late.close()
    await vllm.check()


async def test_a_killed_engine_is_noticed_by_check_and_by_run(vllm):
    """The last test of this module: it ends the shared engine."""
    outputs: list[Output] = []
    core, worker = (psutil.Process(pid) for pid in vllm.engine_pids)
    core.suspend()  # so that it cannot finish first
    running = asyncio.create_task(vllm.run(works(2), outputs.append))
    await asyncio.sleep(0)
    core.kill()
    with pytest.raises(EngineDead):
        await running
    with pytest.raises(EngineDead):
        await vllm.check()
    with pytest.raises(EngineDead):
        await vllm.run(works(1), outputs.append)
    assert outputs == []
    await vllm.close()
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE  # its own parent is gone
