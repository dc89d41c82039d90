"""The dispatcher in real time: whatever happens to a batch, every caller gets exactly one answer."""

import asyncio
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest

from deployments.backends.backend import EngineStep, Work
from deployments.errors import EngineDead, OutOfMemory
from deployments.service import Reply, Service
from strategies.continuous import Continuous
from strategies.dynamic import Dynamic
from strategies.naive import Naive
from strategies.strategy import EngineView, Launch, Reject, Strategy, Wait, Waiting
from tests.deployments.fake_backend import WORD_DEADLINE_S, FakeBackend, FakeRun


def work(request_id: str, *, prompt_ids: tuple[int, ...] = (1, 2), output_tokens: int = 3) -> Work:
    return Work(request_id=request_id, prompt_ids=prompt_ids, output_tokens=output_tokens)


def service(
    backend: FakeBackend, strategy: Strategy | None = None, *, size: int = 2, expected: int = 99
) -> Service:
    chosen = strategy or Naive(max_batch_size=size)
    return Service(backend, chosen, max_batch_size=size, expected=expected)


def submit(served: Service, *request_ids: str) -> list[asyncio.Task[Reply]]:
    return [asyncio.create_task(served.submit(work(one), 8)) for one in request_ids]


async def answers(calls: list[asyncio.Task[Reply]]) -> dict[str, Reply]:
    async with asyncio.timeout(WORD_DEADLINE_S):
        replies = await asyncio.gather(*calls)
    assert len({reply.output.request_id for reply in replies}) == len(calls)
    return {reply.output.request_id: reply for reply in replies}


def how(replies: dict[str, Reply]) -> dict[str, str]:
    return {name: reply.output.cause or reply.output.status for name, reply in sorted(replies.items())}


async def test_a_reply_says_when_the_request_arrived_and_in_which_batch_it_ran():
    backend = FakeBackend()
    served = service(backend)
    loop = asyncio.get_running_loop()  # its clock is time.monotonic
    before_s = loop.time()
    calls = submit(served, "a", "b")
    run = await backend.began(1)
    run.finishes()
    replies = await answers(calls)
    assert how(replies) == {"a": "finished", "b": "finished"}
    assert [replies[name].batch_id for name in "ab"] == [0, 0]
    assert before_s <= replies["a"].arrived_s <= replies["b"].arrived_s <= replies["a"].output.scheduled_s
    assert served.tokens == 6
    (ran,) = served.runs
    assert (ran.outputs, ran.out_of_memory, ran.batch.trigger) == ((3, 3), False, "size")
    assert ran.batch.launched_s <= ran.ended_s


def deliver_one_and_raise(error: Exception) -> Callable[[FakeRun], None]:
    def act(run: FakeRun) -> None:
        run.deliver("a")
        run.raises(error)

    return act


def deliver_twice(run: FakeRun) -> None:
    run.deliver("a")
    run.deliver("a")
    run.finishes()


def deliver_too_few_tokens(run: FakeRun) -> None:
    run.deliver("a", tokens=2)
    run.finishes()


@pytest.mark.parametrize(
    ("act", "first", "second"),
    [
        (FakeRun.finishes, "finished", "finished"),
        (FakeRun.returns, "no-output", "no-output"),
        (deliver_too_few_tokens, "wrong-length", "finished"),
        (deliver_twice, "finished", "finished"),
        (lambda run: run.raises(ValueError("shape")), "ValueError", "ValueError"),
        (deliver_one_and_raise(ValueError("shape")), "finished", "ValueError"),
    ],
)
async def test_a_batch_that_fails_fails_its_own_requests_only(
    act: Callable[[FakeRun], None], first: str, second: str
):
    backend = FakeBackend()
    served = service(backend)
    calls = submit(served, "a", "b", "c", "d")
    act(await backend.began(1))
    (await backend.began(2)).finishes()
    assert how(await answers(calls)) == {"a": first, "b": second, "c": "finished", "d": "finished"}
    assert served.dead is None
    assert served.dispatcher.idle


async def test_tokens_are_counted_as_steps_make_them_before_any_request_has_ended():
    backend = FakeBackend()
    steps = [
        EngineStep(end_s=0.0, running=2, waiting=0, tokens=2, prefill_tokens=0, kv_use=None, preemptions=0)
    ]
    backend.take_steps = lambda: steps
    served = service(backend)
    calls = submit(served, "a", "b")
    run = await backend.began(1)
    served.collect_steps()
    assert served.tokens == 2
    served.collect_steps()
    assert served.tokens == 4
    run.finishes()
    await answers(calls)
    assert (
        served.tokens == 6
    )  # what has ended has made all its tokens, whether its last step was collected or not


async def test_a_wrong_length_says_what_was_asked_and_given():
    backend = FakeBackend()
    calls = submit(service(backend), "a", "b")
    deliver_too_few_tokens(await backend.began(1))
    output = (await answers(calls))["a"].output
    assert (output.status, output.error) == ("failed", "asked for 3 output tokens, got 2")
    assert len(output.output_ids) == 2


@pytest.mark.parametrize("joinable", [False, True])
async def test_a_dead_engine_answers_what_runs_what_waits_and_what_comes(joinable: bool):
    backend = FakeBackend(joinable=joinable)
    served = service(backend)
    calls = submit(served, "a", "b", "c")
    deliver_one_and_raise(EngineDead("process 7 has ended"))(await backend.began(1))
    replies = await answers(calls)
    assert how(replies) == {"a": "finished", "b": "engine-dead", "c": "engine-dead"}
    assert replies["c"].output.error == "process 7 has ended"
    assert how(await answers(submit(served, "d"))) == {"d": "engine-dead"}
    assert len(backend.runs) == 1


async def test_a_batch_launched_in_the_moment_of_the_death_is_answered():
    backend = FakeBackend(joinable=True)
    served = service(backend, Continuous(max_batch_size=8), size=8)
    calls = submit(served, "a")
    run = await backend.began(1)
    late = submit(served, "b")  # its batch is launched, and its task waits for the loop
    run.raises(EngineDead("gone"))
    assert how(await answers(calls + late)) == {"a": "engine-dead", "b": "engine-dead"}


@pytest.mark.parametrize("joinable", [False, True])
async def test_a_batch_that_did_not_fit_runs_again_in_smaller_ones_in_its_order(joinable: bool):
    backend = FakeBackend(joinable=joinable)
    served = service(backend, size=4)
    calls = submit(served, *"abcdefgh")
    (await backend.began(1)).raises(OutOfMemory("4 rows"))
    for count in range(2, 6):
        (await backend.began(count)).finishes()
    replies = await answers(calls)
    assert set(how(replies).values()) == {"finished"}
    assert ["".join(run.ids) for run in backend.runs] == ["abcd", "ab", "cd", "ef", "gh"]
    assert [ran.out_of_memory for ran in served.runs] == [True, False, False, False, False]
    assert [replies[name].batch_id for name in "abcdefgh"] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert (served.min_cap, served.dispatcher.cap) == (2, 2)


async def test_a_request_that_does_not_fit_alone_fails_and_the_next_goes_on():
    backend = FakeBackend()
    served = service(backend, size=2)
    calls = submit(served, "a", "b")
    (await backend.began(1)).raises(OutOfMemory("both"))
    (await backend.began(2)).raises(OutOfMemory("a alone"))
    (await backend.began(3)).finishes()
    replies = await answers(calls)
    assert how(replies) == {"a": "out-of-memory", "b": "finished"}
    assert (replies["a"].output.status, replies["a"].output.error) == ("failed", "a alone")
    assert served.min_cap == 1


async def test_batches_that_share_a_failure_all_run_again_under_a_cap_that_fell_once():
    backend = FakeBackend(joinable=True)
    served = service(backend, Continuous(max_batch_size=8), size=8)
    calls = []
    for count, name in enumerate("abcd", start=1):
        calls += submit(served, name)
        await backend.began(count)
    failure = OutOfMemory("four of them", ran=4)
    for run in backend.runs[:4]:
        run.raises(failure)
    while any(not call.done() for call in calls):
        await backend.began(len(backend.runs))
        for run in backend.runs[4:]:
            if not run.outcome.done():
                run.finishes()
        await asyncio.sleep(0)
    assert set(how(await answers(calls)).values()) == {"finished"}
    assert served.min_cap == 2
    again = [run.ids for run in backend.runs[4:]]
    assert sorted(one for ids in again for one in ids) == list("abcd")
    assert max(map(len, again)) <= 2


async def test_out_of_memory_after_a_delivery_breaks_the_protocol_and_hangs_nobody():
    backend = FakeBackend()
    served = service(backend)
    calls = submit(served, "a", "b", "c")
    deliver_one_and_raise(OutOfMemory("half"))(await backend.began(1))
    assert how(await answers(calls)) == {"a": "finished", "b": "engine-dead", "c": "engine-dead"}
    assert "accounted for" in str(served.dead)


class Undecided:
    """Fails at its second question."""

    def __init__(self) -> None:
        self.asked = 0

    def decide(self, now_s: float, waiting: Any, engine: EngineView) -> Wait:
        self.asked += 1
        if self.asked > 1:
            raise ZeroDivisionError("rate of 0")
        return Wait(until_s=now_s + 0.001)


async def test_a_strategy_that_raises_in_a_timer_leaves_nobody_waiting():
    served = service(FakeBackend(), Undecided())
    (reply,) = (await answers(submit(served, "a"))).values()
    assert reply.output.error == "the strategy failed: ZeroDivisionError: rate of 0"


class Refusing:
    """Refuses the youngest, launches the others."""

    def decide(self, now_s: float, waiting: Any, engine: EngineView) -> Launch | Reject | Wait:
        if len(waiting) > 1:
            return Reject((len(waiting) - 1,), "too many")
        return Wait() if engine.running else Launch(1, "size")


async def test_a_request_that_the_strategy_refuses_is_answered_with_its_reason():
    backend = FakeBackend()
    served = service(backend, Refusing())
    calls = submit(served, "a", "b", "c")
    run = await backend.began(1)
    run.finishes()
    (await backend.began(2)).finishes()
    replies = await answers(calls)
    assert how(replies) == {"a": "finished", "b": "finished", "c": "rejected"}
    assert replies["c"].output.error == "too many"


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (work("x", prompt_ids=(1, 100)), "token ids must be in 0..99, got 100"),
        (work("x", prompt_ids=(-1,)), "token ids must be in 0..99, got -1"),
        (work("x", prompt_ids=()), "the prompt must have at least 1 token, got 0"),
        (work("x", output_tokens=0), "output_tokens must be at least 1, got 0"),
        (work("x", output_tokens=63), "prompt + output must be at most 64 tokens, got 65"),
    ],
)
async def test_an_impossible_request_never_reaches_the_engine_and_is_not_waited_for(bad: Work, error: str):
    backend = FakeBackend()
    served = service(backend, size=4, expected=3)
    calls = submit(served, "a", "b")
    refused = await served.submit(bad, 8)
    assert (refused.output.status, refused.output.cause) == ("failed", "invalid-request")
    assert (refused.output.error, refused.batch_id) == (error, None)
    run = await backend.began(1)  # naive flushes: no third request will come
    run.finishes()
    assert (run.ids, served.runs) == (["a", "b"], [])
    assert how(await answers(calls)) == {"a": "finished", "b": "finished"}
    assert served.runs[0].batch.trigger == "flush"


async def test_the_last_expected_arrival_flushes():
    backend = FakeBackend()
    served = service(backend, size=2, expected=3)
    calls = submit(served, "a", "b", "c")
    (await backend.began(1)).finishes()
    (await backend.began(2)).finishes()
    await answers(calls)
    assert [(run.batch.trigger, len(run.batch.requests)) for run in served.runs] == [
        ("size", 2),
        ("flush", 1),
    ]


async def test_the_age_of_the_oldest_is_kept_by_a_timer():
    backend = FakeBackend()
    served = service(backend, Dynamic(max_batch_size=8, max_wait_ms=30.0), size=8)
    calls = submit(served, "a", "b")
    (await backend.began(1)).finishes()
    await answers(calls)
    batch = served.runs[0].batch
    assert (batch.trigger, len(batch.requests)) == ("age", 2)
    assert batch.launched_s >= batch.requests[0].arrived_s + 0.030


async def test_a_lockstep_engine_is_not_given_a_batch_before_its_run_has_returned():
    backend = FakeBackend()
    served = service(backend, size=1)
    calls = submit(served, "a")
    run = await backend.began(1)
    run.deliver("a")  # its caller has it, but the engine is still busy
    calls += submit(served, "b")
    await asyncio.wait({calls[0]})
    waiting = asyncio.create_task(backend.began(2))
    await asyncio.wait({waiting}, timeout=0.02)
    assert not waiting.done()
    run.returns()
    (await waiting).finishes()
    assert how(await answers(calls)) == {"a": "finished", "b": "finished"}
    assert backend.most_open == 1


async def test_a_joinable_engine_is_given_the_next_batch_while_one_runs():
    backend = FakeBackend(joinable=True)
    served = service(backend, Continuous(max_batch_size=8), size=8)
    calls = submit(served, "a")
    await backend.began(1)
    calls += submit(served, "b")
    await backend.began(2)
    assert (backend.most_open, served.dispatcher.running) == (2, 2)
    for run in backend.runs:
        run.finishes()
    await answers(calls)


async def test_a_gated_strategy_on_a_joinable_engine_launches_when_the_last_row_has_left():
    backend = FakeBackend(joinable=True)
    served = service(backend, size=2)
    calls = submit(served, *"abcd")
    run = await backend.began(1)
    run.deliver("a")
    await asyncio.wait({calls[0]})
    assert len(backend.runs) == 1
    run.deliver("b")
    (await backend.began(2)).finishes()
    run.returns()
    assert set(how(await answers(calls)).values()) == {"finished"}


async def test_abort_answers_what_runs_and_what_waits():
    backend = FakeBackend()
    served = service(backend)
    calls = submit(served, "a", "b", "c")
    (await backend.began(1)).deliver("a")
    await served.abort()
    assert how(await answers(calls)) == {"a": "finished", "b": "unfinished", "c": "unfinished"}
    assert how(await answers(submit(served, "d"))) == {"d": "unfinished"}
    assert (len(backend.runs), served.dispatcher.idle, backend.open) == (1, True, [])


async def test_abort_in_the_moment_of_a_launch_does_not_wait_for_the_batch():
    backend = FakeBackend()
    served = service(backend)
    calls = submit(served, "a", "b")
    aborting = asyncio.create_task(served.abort())  # runs before the task of the batch does
    async with asyncio.timeout(WORD_DEADLINE_S):
        await aborting
    assert how(await answers(calls)) == {"a": "unfinished", "b": "unfinished"}
    assert backend.runs == []


async def test_abort_after_running_out_of_memory_answers_the_batch_that_came_back():
    backend = FakeBackend()
    served = service(backend)
    calls = submit(served, "a", "b")
    run = await backend.began(1)
    aborting = asyncio.create_task(served.abort())
    run.raises(OutOfMemory("in the very moment"))
    async with asyncio.timeout(WORD_DEADLINE_S):
        await aborting
    replies = await answers(calls)
    assert how(replies) == {"a": "unfinished", "b": "unfinished"}
    assert [reply.batch_id for reply in replies.values()] == [None, None]


async def test_an_engine_that_cannot_be_stopped_is_dead_and_hangs_nobody():
    backend = FakeBackend()
    served = service(backend)
    calls = submit(served, "a", "b", "c")
    run = await backend.began(1)
    backend.abort_error = RuntimeError("no answer")
    with pytest.raises(EngineDead, match="could not be stopped: no answer"):
        await served.abort()
    assert set(how(await answers(calls)).values()) == {"engine-dead"}
    run.returns()


async def test_a_caller_that_goes_away_leaves_the_others_alone():
    backend = FakeBackend()
    served = service(backend)
    calls = submit(served, "a", "b", "c", "d")
    run = await backend.began(1)
    calls[0].cancel()  # running
    calls[2].cancel()  # waiting
    await asyncio.wait({calls[0], calls[2]})
    run.finishes()
    (await backend.began(2)).finishes()
    assert how(await answers([calls[1], calls[3]])) == {"b": "finished", "d": "finished"}
    assert served.dispatcher.idle


async def test_an_id_that_is_here_already_is_refused_without_harm_to_the_first():
    backend = FakeBackend()
    served = service(backend)
    calls = submit(served, "a")
    await asyncio.sleep(0)
    with pytest.raises(AssertionError, match="here already"):
        await served.submit(work("a"), 8)
    calls += submit(served, "b")
    (await backend.began(1)).finishes()
    assert how(await answers(calls)) == {"a": "finished", "b": "finished"}


async def test_what_waits_is_seen_by_whoever_asks():
    backend = FakeBackend()
    served = service(backend)
    calls = submit(served, "a", "b", "c")
    run = await backend.began(1)
    assert (served.waiting, served.dispatcher.running) == (1, 2)
    run.finishes()
    await served.abort()
    await answers(calls)
    assert (served.waiting, served.dispatcher.running) == (0, 0)


class Looking:
    """Launches one at a time, and keeps what it is shown."""

    def __init__(self, seen: list[Waiting]) -> None:
        self._seen = seen

    def decide(self, now_s: float, waiting: Any, engine: EngineView) -> Launch:
        self._seen.extend(waiting)
        return Launch(1, "size")


async def test_a_strategy_sees_the_declared_limit_and_not_the_true_length():
    seen: list[Waiting] = []
    backend = FakeBackend()
    served = service(backend, Looking(seen))
    calls = submit(served, "a")
    (await backend.began(1)).finishes()
    await answers(calls)
    assert [(one.request_id, one.prompt_tokens, one.max_new_tokens) for one in seen] == [("a", 2, 8)]


async def test_a_strategy_sees_the_class_and_the_deadline_which_counts_from_the_arrival():
    seen: list[Waiting] = []
    backend = FakeBackend()
    served = service(backend, Looking(seen))
    urgent = dataclasses.replace(work("a"), priority=2, ttft_target_s=0.5)
    calls = [asyncio.create_task(served.submit(urgent, 8)), *submit(served, "b")]
    for number in (1, 2):
        (await backend.began(number)).finishes()
    await answers(calls)
    assert [(one.priority, one.ttft_deadline_s - one.arrived_s) for one in seen] == [
        (2, pytest.approx(0.5)),
        (0, math.inf),
    ]
