"""The driver of virtual time: the strategies' contract, determinism, the drain limit, and its invariants."""

import dataclasses
import math
from collections.abc import Sequence
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.virtual.driver import simulate
from deployments.virtual.invariants import check_columns, check_little
from deployments.virtual.iteration import Iteration
from deployments.virtual.kv_cache import KVCache
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.outcomes import FINISHED, REJECTED, UNFINISHED
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from strategies.continuous import Continuous
from strategies.dynamic import Dynamic
from strategies.naive import Naive
from strategies.registry import create
from strategies.strategy import EngineView, Launch, Reject, Strategy, Wait, Waiting
from tests.deployments.virtual.token_times import token_times_s

SECONDS = Linear(fixed_s=1.0, per_sequence_s=0.0, per_prefill_token_s=0.0)
LOCKSTEP, ITERATION = Lockstep(step=Linear()), Iteration(step=Linear(), max_num_seqs=4)
SETTINGS = [
    ("naive", {"max_batch_size": 3}, LOCKSTEP),
    ("naive", {"max_batch_size": 3}, ITERATION),
    ("dynamic", {"max_batch_size": 3, "max_wait_ms": 100}, LOCKSTEP),
    ("dynamic", {"max_batch_size": 3, "max_wait_ms": 100, "timer": "idle"}, ITERATION),
    ("continuous", {"max_batch_size": 4}, ITERATION),
    (
        "continuous",
        {"max_batch_size": 4},
        Iteration(step=Linear(), max_num_seqs=4, kv=KVCache(blocks=12, block_tokens=4)),
    ),
]
every_setting = pytest.mark.parametrize(("name", "knobs", "engine"), SETTINGS)


def columns(planned_s, outputs, prompts=None) -> RequestColumns:
    return RequestColumns(
        planned_s=np.asarray(planned_s, dtype=np.float64),
        prompt_tokens=np.asarray(prompts or [1] * len(outputs), dtype=np.int64),
        output_tokens=np.asarray(outputs, dtype=np.int64),
        max_new_tokens=np.full(len(outputs), max(outputs, default=1), dtype=np.int64),
    )


def random_columns(count: int = 200, seed: int = 0) -> RequestColumns:
    rng = np.random.default_rng(seed)
    return columns(
        np.cumsum(rng.exponential(0.1, count)),
        rng.integers(1, 12, count).tolist(),
        rng.integers(1, 20, count).tolist(),
    )


def same(one: Run, other: Run) -> None:
    for field in dataclasses.fields(Run):
        first, second = getattr(one, field.name), getattr(other, field.name)
        if isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second)
        elif field.name not in ("settings", "requests"):
            assert first == second, field.name


class AskedMore:
    """Forgets every promise of a Wait: it lets itself be asked again at every arrival and tick."""

    def __init__(self, strategy: Strategy, tick_s: float) -> None:
        self.strategy, self.tick_s, self.extra = strategy, tick_s, 0

    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Launch | Reject | Wait:
        answer = self.strategy.decide(now_s, waiting, engine)
        if not isinstance(answer, Wait) or engine.running:
            return answer
        self.extra += 1
        tick_s = max((math.floor(now_s / self.tick_s) + 1) * self.tick_s, math.nextafter(now_s, math.inf))
        return Wait(until_s=min(answer.until_s, tick_s), until_waiting=len(waiting) + 1)


@every_setting
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), tick_s=st.sampled_from([0.003, 0.05, 0.1]))
def test_a_strategy_that_is_asked_more_often_gives_the_same_run(name, knobs, engine, seed, tick_s):
    requests, size = random_columns(60, seed), knobs["max_batch_size"]
    asked_more = AskedMore(create(name, knobs), tick_s)
    same(
        simulate(requests, create(name, knobs), engine, max_batch_size=size),
        simulate(requests, asked_more, engine, max_batch_size=size),
    )
    assert asked_more.extra or name == "continuous"


@every_setting
def test_the_same_requests_give_the_same_run(name, knobs, engine):
    size = knobs["max_batch_size"]
    one, other = (
        simulate(random_columns(), create(name, knobs), engine, max_batch_size=size, occupancy=True)
        for _ in range(2)
    )
    same(one, other)
    assert (one.status == FINISHED).all()
    assert one.runs["steps"].sum() == one.passes


@every_setting
def test_slots_are_held_by_one_request_at_a_time_and_every_token_has_its_slot_step(name, knobs, engine):
    requests, size = random_columns(), knobs["max_batch_size"]
    run = simulate(requests, create(name, knobs), engine, max_batch_size=size, occupancy=True)
    held = [(s.slot, step) for s in run.stretches for step in range(s.first_step, s.end_step)]
    assert len(set(held)) == len(held)
    assert max(slot for slot, _ in held) < max(size, 4)
    decodes = sum(s.end_step - s.first_step for s in run.stretches if s.holding == "decode")
    prefills = len(requests) + run.counters.preemptions
    assert decodes + prefills == pytest.approx(run.output_tokens.sum(), abs=run.counters.preemptions)
    assert decodes + len(requests) <= run.output_tokens.sum()


def test_no_requests_at_all_are_a_run_of_nothing():
    run = simulate(columns([], []), Naive(max_batch_size=2), LOCKSTEP, max_batch_size=2)
    assert (len(run.runs), run.passes, run.ended_s, run.utilisation) == (0, 0, 0.0, None)


class Peeks:
    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Launch:
        return Launch(sum(request.output_tokens < 5 for request in waiting), "size")  # type: ignore[attr-defined]


def test_a_strategy_that_asks_for_a_true_output_length_gets_an_error():
    with pytest.raises(AttributeError, match="output_tokens"):
        simulate(random_columns(), Peeks(), LOCKSTEP, max_batch_size=4)


def test_nothing_that_a_strategy_is_given_holds_a_true_output_length():
    """Outputs are numbers that occur nowhere else, and no attribute of what it sees leads to one."""
    seen: list[object] = []

    class Looks(Naive):
        def decide(self, now_s, waiting, engine):
            seen.extend(chain.from_iterable(waiting))
            seen.extend(engine)
            return super().decide(now_s, waiting, engine)

    requests = columns(np.arange(20) / 7, [1009 + 2 * i for i in range(20)])
    simulate(requests, Looks(max_batch_size=4), LOCKSTEP, max_batch_size=4)
    assert seen
    assert not {1009 + 2 * i for i in range(19)}.intersection(x for x in seen if isinstance(x, int))


class Refuses:
    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Launch | Reject | Wait:
        if engine.running:
            return Wait()
        if int(waiting[0].request_id) % 2:
            return Reject((0,), "odd")
        return Launch(1, "size")


def test_a_refused_request_keeps_the_reason_and_its_place():
    run = simulate(columns([0, 0, 1], [3, 3, 3]), Refuses(), Lockstep(step=SECONDS), max_batch_size=1)
    assert run.status.tolist() == [FINISHED, REJECTED, FINISHED]
    assert run.errors == {1: (None, "odd")}
    assert run.returned_s.tolist() == [3, 3, 6]


class Sleeps:
    def decide(self, now_s: float, waiting: Sequence[Waiting], engine: EngineView) -> Wait:
        return Wait()


def test_a_strategy_that_would_wait_for_ever_is_named_or_cut_off():
    with pytest.raises(ValueError, match="would let 2 requests wait for ever"):
        simulate(columns([0, 1], [1, 1]), Sleeps(), LOCKSTEP, max_batch_size=1)
    run = simulate(columns([0, 1], [1, 1]), Sleeps(), LOCKSTEP, max_batch_size=1, drain_limit_s=5.0)
    assert (run.cut_off, run.status.tolist()) == (True, [UNFINISHED] * 2)
    assert run.returned_s.tolist() == [6.0, 6.0]


@pytest.mark.parametrize("chunk", [None, 2])
def test_a_lockstep_batch_that_is_cut_off_keeps_the_tokens_of_whole_steps(chunk):
    prefill = 1 if chunk is None else 3
    engine = Lockstep(step=SECONDS, prefill_chunk=chunk)
    for limit_s in range(12):
        run = simulate(
            columns([0, 0, 0], [2, 9, 5], [6, 1, 3]),
            Dynamic(max_batch_size=2, max_wait_ms=0),
            engine,
            max_batch_size=2,
            drain_limit_s=limit_s + 0.5,
            occupancy=True,
        )
        made = max(0, limit_s - prefill + 1)
        if limit_s < prefill + 8:
            assert run.output_tokens.tolist() == [min(made, 2), min(made, 9), 0]
            assert run.status.tolist() == [FINISHED if made >= 2 else UNFINISHED, UNFINISHED, UNFINISHED]
            assert run.passes == limit_s
        assert token_times_s(run, 1) == [float(prefill + k) for k in range(min(made, 9))]
        assert run.cut_off


def test_rows_of_a_batch_that_are_padding_prompts_tokens_or_done():
    run = simulate(
        columns([0, 0], [2, 4], [1, 5]),
        Naive(max_batch_size=2),
        Lockstep(step=SECONDS, prefill_chunk=2),
        max_batch_size=2,
        occupancy=True,
    )
    rows = [(s.index, s.holding, s.first_step, s.end_step) for s in run.stretches]
    assert sorted(rows) == [
        (0, "decode", 3, 4),
        (0, "finished", 4, 6),
        (0, "padding", 0, 2),
        (0, "prefill", 2, 3),
        (1, "decode", 3, 6),
        (1, "prefill", 0, 3),
    ]


def test_a_run_that_breaks_an_invariant_is_found_out():
    run = simulate(random_columns(), Continuous(max_batch_size=4), ITERATION, max_batch_size=4)
    check_columns(run)
    sojourns_s = float((run.returned_s - run.requests.planned_s).sum())
    check_little(run, sojourns_s)
    with pytest.raises(AssertionError, match="sojourns add up"):
        check_little(run, sojourns_s + 0.01)
    early = run.first_token_s.copy()
    early[7] = run.scheduled_s[7] - 1
    with pytest.raises(AssertionError, match="before its cause"):
        check_columns(dataclasses.replace(run, first_token_s=early))
    for name in ("output_tokens", "last_step"):
        wrong = getattr(run, name).copy()
        wrong[7] += 1
        with pytest.raises(AssertionError, match="tokens"):
            check_columns(dataclasses.replace(run, **{name: wrong}))
    with pytest.raises(AssertionError, match="nothing is left over"):
        check_columns(dataclasses.replace(run, status=np.zeros_like(run.status)))


class Leaks(Iteration):
    """An engine that loses a block of its cache before the first step."""

    def engine(self, requests, outcomes, *, occupancy):
        engine = Iteration.engine(self, requests, outcomes, occupancy=occupancy)
        engine.memory.state["free"] -= 1
        return engine


@pytest.mark.parametrize("admission", ["optimistic", "reserve"])
def test_a_block_that_is_lost_is_found_out_when_nothing_runs(admission):
    kv = KVCache(blocks=40, block_tokens=4, admission=admission)
    run = simulate(
        random_columns(), Continuous(max_batch_size=4), Iteration(step=Linear(), kv=kv), max_batch_size=4
    )
    assert run.runs["blocks"].max() > 10
    with pytest.raises(AssertionError, match="blocks of the KV cache are in use"):
        simulate(
            random_columns(), Continuous(max_batch_size=4), Leaks(step=Linear(), kv=kv), max_batch_size=4
        )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"planned_s": np.array([1.0, 0.5])}, "planned_s must be finite and in order"),
        ({"planned_s": np.array([1.0, math.nan])}, "planned_s must be finite and in order"),
        ({"planned_s": np.array([1.0])}, "must be equally long"),
        ({"prompt_tokens": np.array([0, 1])}, "prompt_tokens must be at least 1, got 0"),
        ({"output_tokens": np.array([1, 0])}, "output_tokens must be at least 1, got 0"),
        ({"output_tokens": np.array([1, 9])}, "got 9 and 2 at request 1"),
    ],
)
def test_columns_that_an_engine_could_not_rely_on_are_refused(wrong, message):
    right = {
        "planned_s": np.array([0.0, 1.0]),
        "prompt_tokens": np.array([1, 1]),
        "output_tokens": np.array([1, 2]),
        "max_new_tokens": np.array([2, 2]),
    }
    RequestColumns(**right)
    with pytest.raises(ValueError, match=message):
        RequestColumns(**{**right, **wrong})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs must be at least 1, got 0"),
        ({"prefill_chunk": 0}, "prefill_chunk must be at least 1, got 0"),
        ({"max_num_seqs": 600}, r"max_num_batched_tokens must be at least max_num_seqs \(600\), got 512"),
    ],
)
def test_an_engine_that_could_not_move_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Iteration(step=Linear(), **wrong)
    with pytest.raises(ValueError, match="blocks must be above 0, got 0"):
        KVCache(blocks=0)
    with pytest.raises(ValueError, match="prefill_chunk must be at least 1, got 0"):
        Lockstep(step=Linear(), prefill_chunk=0)
