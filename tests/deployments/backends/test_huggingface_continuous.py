"""What the contract suite cannot ask of every backend: preemption, a small cache, a loop that crashes."""

import asyncio
import itertools
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from deployments.backends.backend import EngineStep, Output, Work
from deployments.backends.engine_args import HuggingFaceContinuousArgs
from deployments.backends.huggingface_continuous import HuggingFaceContinuous
from deployments.errors import BackendError, EngineDead, ModelError, OutOfMemory
from deployments.models import ModelSpec
from deployments.service import Service
from strategies.continuous import Continuous
from tests.deployments.backends.forward_pass import before_pass

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

SLOTS = 4
CACHE_TOKENS = 96
FEW_BLOCKS = {"kv_blocks": CACHE_TOKENS // 16, "kv_block_tokens": 16, "max_num_batched_tokens": 16}


@asynccontextmanager
async def started(model: Path, **args: Any) -> AsyncIterator[HuggingFaceContinuous]:
    settings = HuggingFaceContinuousArgs(**{"threads": 1, "max_num_seqs": SLOTS} | args)
    backend = HuggingFaceContinuous(ModelSpec(name=str(model), dtype="float32"), settings)
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend(tiny_model: Path) -> AsyncIterator[HuggingFaceContinuous]:
    async with started(tiny_model) as roomy:
        yield roomy


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tight(tiny_model: Path) -> AsyncIterator[HuggingFaceContinuous]:
    """With a cache that holds one long request and a half."""
    async with started(tiny_model, **FEW_BLOCKS) as small:
        yield small


def work(request_id: str, prompt_tokens: int, output_tokens: int) -> Work:
    rng = random.Random(request_id)
    prompt_ids = [rng.randrange(512) for _ in range(prompt_tokens)]
    return Work(request_id=request_id, prompt_ids=prompt_ids, output_tokens=output_tokens)


def works(count: int, prompt_tokens: int, output_tokens: int) -> list[Work]:
    return [work(f"r{index}", prompt_tokens, output_tokens) for index in range(count)]


async def outputs_of(backend: HuggingFaceContinuous, batch: Sequence[Work]) -> dict[str, Output]:
    delivered: list[Output] = []
    await backend.run(batch, delivered.append)
    assert len(delivered) == len(batch)
    return {output.request_id: output for output in delivered}


async def steps_until(
    backend: HuggingFaceContinuous, running: "asyncio.Task[None]", seen: Callable[[EngineStep], bool]
) -> None:
    """Wait for such a step while the run is open."""
    while not running.done() and not any(seen(step) for step in backend.take_steps()):
        await asyncio.sleep(0)
    assert not running.done()


def model_of(backend: HuggingFaceContinuous) -> Any:
    """The model in its engine."""
    assert backend._engine is not None
    return backend._engine.manager.model


async def test_ids_and_stamps_survive_preemption(
    backend: HuggingFaceContinuous, tight: HuggingFaceContinuous
) -> None:
    batch = works(6, prompt_tokens=10, output_tokens=60)
    undisturbed = await outputs_of(backend, batch)
    tight.take_steps()
    ended = await outputs_of(tight, batch)
    steps = tight.take_steps()
    preemptions = {key: output.preemptions for key, output in ended.items()}
    assert sum(step.preemptions for step in steps) == sum(preemptions.values()) > 0
    assert {output.preemptions for output in undisturbed.values()} == {0}
    for key, output in ended.items():
        assert output.status == "finished"
        assert output.output_ids == undisturbed[key].output_ids
        assert output.scheduled_s < output.token_s[0]
        assert len(output.token_s) == 60
        assert list(output.token_s) == sorted(set(output.token_s))
    ends = [step.end_s for step in steps]
    assert {stamp for output in ended.values() for stamp in output.token_s} <= set(ends)
    # What was computed before a preemption is computed again, as prefill; no token comes twice.
    assert sum(step.prefill_tokens for step in steps) > 6 * 10
    assert sum(step.tokens for step in steps) == 6 * 60
    assert max(step.kv_use for step in steps) > 0.8


async def test_a_request_that_can_never_fit_the_cache_is_refused(tight: HuggingFaceContinuous) -> None:
    assert tight.limits.context_tokens == CACHE_TOKENS
    longest, longer = work("longest", 30, CACHE_TOKENS - 30), work("longer", 31, CACHE_TOKENS - 30)
    ended = await outputs_of(tight, [longer, longest])
    assert (ended["longer"].status, ended["longer"].cause) == ("failed", "invalid-request")
    assert "at most 96 tokens, got 97" in (ended["longer"].error or "")
    assert len(ended["longest"].output_ids) == CACHE_TOKENS - 30


async def test_a_prompt_longer_than_a_pass_is_cut_into_several(
    backend: HuggingFaceContinuous, tight: HuggingFaceContinuous
) -> None:
    long = [work("long", 50, 5)]
    whole = await outputs_of(backend, long)
    tight.take_steps()
    cut = await outputs_of(tight, long)
    assert cut["long"].output_ids == whole["long"].output_ids
    steps = tight.take_steps()
    assert [step.prefill_tokens for step in steps] == [16, 16, 16, 2, 0, 0, 0, 0]
    assert [step.tokens for step in steps] == [0, 0, 0, 1, 1, 1, 1, 1]


async def test_requests_are_admitted_after_preempted_ones_were_aborted(tight: HuggingFaceContinuous) -> None:
    """transformers admits nobody between a preemption and the next end, and an aborted request has none."""
    delivered: list[Output] = []
    running = asyncio.create_task(tight.run(works(4, 10, 80), delivered.append))
    await steps_until(tight, running, lambda step: step.preemptions > 0)
    await tight.abort()
    await running
    assert [output.status for output in delivered] == ["unfinished"] * 4
    assert any(output.preemptions for output in delivered)
    assert all(len(output.output_ids) == len(output.token_s) for output in delivered)
    after = await asyncio.wait_for(outputs_of(tight, works(2, 5, 3)), 30)
    assert {output.status for output in after.values()} == {"finished"}


async def test_a_request_beyond_the_slots_waits_until_one_is_free(backend: HuggingFaceContinuous) -> None:
    backend.take_steps()
    batch = [work(f"r{index}", 4, 5 + 3 * index) for index in range(SLOTS + 2)]
    ended = (await outputs_of(backend, batch)).values()
    first_end = min(output.token_s[-1] for output in ended)
    begun = sorted(output.scheduled_s for output in ended)
    assert begun[SLOTS - 1] < first_end < begun[SLOTS]
    steps = backend.take_steps()
    assert max(step.running for step in steps) == SLOTS
    assert steps[0].waiting == 2
    assert steps[-1].waiting == 0


async def test_tokens_of_one_step_share_its_stamp(backend: HuggingFaceContinuous) -> None:
    backend.take_steps()
    ended = (await outputs_of(backend, works(SLOTS, 6, 9))).values()
    ends = [step.end_s for step in backend.take_steps()]
    assert {stamp for output in ended for stamp in output.token_s} == set(ends)


async def test_an_invalid_request_never_reaches_the_engine(backend: HuggingFaceContinuous) -> None:
    backend.take_steps()
    ended = await outputs_of(backend, [Work(request_id="bad", prompt_ids=[1, 512], output_tokens=4)])
    assert ended["bad"].status == "failed"
    assert backend.take_steps() == []


async def test_abort_returns_partial_rows_with_their_stamps(backend: HuggingFaceContinuous) -> None:
    backend.take_steps()
    delivered: list[Output] = []
    running = asyncio.create_task(backend.run(works(SLOTS + 2, 3, 1500), delivered.append))
    await steps_until(backend, running, lambda step: step.tokens == SLOTS)
    await backend.abort()
    await running
    assert [output.status for output in delivered] == ["unfinished"] * (SLOTS + 2)
    partial = [output for output in delivered if output.output_ids]
    assert len(partial) == SLOTS
    for output in partial:
        assert output.scheduled_s < output.token_s[0]
        assert 0 < len(output.output_ids) == len(output.token_s) < 1500
    waiting = [output for output in delivered if not output.output_ids]
    assert all(output.scheduled_s is None and output.token_s == () for output in waiting)


async def test_a_cancelled_run_leaves_the_engine(backend: HuggingFaceContinuous) -> None:
    delivered: list[Output] = []
    running = asyncio.create_task(backend.run(works(SLOTS, 3, 1500), delivered.append))
    await steps_until(backend, running, lambda step: step.tokens == SLOTS)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert delivered == []
    backend.take_steps()
    await outputs_of(backend, works(1, 3, 5))
    assert {step.running for step in backend.take_steps()} == {1}


async def test_an_error_of_one_request_alone_fails_it_alone(
    backend: HuggingFaceContinuous, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = backend._engine.manager.batch_processor.scheduler
    admit = scheduler.add_waiting_request

    def refuse_long(state: Any) -> None:
        if len(state.initial_tokens) > 10:
            raise IndexError("too many of them")
        admit(state)

    monkeypatch.setattr(scheduler, "add_waiting_request", refuse_long)
    ended = await outputs_of(backend, [work("short", 3, 4), work("long", 20, 4)])
    assert ended["short"].status == "finished"
    assert (ended["long"].status, ended["long"].cause) == ("failed", "engine-error")
    assert ended["long"].error == "too many of them"
    await backend.check()


async def test_peak_memory_is_the_share_of_the_cache_in_use(backend: HuggingFaceContinuous) -> None:
    backend.reset_memory()
    assert backend.memory().peak_bytes == 0
    await outputs_of(backend, works(3, 3, 4))
    memory = backend.memory()
    assert memory.kind == "kv-cache"
    # 3 sequences of one block each: 2 · 2 layers · 1 head · 32 · 4 bytes for each of 256 tokens.
    assert memory.peak_bytes == 3 * 256 * 512
    assert memory.detail["cache_bytes"] == backend.setup["kv_cache_bytes"]
    backend.reset_memory()
    assert backend.memory().peak_bytes == 0


async def test_setup_says_what_is_effective(
    backend: HuggingFaceContinuous, tight: HuggingFaceContinuous
) -> None:
    assert backend.setup["attention"] == "sdpa"
    assert backend.setup["threads"] == 1
    assert backend.setup["engine_args"]["max_num_seqs"] == SLOTS
    assert backend.setup["engine_args"]["max_num_batched_tokens"] == 2048
    assert backend.setup["engine_args"]["allow_block_sharing"] is False  # prefix caching
    assert backend.setup["engine_args"]["use_async_batching"] is False
    # No more than 4 slots can fill: 2,048 tokens of context each, in blocks of 256.
    assert (backend.setup["kv_blocks"], backend.setup["kv_block_tokens"]) == (4 * 8, 256)
    assert backend.limits.context_tokens == backend.setup["context_tokens"] == 2048
    assert (tight.setup["kv_blocks"], tight.setup["kv_cache_bytes"]) == (6, 6 * 16 * 512)


async def test_a_started_backend_is_not_started_twice(backend: HuggingFaceContinuous) -> None:
    with pytest.raises(BackendError, match="already been started"):
        await backend.start()
    await backend.check()


async def test_the_event_loop_runs_while_the_model_loads(tiny_model: Path) -> None:
    turns = 0
    starting = asyncio.create_task(started(tiny_model).__aenter__())
    while not starting.done():
        turns += 1
        await asyncio.sleep(0)
    await (await starting).close()
    assert turns > 100


async def test_a_crashed_loop_fails_what_is_open_and_what_comes(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise IndexError("index out of range in self")

    def linger(backend: HuggingFaceContinuous, error: BaseException | None) -> None:
        stopped(backend, error)
        may_end.wait()

    stopped, may_end = HuggingFaceContinuous.stopped, threading.Event()
    monkeypatch.setattr(HuggingFaceContinuous, "stopped", linger)  # its thread lives on after it has told
    delivered: list[Output] = []
    threads = set(threading.enumerate())
    async with started(tiny_model) as backend:
        with (
            before_pass(model_of(backend), 4, fail),
            pytest.raises(EngineDead, match="ended: index out of range in self"),
        ):
            await backend.run([work("short", 3, 2), *works(SLOTS + 2, 3, 50)], delivered.append)
        assert [(output.request_id, output.status) for output in delivered] == [("short", "finished")]
        with pytest.raises(EngineDead, match="index out of range in self"):
            await backend.check()
        with pytest.raises(EngineDead, match="index out of range in self"):
            await asyncio.wait_for(backend.run(works(1, 3, 2), delivered.append), 30)
        await backend.abort()
        assert len(delivered) == 1
        may_end.set()
    assert set(threading.enumerate()) <= threads


def too_much() -> None:
    import torch

    torch.empty(2**50, dtype=torch.uint8)  # the allocator's own error


async def test_out_of_memory_gives_whole_batches_back_and_the_engine_goes_on(
    backend: HuggingFaceContinuous,
) -> None:
    first, second = works(2, 3, 40), [work("b", 5, 40)]
    expected = await outputs_of(backend, [*first, *second])
    delivered: list[Output] = []
    with before_pass(model_of(backend), 4, too_much):
        runs = [backend.run(batch, delivered.append) for batch in (first, second)]
        failures = await asyncio.gather(*runs, return_exceptions=True)
    assert delivered == []
    assert all(isinstance(failure, OutOfMemory) for failure in failures)
    assert failures[0] is failures[1], "the cap falls once"
    assert "can't allocate memory" in str(failures[0])
    assert str(failures[0]).endswith(
        "(requests in the engine: 3; smaller kv_blocks or max_num_batched_tokens need less)"
    )
    assert failures[0].ran == 3
    await backend.check()
    backend.take_steps()
    again = await outputs_of(backend, [*first, *second])
    assert {key: output.output_ids for key, output in again.items()} == {
        key: output.output_ids for key, output in expected.items()
    }
    assert backend.take_steps()[0].kv_use == pytest.approx(3 / 32), "the cache was empty again"


async def test_what_is_left_of_a_batch_goes_on_one_at_a_time_after_the_tokens_that_it_has(
    backend: HuggingFaceContinuous,
) -> None:
    batch = [work("short", 3, 2), *works(SLOTS - 1, 3, 20)]
    expected = await outputs_of(backend, batch)
    backend.take_steps()
    with before_pass(model_of(backend), 10, too_much):
        ended = await outputs_of(backend, batch)
    for key, output in ended.items():
        assert output.status == "finished"
        assert output.output_ids == expected[key].output_ids
        assert list(output.token_s) == sorted(output.token_s)
        assert output.preemptions == (key != "short")
    steps = backend.take_steps()
    assert [step.running for step in steps] == [4, 4, *[3] * 7, *[1] * 3 * 11]
    assert sum(step.tokens for step in steps) == 2 + 3 * 20


async def test_what_runs_out_of_memory_alone_has_failed(backend: HuggingFaceContinuous) -> None:
    with before_pass(model_of(backend), 2, too_much), pytest.raises(OutOfMemory) as caught:
        await outputs_of(backend, works(1, 3, 5))
    assert caught.value.ran == 1, "the dispatcher's to fail"

    passes = itertools.count(1)

    def fail_from_the_tenth(module: Any, *_: Any) -> None:
        if next(passes) >= 10:
            too_much()

    handle = model_of(backend).register_forward_pre_hook(fail_from_the_tenth)
    try:
        ended = await outputs_of(backend, [work("short", 3, 2), *works(2, 3, 20)])
    finally:
        handle.remove()
    assert ended["short"].status == "finished"
    for key in ("r0", "r1"):
        assert (ended[key].status, ended[key].cause) == ("failed", "out-of-memory")
        assert len(ended[key].output_ids) == 9, "what was made stays"
        assert "requests in the engine: 1" in (ended[key].error or "")
    assert (await outputs_of(backend, works(2, 3, 4)))["r1"].status == "finished"


async def test_what_is_held_after_running_out_of_memory_is_aborted_too(
    backend: HuggingFaceContinuous,
) -> None:
    backend.take_steps()
    delivered: list[Output] = []
    batch = [work("short", 3, 2), *works(SLOTS - 1, 3, 1500)]
    with before_pass(model_of(backend), 6, too_much):
        running = asyncio.create_task(backend.run(batch, delivered.append))
        await steps_until(backend, running, lambda step: step.running == 1)
        await backend.abort()
        await running
    assert [output.status for output in delivered] == ["finished", *["unfinished"] * 3]
    assert all(len(output.output_ids) >= 5 for output in delivered[1:])
    assert (await outputs_of(backend, works(2, 3, 4)))["r1"].status == "finished"


async def test_the_dispatcher_halves_what_ran_and_no_request_is_lost(
    backend: HuggingFaceContinuous,
) -> None:
    def at_most_two(module: Any, *_: Any) -> None:
        if len(backend._engine.manager.batch_processor.scheduler.active_requests) > 2:
            too_much()

    batch = works(12, 3, 6)
    expected = await outputs_of(backend, batch)
    handle = model_of(backend).register_forward_pre_hook(at_most_two)
    try:
        served = Service(backend, Continuous(max_batch_size=SLOTS), max_batch_size=SLOTS, expected=12)
        replies = await asyncio.gather(*(served.submit(one, 6) for one in batch))
    finally:
        handle.remove()
    assert served.dead is None
    assert {reply.output.status for reply in replies} == {"finished"}
    for reply in replies:
        assert reply.output.output_ids == expected[reply.output.request_id].output_ids
    assert served.min_cap == 2
    assert any(ran.out_of_memory for ran in served.runs)


async def test_a_loop_that_stops_under_a_request_on_its_way_in_does_not_leave_it_hanging(
    tiny_model: Path,
) -> None:
    async with started(tiny_model) as backend:
        manager = backend._engine.manager
        manager.stop(block=False, hard_stop=True, keep_for_next_session=True)  # from now on it refuses
        with pytest.raises(EngineDead, match="the generation loop has ended"):
            await asyncio.wait_for(backend.run(works(1, 3, 2), lambda _: None), 30)


async def test_a_load_past_its_deadline_is_given_up_and_leaves_nothing(tiny_model: Path) -> None:
    threads = set(threading.enumerate())
    with pytest.raises(BackendError, match="did not load within 1e-06 s") as caught:
        async with started(tiny_model, start_deadline_s=1e-6):
            pass
    assert not isinstance(caught.value, ModelError)
    for thread in set(threading.enumerate()) - threads:
        thread.join()  # the abandoned load comes to its end by itself
    assert set(threading.enumerate()) <= threads


async def test_a_cache_that_cannot_be_had_is_no_permanent_error(tiny_model: Path) -> None:
    with pytest.raises(BackendError, match="the KV cache does not fit") as caught:
        async with started(tiny_model, kv_blocks=10**9):
            pass
    assert not isinstance(caught.value, ModelError)


async def test_too_few_tokens_in_a_pass_for_the_slots_is_a_permanent_error(tiny_model: Path) -> None:
    with pytest.raises(ModelError, match="max_num_batched_tokens must be at least max_num_seqs 4, got 3"):
        async with started(tiny_model, max_num_batched_tokens=3):
            pass
