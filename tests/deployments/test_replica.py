"""One backend, one trial after another, without Ray: methods are called as Serve would call them."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import deployments.replica
from deployments.backends.backend import Work
from deployments.errors import BackendError, EngineDead
from deployments.padded_memory import given
from deployments.replica import Replica
from deployments.service import Reply
from strategies.kv_budget import KVBudget
from tests.deployments.fake_backend import WORD_DEADLINE_S, FakeBackend, FakeRun

NAIVE = ("naive", {"max_batch_size": 2}, 2)
SIMULATED = {
    "engine": "iteration",
    "fixed_ms": 2.0,
    "per_sequence_ms": 0.0,
    "per_1000_prefill_tokens_ms": 0.0,
    "max_num_seqs": 2,
}


def work(request_id: str, output_tokens: int = 3) -> Work:
    return Work(request_id=request_id, prompt_ids=(1, 2), output_tokens=output_tokens)


@pytest.fixture
async def backend(monkeypatch: pytest.MonkeyPatch) -> FakeBackend:
    """What every replica of the test will load."""
    fake = FakeBackend()
    monkeypatch.setattr(deployments.replica, "create", lambda *_: fake)
    return fake


@pytest.fixture
async def replica(backend: FakeBackend) -> Replica:
    started = Replica()
    await started.start("fake", None, {})
    return started


def generate(replica: Replica, trial: str, *request_ids: str) -> list[asyncio.Task[Reply]]:
    return [asyncio.create_task(replica.generate(trial, work(one), 8)) for one in request_ids]


async def causes(calls: list[asyncio.Task[Reply]]) -> list[str]:
    async with asyncio.timeout(WORD_DEADLINE_S):
        replies = await asyncio.gather(*calls)
    return [reply.output.cause or reply.output.status for reply in replies]


async def test_a_replica_that_has_not_loaded_says_so():
    replica = Replica()
    for call in (
        replica.warm([work("w")]),
        replica.measure(1, 4, 4),
        replica.begin("t", *NAIVE, 1),
    ):
        with pytest.raises(BackendError, match="has not loaded"):
            await call


async def test_it_is_started_once(replica: Replica):
    with pytest.raises(BackendError, match="already been started"):
        await replica.start("fake", None, {})


async def test_a_start_that_failed_may_be_tried_again(monkeypatch: pytest.MonkeyPatch):
    class Failing(FakeBackend):
        async def start(self) -> None:
            raise BackendError("no memory yet")

    made: Iterator[FakeBackend] = iter([Failing(), FakeBackend()])
    monkeypatch.setattr(deployments.replica, "create", lambda *_: next(made))
    replica = Replica()
    with pytest.raises(BackendError, match="no memory yet"):
        await replica.start("fake", None, {})
    assert await replica.start("fake", None, {}) == {"device": "fake"}


async def test_a_trial_from_begin_to_account(replica: Replica, backend: FakeBackend):
    incarnation = await replica.begin("t", *NAIVE, 2)
    calls = generate(replica, "t", "a", "b")
    run = await backend.began(1)
    progress = await replica.progress()
    assert (progress.waiting, progress.running, progress.tokens) == (0, 2, 0)
    run.finishes()
    assert await causes(calls) == ["finished", "finished"]
    assert (await replica.progress()).tokens == 6
    account = await replica.end()
    assert (account.incarnation, account.joinable, account.min_cap) == (incarnation, False, None)
    assert [len(ran.batch.requests) for ran in account.runs] == [2]
    assert account.memory.kind == "none"


async def test_two_replicas_are_never_taken_for_one():
    incarnations = {Replica()._incarnation for _ in range(3)}
    assert len(incarnations) == 3


@pytest.mark.parametrize("trial", ["other", "t/1", ""])
async def test_a_request_of_another_trial_is_refused(replica: Replica, backend: FakeBackend, trial: str):
    await replica.begin("t", *NAIVE, 2)
    reply = await replica.generate(trial, work("a"), 8)
    assert (reply.output.status, reply.output.cause) == ("failed", "other-trial")
    assert (await replica.progress()).waiting == 0


async def test_between_trials_requests_are_refused(replica: Replica):
    assert await causes(generate(replica, "", "a")) == ["other-trial"]
    await replica.begin("t", *NAIVE, 2)
    await replica.end()
    assert await causes(generate(replica, "t", "a") + generate(replica, "", "b")) == ["other-trial"] * 2


async def test_a_new_trial_ends_what_an_earlier_one_left(replica: Replica, backend: FakeBackend):
    await replica.begin("old", *NAIVE, 9)
    left = generate(replica, "old", "a", "b", "c")
    await backend.began(1)
    await replica.begin("new", *NAIVE, 1)
    assert await causes(left) == ["unfinished"] * 3
    calls = generate(replica, "new", "a")  # the same id as one of the old
    (await backend.began(2)).finishes()
    assert await causes(calls) == ["finished"]
    assert [len(ran.batch.requests) for ran in (await replica.end()).runs] == [1]


async def test_begin_with_an_unknown_strategy_leaves_the_name_of_no_trial(replica: Replica):
    with pytest.raises(ValueError, match="strategy must be one of"):
        await replica.begin("t", "wishful", {"max_batch_size": 2}, 2, 1)
    assert await causes(generate(replica, "t", "a")) == ["other-trial"]


async def test_abort_answers_all_and_the_trial_can_be_accounted_for(replica: Replica, backend: FakeBackend):
    await replica.begin("t", *NAIVE, 9)
    calls = generate(replica, "t", "a", "b", "c")
    await backend.began(1)
    await replica.abort()
    assert await causes(calls) == ["unfinished"] * 3
    assert len((await replica.end()).runs) == 1


@pytest.mark.parametrize("method", ["progress", "abort", "end"])
async def test_a_replica_without_the_trial_is_not_the_one_that_it_began_with(replica: Replica, method: str):
    with pytest.raises(EngineDead, match="not the one that the trial began with"):
        await getattr(replica, method)()


async def test_an_engine_that_died_unnoticed_is_noticed_at_the_end_and_at_the_beginning(
    replica: Replica, backend: FakeBackend
):
    await replica.begin("t", *NAIVE, 2)
    backend.dead = True
    with pytest.raises(EngineDead, match="is gone"):
        await replica.end()
    for call in (replica.begin("next", *NAIVE, 2), replica.warm([work("w")]), replica.measure(1, 4, 4)):
        with pytest.raises(EngineDead, match="is gone"):
            await call


async def during(call: Any, backend: FakeBackend, act: Callable[[FakeRun], None]) -> Any:
    """The outcome of a call that runs one batch, which goes as `act` says."""
    task = asyncio.ensure_future(call)
    act(await backend.began(1))
    async with asyncio.timeout(WORD_DEADLINE_S):
        return await task


async def test_warming_up_runs_all_in_batches_past_the_strategy_once_a_load(
    replica: Replica, backend: FakeBackend
):
    assert await replica.warm([]) is None
    warming = asyncio.create_task(replica.warm([work("a"), work("b"), work("c")]))
    for number in (1, 2):  # two that take as long as each other
        (await backend.began(number)).finishes()
    async with asyncio.timeout(WORD_DEADLINE_S):
        found = await warming
    assert found is not None
    assert (found.batches, found.settled) == (2, True)
    assert await replica.warm([work("d")]) == found
    assert [run.ids for run in backend.runs] == [["a-0", "b-0", "c-0"], ["a-1", "b-1", "c-1"]]


@pytest.mark.parametrize("call", [lambda r: r.warm([work("a")]), lambda r: r.measure(1, 4, 4)])
async def test_a_request_that_fails_in_preparation_is_an_error(
    replica: Replica, backend: FakeBackend, call: Callable[[Replica], Any]
):
    def fail(run: FakeRun) -> None:
        run.deliver(run.ids[0], status="failed")
        run.returns()

    with pytest.raises(BackendError, match="request failed"):
        await during(call(replica), backend, fail)


async def test_measuring_times_prefill_and_step():
    replica = Replica()
    engine = {
        "engine": "lockstep",
        "fixed_ms": 2.0,
        "per_sequence_ms": 0.5,
        "per_1000_prefill_tokens_ms": 1e3,
    }
    await replica.start("simulated", None, engine)
    sample = await replica.measure(2, 30, 6)
    assert (sample.batch_size, sample.prompt_tokens) == (2, 30)
    assert sample.step_s == pytest.approx(0.003)
    assert sample.prefill_s == pytest.approx(0.003 + 0.060)  # 60 prompt tokens at 1 ms each
    await replica.stop()


async def test_measuring_cuts_a_prompt_that_the_context_has_no_room_for():
    replica = Replica()
    await replica.start("simulated", None, SIMULATED | {"context_tokens": 20})
    sample = await replica.measure(1, 32, 8)
    assert sample.prompt_tokens == 12
    await replica.stop()


async def test_progress_and_account_hold_the_steps_of_an_engine_that_has_them():
    replica = Replica()
    await replica.start("simulated", None, SIMULATED | {"fixed_ms": 50.0})  # longer than a look takes
    await replica.measure(1, 4, 4)  # its steps are not the trial's
    await replica.begin("t", "continuous", {"max_batch_size": 2}, 2, 3)
    calls = generate(replica, "t", "a", "b", "c")
    await asyncio.wait({calls[0]})
    progress = await replica.progress()
    assert (progress.waiting, progress.running) == (1, 0)  # the third waits in the engine, not runs
    assert await causes(calls) == ["finished"] * 3
    account = await replica.end()
    assert account.joinable
    assert sum(step.tokens for step in account.steps) == 9
    assert [step.running for step in account.steps] == [2, 2, 2, 1, 1, 1]
    assert (await replica.ping()) >= account.steps[-1].end_s
    await replica.stop()


async def test_the_clock_is_the_one_of_the_stamps(replica: Replica):
    before_s = time.monotonic()
    assert before_s <= await replica.ping() <= time.monotonic()


async def test_stopping_closes_the_backend_even_if_it_cannot_be_aborted(
    replica: Replica, backend: FakeBackend
):
    await replica.begin("t", *NAIVE, 9)
    calls = generate(replica, "t", "a", "b", "c")
    run = await backend.began(1)
    backend.abort_error = RuntimeError("no answer")
    await replica.stop()
    assert backend.closed
    assert await causes(calls) == ["engine-dead"] * 3
    await replica.stop()  # again, and nothing happens
    run.returns()


async def test_stopping_ends_a_load():
    replica = Replica()
    loading = asyncio.create_task(replica.start("simulated", None, {"load_s": 50.0}))
    await asyncio.sleep(0)
    with pytest.raises(BackendError, match="already been started"):
        await replica.start("simulated", None, {})
    await replica.stop()
    async with asyncio.timeout(WORD_DEADLINE_S):
        with pytest.raises(BackendError):
            await loading


async def test_a_budget_in_bytes_launches_by_memory():
    replica = Replica()
    budget = {"kv_budget_bytes": 2 * (2 + 8) * 100, "kv_bytes_per_token": 100}  # two rows of prompt and limit
    await replica.start("simulated", None, {"fixed_ms": 1.0, **budget})
    await replica.begin("t", "dynamic", {"max_batch_size": 4, "max_wait_ms": 60_000.0}, 4, 4)
    calls = generate(replica, "t", "a", "b", "c", "d")
    assert await causes(calls) == ["finished"] * 4
    account = await replica.end()
    assert [(len(run.batch.requests), run.batch.trigger) for run in account.runs] == [(2, "memory")] * 2
    await replica.stop()


def test_a_budget_of_a_model_that_does_not_say_what_a_token_takes_is_refused():
    with pytest.raises(BackendError, match="a model whose"):
        given(1, None)
    assert given("auto", None) is None  # what is measured, or no limit


async def test_a_budget_that_a_full_batch_of_the_longest_rows_fits_is_no_limit():
    replica = Replica()
    budget = {"kv_budget_bytes": 3 * 12 * 100, "kv_bytes_per_token": 100}
    await replica.start("simulated", None, {"fixed_ms": 1.0, **budget})
    launched = {}
    for row_tokens, size in ((12, 3), (13, 3), (12, 4)):
        assert await replica.budget(None, row_tokens) == {"kv_budget_bytes": 3 * 12 * 100}
        await replica.begin("t", "dynamic", {"max_batch_size": size, "max_wait_ms": 0.0}, size, 1)
        assert replica._service is not None
        launched[row_tokens, size] = replica._service.dispatcher._kv
    await replica.stop()
    assert launched[12, 3] is None
    assert launched[13, 3] == launched[12, 4] == KVBudget(budget_bytes=3 * 12 * 100, bytes_per_token=100)
