"""Who goes first: each order by its definition, ties by age, and nobody passed over more often than allowed."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.dispatcher import Dispatcher
from strategies.kv_budget import KVBudget
from strategies.order import expired, first
from strategies.registry import create
from strategies.strategy import EngineView, Launch, Reject, Wait, Waiting
from tests.strategies.replay import REJECTED, Job, drive

ORDERS = ("fifo", "length", "priority", "deadline")
IDLE = EngineView(running=0, idle_since_s=0.0, joinable=False, closed=False, cap=4)


def waits(
    place: int, prompt: int = 1, *, priority: int = 0, deadline_s: float = math.inf, skips: int = 0
) -> Waiting:
    return Waiting(str(place), prompt, 1, 0.0, priority, deadline_s, skips)


queues = st.lists(
    st.tuples(
        st.integers(1, 6), st.integers(0, 2), st.sampled_from([1.0, 2.0, 3.0, math.inf]), st.integers(0, 3)
    ),
    max_size=14,
).map(lambda made: [Waiting(str(place), row[0], 1, 0.0, *row[1:]) for place, row in enumerate(made)])


def prompts(*lengths: int) -> list[Waiting]:
    return [waits(place, tokens) for place, tokens in enumerate(lengths)]


def test_length_takes_the_oldest_and_those_nearest_to_it():
    queue = prompts(50, 400, 52, 45, 90, 50)
    assert first("length", queue, 4, now_s=0.0) == [0, 5, 2, 3]
    assert first("length", queue, 9, now_s=0.0) == [0, 5, 2, 3, 4, 1]


def test_priority_is_strict_and_then_by_age():
    queue = [waits(0, priority=2), waits(1, priority=1), waits(2), waits(3, priority=1), waits(4)]
    assert first("priority", queue, 3, now_s=0.0) == [2, 4, 1]


def test_the_earliest_deadline_goes_first_and_those_that_have_passed_last():
    queue = [waits(0, deadline_s=at_s) for at_s in (9.0, 4.0, math.inf, 5.0, 6.0, 4.5)]
    assert first("deadline", queue, 6, now_s=5.0) == [4, 0, 2, 1, 5, 3]
    assert expired(queue, 5.0) == (1, 3, 5)


@given(queue=queues, most=st.integers(1, 5), order=st.sampled_from(ORDERS), now_s=st.sampled_from([0.0, 2.0]))
def test_equal_keys_go_by_age_and_none_goes_twice(queue, most, order, now_s):
    def key(one: Waiting) -> object:
        keys = {
            "fifo": None,
            "length": one.prompt_tokens,
            "priority": one.priority,
            "deadline": one.ttft_deadline_s,
        }
        return keys[order], one.skips >= 2 if order == "length" else None

    taken = first(order, queue, most, now_s=now_s, max_skips=2)
    assert len(set(taken)) == len(taken) == min(most, len(queue))
    for place in taken:
        alike = [older for older in range(place) if key(queue[older]) == key(queue[place])]
        assert set(alike) <= set(taken[: taken.index(place)])


@given(queue=queues, most=st.integers(1, 5))
def test_the_orders_are_what_sorting_gives(queue, most):
    assert (
        first("priority", queue, most, now_s=0.0)
        == sorted(range(len(queue)), key=lambda place: queue[place].priority)[:most]
    )
    assert (
        first("deadline", queue, most, now_s=2.0)
        == sorted(
            range(len(queue)),
            key=lambda place: (queue[place].ttft_deadline_s <= 2.0, queue[place].ttft_deadline_s),
        )[:most]
    )


@given(queue=queues, most=st.integers(1, 5), fits=st.integers(1, 5))
def test_whoever_was_skipped_as_often_as_allowed_is_not_skipped_again(queue, most, fits):
    """Whatever the counts are: after running out of memory they need not fall with age."""
    taken = first("length", queue, most, now_s=0.0, max_skips=2)[:fits]
    for place, request in enumerate(queue):
        if request.skips >= 2 and place not in taken:
            assert all(younger < place for younger in taken)
            assert all(queue[one].skips >= 2 for one in taken)


def test_where_more_than_a_batch_reach_the_bound_together_the_batch_holds_only_them():
    queue = [waits(place, 10 * place + 1, skips=3) for place in range(5)] + [waits(5, 1), waits(6, 1)]
    assert first("length", queue, 3, now_s=0.0, max_skips=3) == [0, 1, 2]
    assert first("length", queue, 5, now_s=0.0, max_skips=3) == [0, 1, 2, 3, 4]
    assert first("length", queue, 6, now_s=0.0, max_skips=3) == [0, 1, 2, 3, 4, 5]


@settings(max_examples=60, deadline=None)
@given(
    gaps=st.lists(st.integers(0, 2), min_size=1, max_size=40),
    seed=st.randoms(use_true_random=False),
    cap=st.integers(1, 4),
    max_skips=st.integers(0, 3),
    tokens=st.sampled_from([None, 40]),
    fits=st.integers(1, 4),
)
def test_no_request_is_skipped_more_than_max_skips_times(gaps, seed, cap, max_skips, tokens, fits):
    """Counted from outside, over whole runs that overload, with a small budget and out-of-memory too."""
    now_s, trace = 0.0, []
    for gap in gaps:
        now_s += gap
        trace.append(Job(now_s, 5.0, prompt_tokens=seed.choice([1, 2, 15, 30])))
    knobs = {"max_batch_size": cap, "max_wait_ms": 500, "order": "length", "max_skips": max_skips}
    kv = None if tokens is None else KVBudget(budget_bytes=tokens, bytes_per_token=1)
    dispatcher = Dispatcher(create("dynamic", knobs), max_batch_size=cap, joinable=False, kv=kv)
    starts = drive(dispatcher, trace, joinable=False, fits=fits)
    launched_s = {index: start.start_s for start in starts for index in start.members}
    assert sorted(launched_s) == list(range(len(trace)))
    for index, job in enumerate(trace):
        passed = [
            start
            for start in starts
            if job.arrived_s <= start.start_s < launched_s[index] and max(start.members) > index
        ]
        assert len(passed) <= max_skips


@pytest.mark.parametrize(
    ("max_skips", "batches"), [(1, [(0, 4), (1, 2), (3, 5)]), (10, [(0, 4), (1, 3), (2, 5)])]
)
def test_the_bound_is_reached_and_changes_who_goes(max_skips: int, batches: list[tuple[int, ...]]):
    trace = [Job(0.0, 1.0, prompt_tokens=tokens) for tokens in (1, 9, 50, 9, 1, 1)]
    knobs = {"max_batch_size": 2, "max_wait_ms": 0, "order": "length", "max_skips": max_skips}
    dispatcher = Dispatcher(create("dynamic", knobs), max_batch_size=2, joinable=False)
    assert [start.members for start in drive(dispatcher, trace, joinable=False)] == batches


def test_an_expired_request_is_rejected_when_a_batch_is_formed_or_served_last():
    queue = [waits(0, deadline_s=1.0), waits(1, deadline_s=9.0), waits(2)]
    knobs = {"max_batch_size": 2, "max_wait_ms": 0, "order": "deadline"}
    serving, rejecting = create("dynamic", knobs), create("dynamic", knobs | {"on_expired": "reject"})
    assert serving.decide(1.0, queue, IDLE) == Launch((1, 2), "size")
    assert rejecting.decide(1.0, queue, IDLE) == Reject(
        (0,), "its TTFT target had passed before it could be launched"
    )
    assert rejecting.decide(0.9, queue, IDLE) == Launch(2, "size")
    assert rejecting.decide(1.0, queue, IDLE._replace(running=1)) == Wait()


def test_a_queue_that_rejects_wakes_when_the_next_deadline_passes():
    rejecting = create(
        "dynamic", {"max_batch_size": 4, "max_wait_ms": 5000, "order": "deadline", "on_expired": "reject"}
    )
    assert rejecting.decide(0.0, [waits(0, deadline_s=7.0), waits(1, deadline_s=2.0)], IDLE) == Wait(2.0, 3)
    starts = drive(
        Dispatcher(rejecting, max_batch_size=4, joinable=False),
        [Job(0.0, 1.0), Job(1.0, 1.0, ttft_target_s=2.0)],
        joinable=False,
    )
    assert [(start.start_s, start.members, start.trigger) for start in starts] == [
        (3.0, (1,), REJECTED),
        (5.0, (0,), "age"),
    ]


@pytest.mark.parametrize("order", ["priority", "deadline"])
def test_without_classes_or_targets_an_order_is_fifo(order: str):
    queue = [waits(place) for place in range(6)]
    knobs = {"max_batch_size": 4, "max_wait_ms": 0, "order": order}
    assert create("dynamic", knobs).decide(0.0, queue, IDLE) == Launch(4, "size")
