"""What must hold for every strategy: one suite over the registry, on random traces."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from deployments.dispatcher import Dispatcher
from strategies.registry import STRATEGIES, create, label
from strategies.strategy import EngineView
from tests.strategies.replay import Job, Start, ask_by_hand, drive, job_waits

CASES = {
    "naive · 3": ("naive", {"max_batch_size": 3}),
    "dynamic · 3 · 300 ms": ("dynamic", {"max_batch_size": 3, "max_wait_ms": 300}),
    "dynamic · 3 · 700 ms · idle": ("dynamic", {"max_batch_size": 3, "max_wait_ms": 700, "timer": "idle"}),
    "dynamic · 4 · 0 ms": ("dynamic", {"max_batch_size": 4, "max_wait_ms": 0}),
    "continuous · 3": ("continuous", {"max_batch_size": 3}),
}
SETTINGS = [
    pytest.param(*case, joinable, id=f"{text} on {'joinable' if joinable else 'lockstep'}")
    for text, case in CASES.items()
    for joinable in (False, True)
    if joinable or not STRATEGIES[case[0]].needs_joinable
]
every_setting = pytest.mark.parametrize(("name", "knobs", "joinable"), SETTINGS)

examples = settings(max_examples=60, deadline=None)

# Tenths make ties and rounding at once: 0.1 + 0.2 is not 0.3.
tenths = st.integers(0, 12).map(lambda k: k * 0.1)
lengths = st.integers(1, 30).map(lambda k: k * 0.1)


@st.composite
def traces(draw: st.DrawFn) -> list[Job]:
    now_s, trace = 0.0, []
    for gap_s, length_s in draw(st.lists(st.tuples(tenths, lengths), min_size=1, max_size=12)):
        now_s += gap_s
        trace.append(Job(now_s, length_s))
    return trace


def dispatched(
    name: str, knobs: dict, joinable: bool, trace: list[Job], closes_early: bool = False
) -> tuple[list[Start], Dispatcher]:
    dispatcher = Dispatcher(create(name, knobs), max_batch_size=knobs["max_batch_size"], joinable=joinable)
    return drive(dispatcher, trace, joinable=joinable, closes_early=closes_early), dispatcher


def test_every_member_of_the_registry_is_in_this_suite():
    assert {name for name, _ in CASES.values()} == set(STRATEGIES)


@every_setting
@examples
@given(trace=traces(), closes_early=st.booleans())
def test_every_arrival_is_launched_exactly_once_in_order(name, knobs, joinable, trace, closes_early):
    starts, dispatcher = dispatched(name, knobs, joinable, trace, closes_early)
    assert [index for start in starts for index in start.members] == list(range(len(trace)))
    assert dispatcher.idle
    assert dispatcher.closed


@every_setting
@examples
@given(trace=traces(), ticks=st.lists(st.integers(0, 150).map(lambda k: k * 0.1), max_size=20))
def test_a_wait_is_a_promise(name, knobs, joinable, trace, ticks):
    cap = knobs["max_batch_size"]
    kept, _ = dispatched(name, knobs, joinable, trace)
    asked = ask_by_hand(create(name, knobs), trace, cap=cap, joinable=joinable, ticks=ticks)
    assert kept == asked


@every_setting
@examples
@given(trace=traces())
def test_nothing_is_launched_before_it_arrived_and_batches_keep_to_the_cap(name, knobs, joinable, trace):
    starts, _ = dispatched(name, knobs, joinable, trace)
    for start in starts:
        assert max(trace[index].arrived_s for index in start.members) <= start.start_s
        assert len(start.members) <= knobs["max_batch_size"] or start.trigger == "join"


@every_setting
@examples
@given(trace=traces())
def test_only_a_joining_strategy_launches_while_the_engine_runs(name, knobs, joinable, trace):
    starts, _ = dispatched(name, knobs, joinable, trace)
    for before, after in pairwise(starts):
        assert after.trigger == "join" or after.start_s >= before.end_s


@every_setting
@examples
@given(trace=traces(), fits=st.integers(1, 3), recover=st.integers(1, 4))
def test_running_out_of_memory_loses_nothing(name, knobs, joinable, trace, fits, recover):
    size = knobs["max_batch_size"]
    dispatcher = Dispatcher(
        create(name, knobs), max_batch_size=size, joinable=joinable, clean_batches_to_recover=recover
    )
    starts = drive(dispatcher, trace, joinable=joinable, closes_early=True, fits=fits)
    assert sorted(index for start in starts for index in start.members) == list(range(len(trace)))
    assert max(len(start.members) for start in starts) <= fits
    assert dispatcher.idle


@pytest.mark.parametrize(
    ("name", "knobs"), [(name, {"max_batch_size": 1}) for name in ("naive", "continuous")]
)
def test_with_one_slot_running_out_of_memory_ends(name, knobs):
    trace = [Job(0.0, 1.0)] * 5
    dispatcher = Dispatcher(create(name, knobs), max_batch_size=1, joinable=True)
    starts = drive(dispatcher, trace, joinable=True, fits=1)
    assert [start.start_s for start in starts] == [0, 1, 2, 3, 4]


@every_setting
@examples
@given(trace=traces(), running=st.integers(0, 3), closed=st.booleans(), now_s=tenths, cap=st.integers(1, 4))
def test_a_twin_gives_the_same_answer(name, knobs, joinable, trace, running, closed, now_s, cap):
    """The answer depends on the arguments alone: a used strategy answers like a fresh one."""
    used, fresh = create(name, knobs), create(name, knobs)
    ask_by_hand(used, trace, cap=knobs["max_batch_size"], joinable=joinable)
    dispatcher = Dispatcher(fresh, max_batch_size=4, joinable=joinable)
    for index, job in enumerate(trace):
        dispatcher.arrive(job_waits(trace, index), job.arrived_s)
    view = EngineView(running=running, idle_since_s=0.0, joinable=joinable, closed=closed, cap=cap)
    now_s += trace[-1].arrived_s
    assert used.decide(now_s, dispatcher.waiting, view) == fresh.decide(now_s, dispatcher.waiting, view)


@pytest.mark.parametrize(("text", "case"), CASES.items())
def test_labels_say_the_settings(text, case):
    assert label(*case) == text


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(
    "wrong", [{"max_batch_size": 0}, {"max_batch_size": True}, {"max_batch_size": 2.0}, {"speed": 1}, {}]
)
def test_wrong_knobs_are_refused(name, wrong):
    right = next(dict(knobs) for case, knobs in CASES.values() if case == name)
    create(name, right)
    with pytest.raises(ValidationError):
        create(name, {**right, **wrong} if wrong else {})


@pytest.mark.parametrize("wrong", [-1, float("inf"), float("nan"), "200"])
def test_a_wait_must_be_a_finite_number_of_milliseconds(wrong):
    with pytest.raises(ValidationError, match="max_wait_ms"):
        create("dynamic", {"max_batch_size": 4, "max_wait_ms": wrong})


def test_a_timer_is_one_of_two():
    with pytest.raises(ValidationError, match="timer"):
        create("dynamic", {"max_batch_size": 4, "max_wait_ms": 1, "timer": "engine"})


def test_an_unknown_strategy_is_named_with_those_that_exist():
    with pytest.raises(ValueError, match=f"one of {', '.join(STRATEGIES)}, got 'static'"):
        label("static", {"max_batch_size": 4})
