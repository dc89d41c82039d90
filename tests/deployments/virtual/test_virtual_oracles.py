"""The exact answers of batching theory, as equalities on random traces, through dispatcher and engines.

Steps serve as time where the cost is one second a step and nothing else; dyadic times make sums exact.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.virtual.batch_log import TRIGGERS
from deployments.virtual.driver import simulate
from deployments.virtual.iteration import Iteration
from deployments.virtual.kv_cache import KVCache
from deployments.virtual.lockstep import Lockstep
from deployments.virtual.request_columns import RequestColumns
from deployments.virtual.run import Run
from deployments.virtual.step_model import Linear
from strategies.registry import create
from tests.deployments.virtual.token_times import token_times_s

examples = settings(max_examples=150, deadline=None)
STEP_IS_A_SECOND = Linear(fixed_s=1.0, per_sequence_s=0.0, per_prefill_token_s=0.0)
DYADIC = Linear(fixed_s=2**-5, per_sequence_s=2**-8, per_prefill_token_s=2**-10)


def columns(planned_s, prompts, outputs) -> RequestColumns:
    return RequestColumns(
        planned_s=np.asarray(planned_s, dtype=np.float64),
        prompt_tokens=np.asarray(prompts, dtype=np.int64),
        output_tokens=np.asarray(outputs, dtype=np.int64),
        max_new_tokens=np.full(len(outputs), max(outputs), dtype=np.int64),
    )


@st.composite
def traces(draw: st.DrawFn, together: bool = False) -> RequestColumns:
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=30
        )
    )
    gaps, prompts, outputs = zip(*rows, strict=True)
    return columns(np.zeros(len(rows)) if together else np.cumsum(gaps) / 2**4, prompts, outputs)


chunks = st.none() | st.integers(1, 20)


def run(name: str, requests: RequestColumns, engine: Lockstep | Iteration, size: int, **knobs: object) -> Run:
    strategy = create(name, {"max_batch_size": size, **knobs})
    return simulate(requests, strategy, engine, max_batch_size=size, occupancy=True)


def batch_s(engine: Lockstep, requests: RequestColumns, members: range) -> float:
    """What a padded batch takes, from the definition, a step at a time."""
    rows, some = len(members), slice(members.start, members.stop)
    longest, took_s = int(requests.prompt_tokens[some].max()), 0.0
    chunk = engine.prefill_chunk or longest
    for done in range(0, longest, chunk):
        took_s += engine.step.step_s(rows, 0, rows * min(chunk, longest - done))
    return took_s + (int(requests.output_tokens[some].max()) - 1) * engine.step.step_s(rows)


def launches(result: Run) -> list[tuple[float, list[int], str]]:
    members: list[list[int]] = [[] for _ in result.launches]
    for index, batch in enumerate(result.batch_id.tolist()):
        members[batch].append(index)
    triggers = [TRIGGERS[code] for code in result.launches["trigger"]]
    return list(zip(result.launches["launched_s"].tolist(), members, triggers, strict=True))


@examples
@given(requests=traces(), chunk=chunks, size=st.integers(1, 6))
def test_naive_starts_with_its_last_member_or_the_end_of_the_batch_before(requests, chunk, size):
    engine = Lockstep(step=DYADIC, prefill_chunk=chunk)
    end_s, expected = 0.0, []
    for first in range(0, len(requests), size):
        members = range(len(requests))[first : first + size]
        start_s = max(float(requests.planned_s[members[-1]]), end_s)
        end_s = start_s + batch_s(engine, requests, members)
        expected.append((start_s, [*members], "size" if len(members) == size else "flush"))
    result = run("naive", requests, engine, size)
    assert launches(result) == expected
    assert result.returned_s.max() == end_s == result.ended_s


@examples
@given(
    requests=traces(),
    chunk=chunks,
    cap=st.integers(1, 6),
    wait=st.integers(0, 64),
    timer=st.sampled_from(["arrival", "idle"]),
)
def test_dynamic_starts_by_size_or_age_and_takes_what_has_arrived(requests, chunk, cap, wait, timer):
    engine, arrived_s = Lockstep(step=DYADIC, prefill_chunk=chunk), requests.planned_s.tolist()
    end_s, first, expected = 0.0, 0, []
    while first < len(requests):
        since_s = arrived_s[first] if timer == "arrival" else max(arrived_s[first], end_s)
        full_s = arrived_s[first + cap - 1] if first + cap <= len(requests) else float("inf")
        start_s = max(end_s, min(since_s + wait / 2**4, full_s))
        count = sum(1 for time_s in arrived_s[first : first + cap] if time_s <= start_s)
        members = range(first, first + count)
        end_s = start_s + batch_s(engine, requests, members)
        expected.append((start_s, [*members], "size" if count == cap else "age"))
        first += count
    result = run("dynamic", requests, engine, cap, max_wait_ms=1000 * wait / 2**4, timer=timer)
    assert launches(result) == expected


ONE_AT_A_TIME = [
    ("naive", {}, Lockstep(step=DYADIC)),
    ("dynamic", {"max_wait_ms": 0}, Lockstep(step=DYADIC)),
    ("dynamic", {"max_wait_ms": 500}, Lockstep(step=DYADIC)),
    ("continuous", {}, Iteration(step=DYADIC, max_num_seqs=1, max_num_batched_tokens=None)),
    ("naive", {}, Iteration(step=DYADIC, max_num_seqs=1, max_num_batched_tokens=None)),
]


@pytest.mark.parametrize(("name", "knobs", "engine"), ONE_AT_A_TIME)
@examples
@given(requests=traces())
def test_one_at_a_time_everything_obeys_lindley(name, knobs, engine, requests):
    result = run(name, requests, engine, 1, **knobs)
    waits_s = (result.scheduled_s - requests.planned_s).tolist()
    served_s = [batch_s(Lockstep(step=DYADIC), requests, range(i, i + 1)) for i in range(len(requests))]
    assert waits_s[0] == 0
    for (wait_s, later_s), (served, _), gap_s in zip(
        pairwise(waits_s), pairwise(served_s), np.diff(requests.planned_s).tolist(), strict=True
    ):
        assert later_s == max(0, wait_s + served - gap_s)


@examples
@given(requests=traces(), size=st.integers(1, 6), chunk=chunks)
@pytest.mark.parametrize("name", ["naive", "dynamic", "continuous"])
def test_requests_in_the_system_over_time_are_the_time_that_requests_spend_in_it(name, requests, size, chunk):
    """∫N dt by summing over arrivals and departures in order of time; times are dyadic: to the last bit."""
    engine = Iteration(step=DYADIC, max_num_seqs=size, max_num_batched_tokens=None, prefill_chunk=chunk)
    result = run(name, requests, engine, size, **({"max_wait_ms": 250} if name == "dynamic" else {}))
    changes = sorted([(t, 1) for t in requests.planned_s] + [(t, -1) for t in result.returned_s])
    inside, area = 0, 0.0
    for (time_s, change), (next_s, _) in pairwise(changes):
        inside += change
        area += inside * (next_s - time_s)
    assert area == (result.returned_s - requests.planned_s).sum()


@examples
@given(requests=traces(), size=st.integers(1, 6), chunk=chunks)
def test_a_static_makespan_is_the_sum_of_its_groups(requests, size, chunk):
    end_s = 0.0
    for first in range(0, len(requests), size):
        group = slice(first, first + size)
        prefill = int(np.ceil(requests.prompt_tokens[group].max() / (chunk or 10**9)))
        end_s = max(end_s, float(requests.planned_s[group].max()))
        end_s += max(1, prefill) + int(requests.output_tokens[group].max()) - 1
    result = run("naive", requests, Lockstep(step=STEP_IS_A_SECOND, prefill_chunk=chunk), size)
    assert result.ended_s == end_s


@examples
@given(requests=traces(together=True), slots=st.integers(1, 8), chunk=chunks)
def test_a_continuous_makespan_lies_between_its_bounds_and_beats_static(requests, slots, chunk):
    prefills = np.maximum(1, -(-requests.prompt_tokens // (chunk or 10**9)))
    lengths = prefills + requests.output_tokens - 1
    total, longest = int(lengths.sum()), int(lengths.max())
    engine = Iteration(
        step=STEP_IS_A_SECOND, max_num_seqs=slots, max_num_batched_tokens=None, prefill_chunk=chunk
    )
    steps = run("continuous", requests, engine, slots).passes
    static = run("naive", requests, Lockstep(step=STEP_IS_A_SECOND, prefill_chunk=chunk), slots).passes
    assert max(-(-total // slots), longest) <= steps <= (total - longest) // slots + longest
    assert steps <= static


@examples
@given(requests=traces(), chunk=chunks)
def test_with_one_slot_continuous_gains_exactly_nothing(requests, chunk):
    engine = Iteration(step=DYADIC, max_num_seqs=1, max_num_batched_tokens=None, prefill_chunk=chunk)
    static = run("naive", requests, Lockstep(step=DYADIC, prefill_chunk=chunk), 1)
    assert run("continuous", requests, engine, 1).ended_s == static.ended_s


@examples
@given(
    count=st.integers(1, 40),
    prompt=st.integers(1, 40),
    output=st.integers(1, 30),
    slots=st.integers(1, 8),
    chunk=chunks,
)
def test_with_equal_requests_at_once_continuous_gains_exactly_nothing(count, prompt, output, slots, chunk):
    requests = columns(np.zeros(count), [prompt] * count, [output] * count)
    engine = Iteration(step=DYADIC, max_num_seqs=slots, max_num_batched_tokens=None, prefill_chunk=chunk)
    static = run("naive", requests, Lockstep(step=DYADIC, prefill_chunk=chunk), slots)
    continuous = run("continuous", requests, engine, slots)
    assert static.ended_s == continuous.ended_s
    assert static.utilisation == continuous.utilisation


WORKED = columns([0, 1, 5, 6, 7], [1] * 5, [6, 3, 4, 2, 5])


@pytest.mark.parametrize(
    ("name", "knobs", "starts", "ends"),
    [
        ("naive", {}, [6, 6, 6, 6, 12], [12, 12, 12, 12, 17]),
        ("dynamic", {"max_wait_ms": 2000}, [2, 2, 8, 8, 8], [8, 8, 13, 13, 13]),
        ("dynamic", {"max_wait_ms": 2000, "timer": "idle"}, [2, 2, 10, 10, 10], [8, 8, 15, 15, 15]),
    ],
)
def test_the_worked_example_in_lockstep(name, knobs, starts, ends):
    result = run(name, WORKED, Lockstep(step=STEP_IS_A_SECOND), 4, **knobs)
    assert (result.scheduled_s.tolist(), result.returned_s.tolist()) == (starts, ends)


def test_the_worked_example_continuous():
    engine = Iteration(step=STEP_IS_A_SECOND, max_num_seqs=4)
    result = run("continuous", WORKED, engine, 4)
    assert result.scheduled_s.tolist() == [0, 1, 5, 6, 7]
    assert result.returned_s.tolist() == [6, 4, 9, 8, 12]
    assert result.utilisation == 20 / (4 * 12)


def test_the_waste_of_four_outputs():
    requests = columns([0] * 4, [8] * 4, [50, 120, 500, 80])
    result = run("naive", requests, Lockstep(step=STEP_IS_A_SECOND), 4)
    assert result.utilisation == 0.375
    done = [(s.index, s.end_step - s.first_step) for s in result.stretches if s.holding == "finished"]
    assert sorted(done) == [(0, 450), (1, 380), (3, 420)]


@pytest.mark.parametrize(
    ("rows", "prompt", "cost_ms", "decode_ms"),
    [(1, 0, 22.35, 22.35), (32, 0, 33.2, 33.2), (16, 250, 267.6, 27.6)],
)
def test_what_a_step_costs(rows, prompt, cost_ms, decode_ms):
    """Of a batch of two tokens each: the prefill step, and the step after it."""
    model = Linear() if prompt else Linear(per_prefill_token_s=0.0)
    requests = columns([0.0] * rows, [prompt or 7] * rows, [2] * rows)
    for name, engine in (
        ("naive", Lockstep(step=model)),
        ("continuous", Iteration(step=model, max_num_seqs=rows, max_num_batched_tokens=None)),
    ):
        result = run(name, requests, engine, rows)
        first_s, second_s = token_times_s(result, 0)
        assert 1e3 * first_s == pytest.approx(cost_ms, rel=1e-12)
        assert 1e3 * (second_s - first_s) == pytest.approx(decode_ms, rel=1e-12)


def test_as_many_chats_fit_as_the_cache_has_room_for():
    """Llama-3-8B in bf16 on 92 % of 80 GB: 439,453 tokens, 214 chats of 2,048."""
    tokens = int((0.92 * 80e9 - 16e9) / 131_072)
    assert tokens == 439_453
    count = 300
    requests = columns(np.zeros(count), [1_024] * count, [1_025] * count)
    engine = Iteration(
        step=STEP_IS_A_SECOND,
        max_num_seqs=count,
        max_num_batched_tokens=None,
        kv=KVCache(blocks=tokens // 16, admission="reserve"),
    )
    result = run("continuous", requests, engine, count)
    assert (result.scheduled_s == 0).sum() == result.runs["resident"].max() == 214
    assert result.counters.preemptions == 0


def test_a_request_that_can_never_fit_fails_with_the_reason_and_the_others_go_on():
    requests = columns([0, 0, 0, 1], [10, 100, 30, 10], [5, 5, 200, 5])
    engine = Iteration(step=STEP_IS_A_SECOND, max_num_seqs=8, kv=KVCache(blocks=4, block_tokens=16))
    result = run("continuous", requests, engine, 8)
    assert result.status.tolist() == [1, 2, 2, 1]
    assert result.errors == {
        1: ("kv-cache", "100 tokens need 7 blocks of the KV cache, which has 4"),
        2: ("kv-cache", "65 tokens need more than the 4 blocks of the KV cache"),
    }
    assert result.output_tokens.tolist() == [5, 0, 35, 5]
