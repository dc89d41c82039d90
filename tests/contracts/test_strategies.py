"""What must hold for every strategy: one suite over the registry, on random traces."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from deployments.dispatcher import Dispatcher
from strategies.kv_budget import KVBudget
from strategies.registry import STRATEGIES, create, label
from strategies.strategy import EngineView, Strategy
from tests.strategies.replay import REJECTED, Job, Start, ask_by_hand, drive, job_waits

CASES = {
    "naive · 3": ("naive", {"max_batch_size": 3}),
    "dynamic · 3 · 300 ms": ("dynamic", {"max_batch_size": 3, "max_wait_ms": 300}),
    "dynamic · 3 · 700 ms · idle": ("dynamic", {"max_batch_size": 3, "max_wait_ms": 700, "timer": "idle"}),
    "dynamic · 4 · 0 ms": ("dynamic", {"max_batch_size": 4, "max_wait_ms": 0}),
    "dynamic · 3 · 300 ms · length · 1 skip": (
        "dynamic",
        {"max_batch_size": 3, "max_wait_ms": 300, "order": "length", "max_skips": 1},
    ),
    "dynamic · 2 · 0 ms · length": (
        "dynamic",
        {"max_batch_size": 2, "max_wait_ms": 0, "order": "length", "max_skips": 10},
    ),
    "dynamic · 3 · 300 ms · priority": (
        "dynamic",
        {"max_batch_size": 3, "max_wait_ms": 300, "order": "priority"},
    ),
    "dynamic · 3 · 300 ms · deadline": (
        "dynamic",
        {"max_batch_size": 3, "max_wait_ms": 300, "order": "deadline"},
    ),
    "dynamic · 3 · 700 ms · idle · deadline · reject": (
        "dynamic",
        {
            "max_batch_size": 3,
            "max_wait_ms": 700,
            "timer": "idle",
            "order": "deadline",
            "on_expired": "reject",
        },
    ),
    "continuous · 3": ("continuous", {"max_batch_size": 3}),
}
BUDGETED = ("naive", "dynamic")  # others may leave memory to what follows when it runs out
BUDGET = KVBudget(budget_bytes=1600, bytes_per_token=100)  # 16 tokens: two rows of 7, or one of 15, and more


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A strategy in front of a kind of engine."""

    name: str
    knobs: dict[str, Any]
    joinable: bool = False
    kv: KVBudget | None = None

    @property
    def cap(self) -> int:
        return self.knobs["max_batch_size"]

    def strategy(self) -> Strategy:
        return create(self.name, self.knobs)

    def dispatcher(self, **more: int) -> Dispatcher:
        return Dispatcher(
            self.strategy(), max_batch_size=self.cap, joinable=self.joinable, kv=self.kv, **more
        )


def cases() -> dict[str, Case]:
    """Every setting on lockstep engines, with a budget and without, and the oldest first on joinable ones."""
    found = {}
    for text, (name, knobs) in CASES.items():
        if "order" not in knobs:
            found[f"{text} on joinable"] = Case(name=name, knobs=knobs, joinable=True)
        if not STRATEGIES[name].needs_joinable:
            found[f"{text} on lockstep"] = Case(name=name, knobs=knobs)
        if name in BUDGETED:
            found[f"{text} in little memory"] = Case(name=name, knobs=knobs, kv=BUDGET)
    return found


every_case = pytest.mark.parametrize("case", cases().values(), ids=cases())

examples = settings(max_examples=25, deadline=None)

# Tenths make ties and rounding at once: 0.1 + 0.2 is not 0.3.
tenths = st.integers(0, 12).map(lambda k: k * 0.1)
lengths = st.integers(1, 30).map(lambda k: k * 0.1)
jobs = st.tuples(
    tenths,
    lengths,
    st.integers(1, 20),
    st.integers(0, 2),
    st.sampled_from([0.3, 0.1 + 0.2, 2.0, float("inf")]),
)


@st.composite
def traces(draw: st.DrawFn) -> list[Job]:
    now_s, trace = 0.0, []
    for gap_s, *job in draw(st.lists(jobs, min_size=1, max_size=12)):
        now_s += gap_s
        trace.append(Job(now_s, *job))
    return trace


def launched_of(starts: list[Start]) -> list[int]:
    return [index for start in starts for index in start.members]


def test_every_member_of_the_registry_is_in_this_suite():
    assert {name for name, _ in CASES.values()} == set(STRATEGIES)


@every_case
@examples
@given(trace=traces(), closes_early=st.booleans())
def test_every_arrival_is_launched_or_rejected_exactly_once(case, trace, closes_early):
    dispatcher = case.dispatcher()
    starts = drive(dispatcher, trace, joinable=case.joinable, closes_early=closes_early)
    told = launched_of(starts)
    assert sorted(told) == list(range(len(trace)))
    if "order" not in case.knobs:
        assert told == sorted(told)
    assert any(start.trigger == REJECTED for start in starts) <= ("on_expired" in case.knobs)
    assert dispatcher.idle
    assert dispatcher.closed


@every_case
@examples
@given(trace=traces(), ticks=st.lists(st.integers(0, 150).map(lambda k: k * 0.1), max_size=20))
def test_a_wait_is_a_promise(case, trace, ticks):
    kept = drive(case.dispatcher(), trace, joinable=case.joinable)
    asked = ask_by_hand(case.strategy(), trace, cap=case.cap, joinable=case.joinable, kv=case.kv, ticks=ticks)
    assert kept == asked


@every_case
@examples
@given(trace=traces())
def test_nothing_is_launched_before_it_arrived_and_batches_keep_to_cap_and_budget(case, trace):
    for start in drive(case.dispatcher(), trace, joinable=case.joinable):
        assert max(trace[index].arrived_s for index in start.members) <= start.start_s
        assert len(start.members) <= case.cap or start.trigger == "join"
        if case.kv is not None and len(start.members) > 1:
            batch = [job_waits(trace, index) for index in start.members]
            assert case.kv.cost_bytes(batch) <= case.kv.budget_bytes


@every_case
@examples
@given(trace=traces())
def test_only_a_joining_strategy_launches_while_the_engine_runs(case, trace):
    starts = drive(case.dispatcher(), trace, joinable=case.joinable)
    for before, after in pairwise(start for start in starts if start.trigger != REJECTED):
        assert after.trigger == "join" or after.start_s >= before.end_s


@every_case
@examples
@given(trace=traces(), fits=st.integers(1, 3), recover=st.integers(1, 4))
def test_running_out_of_memory_loses_nothing_and_reorders_nothing(case, trace, fits, recover):
    dispatcher = case.dispatcher(clean_batches_to_recover=recover)
    starts = drive(dispatcher, trace, joinable=case.joinable, closes_early=True, fits=fits)
    assert sorted(launched_of(starts)) == list(range(len(trace)))
    assert max(len(start.members) for start in starts) <= fits
    assert dispatcher.idle
    keys = {  # oldest first within each class
        "fifo": lambda job: None,
        "length": lambda job: job.prompt_tokens,
        "priority": lambda job: job.priority,
        "deadline": lambda job: job.arrived_s + job.ttft_target_s,
    }
    key = keys[case.knobs.get("order", "fifo")]
    for of_class in {key(job) for job in trace}:
        launched = [index for index in launched_of(starts) if key(trace[index]) == of_class]
        assert launched == sorted(launched)


@pytest.mark.parametrize(
    ("name", "knobs"), [(name, {"max_batch_size": 1}) for name in ("naive", "continuous")]
)
def test_with_one_slot_running_out_of_memory_ends(name, knobs):
    trace = [Job(0.0, 1.0)] * 5
    dispatcher = Dispatcher(create(name, knobs), max_batch_size=1, joinable=True)
    starts = drive(dispatcher, trace, joinable=True, fits=1)
    assert [start.start_s for start in starts] == [0, 1, 2, 3, 4]


@every_case
@examples
@given(trace=traces(), running=st.integers(0, 3), closed=st.booleans(), now_s=tenths, cap=st.integers(1, 4))
def test_a_twin_gives_the_same_answer(case, trace, running, closed, now_s, cap):
    """The answer depends on the arguments alone: a used strategy answers like a fresh one."""
    used, fresh = case.strategy(), case.strategy()
    ask_by_hand(used, trace, cap=case.cap, joinable=case.joinable, kv=case.kv)
    waiting = [job_waits(trace, index) for index in range(len(trace))]
    view = EngineView(running, 0.0, case.joinable, closed, cap, case.kv)
    now_s += trace[-1].arrived_s
    assert used.decide(now_s, waiting, view) == fresh.decide(now_s, waiting, view)


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
