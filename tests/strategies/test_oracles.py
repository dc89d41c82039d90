"""The right answers of MEASUREMENT.md for the strategies, as equalities on random traces."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.dispatcher import Dispatcher
from strategies.registry import create
from tests.strategies.replay import Job, Start, drive

examples = settings(max_examples=150, deadline=None)
WORKED = [Job(0, 6), Job(1, 3), Job(5, 4), Job(6, 2), Job(7, 5)]


@st.composite
def traces(draw: st.DrawFn, unit: float = 0.1) -> list[Job]:
    """Tenths round; with unit 0.125 every sum is exact in binary."""
    now_s, trace = 0.0, []
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 15), st.integers(1, 30)), min_size=1)):
        now_s += gap * unit
        trace.append(Job(now_s, length * unit))
    return trace


def starts_of(name: str, knobs: dict, trace: list[Job], joinable: bool = False) -> list[Start]:
    dispatcher = Dispatcher(create(name, knobs), max_batch_size=knobs["max_batch_size"], joinable=joinable)
    return drive(dispatcher, trace, joinable=joinable)


@examples
@given(trace=traces(), size=st.integers(1, 6))
def test_naive_starts_with_the_last_member_or_the_end_of_the_batch_before(trace, size):
    end_s, expected = 0.0, []
    for first in range(0, len(trace), size):
        members = tuple(range(len(trace)))[first : first + size]
        start_s = max(trace[members[-1]].arrived_s, end_s)
        end_s = start_s + max(trace[index].length_s for index in members)
        expected.append(Start(start_s, members, "size" if len(members) == size else "flush", end_s))
    assert starts_of("naive", {"max_batch_size": size}, trace) == expected


@examples
@given(
    trace=traces(),
    cap=st.integers(1, 6),
    wait_ms=st.integers(0, 30).map(lambda k: k * 100) | st.floats(0, 3000),
    timer=st.sampled_from(["arrival", "idle"]),
)
def test_dynamic_starts_by_size_or_age_and_takes_what_has_arrived(trace, cap, wait_ms, timer):
    wait_s = wait_ms / 1000
    end_s, first, expected = 0.0, 0, []
    while first < len(trace):
        since_s = trace[first].arrived_s if timer == "arrival" else max(trace[first].arrived_s, end_s)
        full_s = trace[first + cap - 1].arrived_s if first + cap <= len(trace) else float("inf")
        start_s = max(end_s, min(since_s + wait_s, full_s))
        here = [index for index in range(first, len(trace)) if trace[index].arrived_s <= start_s]
        members = tuple(here[:cap])
        end_s = start_s + max(trace[index].length_s for index in members)
        expected.append(Start(start_s, members, "size" if len(members) == cap else "age", end_s))
        first += len(members)
    knobs = {"max_batch_size": cap, "max_wait_ms": float(wait_ms), "timer": timer}
    assert starts_of("dynamic", knobs, trace) == expected


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("naive", {}),
        ("dynamic", {"max_wait_ms": 0}),
        ("dynamic", {"max_wait_ms": 500}),
        ("dynamic", {"max_wait_ms": 500, "timer": "idle"}),
    ],
)
@examples
@given(trace=traces(unit=0.125))
def test_one_at_a_time_every_strategy_obeys_lindley(name, more, trace):
    starts = starts_of(name, {"max_batch_size": 1, **more}, trace)
    waits_s = [start.start_s - job.arrived_s for start, job in zip(starts, trace, strict=True)]
    assert waits_s[0] == 0
    for (job, later), (wait_s, later_wait_s) in zip(pairwise(trace), pairwise(waits_s), strict=True):
        assert later_wait_s == max(0, wait_s + job.length_s - (later.arrived_s - job.arrived_s))


@examples
@given(trace=traces())
def test_continuous_starts_each_request_when_it_arrives(trace):
    starts = starts_of("continuous", {"max_batch_size": 2}, trace, joinable=True)
    assert [start.start_s for start in starts for _ in start.members] == [job.arrived_s for job in trace]
    assert {start.trigger for start in starts} == {"join"}


def test_worked_example_naive():
    assert starts_of("naive", {"max_batch_size": 4}, WORKED) == [
        Start(6, (0, 1, 2, 3), "size", 12),
        Start(12, (4,), "flush", 17),
    ]


@pytest.mark.parametrize(("timer", "second"), [("arrival", (8, 13)), ("idle", (10, 15))])
def test_worked_example_dynamic(timer, second):
    knobs = {"max_batch_size": 4, "max_wait_ms": 2000, "timer": timer}
    assert starts_of("dynamic", knobs, WORKED) == [
        Start(2, (0, 1), "age", 8),
        Start(second[0], (2, 3, 4), "age", second[1]),
    ]


def test_worked_example_continuous():
    starts = starts_of("continuous", {"max_batch_size": 4}, WORKED, joinable=True)
    assert [(start.members, start.end_s) for start in starts] == [
        ((0,), 6),
        ((1,), 4),
        ((2,), 9),
        ((3,), 8),
        ((4,), 12),
    ]
