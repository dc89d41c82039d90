"""Theory against MEASUREMENT's figures, against adding up step by step, and against drawing at random."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.virtual.step_model import Linear, Roofline
from experiments.theory import (
    Work,
    batch_at,
    fill_wait_s,
    gated_batch_s,
    gated_capacity,
    ideal_tokens_per_s,
    idle_batch,
    iteration_capacity,
    iteration_step_s,
    kv_batch,
    lockstep_batch_s,
    lockstep_capacity,
    lockstep_efficiency,
    mm1_wait_quantile_s,
    mm1_wait_s,
    rows_beside,
)
from workloads import lengths

CONTEXT = Linear(
    fixed_s=0.02, per_sequence_s=0.001, per_context_token_s=1e-6, per_prefill_token_s=1e-5,
    per_prefill_token_sq_s=1e-8,
)  # fmt: skip
MIXED = Work(prompts=lengths.empirical(values=[100, 200]), outputs=lengths.empirical(values=[10, 20, 60]))


@pytest.mark.parametrize(("rate", "wait_s"), [(1, 7.5), (20, 0.375), (50, 0.15)])
def test_fill_wait_of_naive(rate, wait_s):
    assert fill_wait_s(16, rate) == wait_s


@pytest.mark.parametrize(("utilisation", "service_times"), [(0.5, 2), (0.8, 5), (0.9, 10), (0.95, 20)])
def test_time_in_an_mm1_system_in_service_times(utilisation, service_times):
    assert mm1_wait_s(utilisation, 1.0) + 1 == pytest.approx(service_times)


@given(utilisation=st.floats(0.01, 0.99), share=st.floats(0.01, 0.999))
def test_the_quantile_of_the_wait_has_its_share_below_it(utilisation, share):
    capacity = 3.0
    wait_s = mm1_wait_quantile_s(utilisation * capacity, capacity, share)
    beyond = utilisation * math.exp(-(1 - utilisation) * capacity * wait_s)
    assert beyond <= 1 - share + 1e-9
    if wait_s > 0:
        assert beyond == pytest.approx(1 - share)
    else:
        assert utilisation <= 1 - share + 1e-9  # so many do not wait at all


def test_nothing_is_promised_beyond_capacity():
    assert mm1_wait_s(2.0, 2.0) == mm1_wait_quantile_s(3.0, 2.0, 0.5) == math.inf


@pytest.mark.parametrize(
    ("rate", "wait_s", "cap", "batch"), [(5, 0.05, 64, 1.25), (50, 0.05, 64, 3.5), (400, 0.05, 16, 15.75)]
)
def test_batches_of_dynamic_on_an_engine_that_is_always_free(rate, wait_s, cap, batch):
    assert idle_batch(rate, wait_s, cap) == pytest.approx(batch, abs=0.006)


def test_dynamic_that_does_not_wait_takes_one():
    assert idle_batch(1e6, 0.0, 16) == 1.0
    assert idle_batch(1e6, 1.0, 1) == 1.0


def brute_lockstep_s(prompt: int, output: int, batch: int) -> float:
    first_s = CONTEXT.step_s(batch, 0, batch * prompt, batch * prompt**2)
    return first_s + math.fsum(
        CONTEXT.step_s(batch, batch * (prompt + emitted)) for emitted in range(1, output)
    )


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_a_lockstep_batch_is_the_sum_of_its_steps(batch):
    fixed = Work(prompts=lengths.fixed(tokens=120), outputs=lengths.fixed(tokens=40))
    assert lockstep_batch_s(fixed, CONTEXT, batch) == pytest.approx(brute_lockstep_s(120, 40, batch))


def test_a_gated_batch_is_the_mean_of_the_sums_of_its_steps():
    """All 36 batches of two, step by step: a finished row is in no step, and no prompt is padded."""
    requests = [(p, o) for p in (100, 200) for o in (10, 20, 60)]
    whole_s, beside = [], []
    for batch in itertools.product(requests, repeat=2):
        squares = sum(p**2 for p, _ in batch)
        whole_s.append(CONTEXT.step_s(2, 0, sum(p for p, _ in batch), squares))
        for step in range(2, 61):
            left = [p + step - 1 for p, o in batch if o >= step]
            whole_s[-1] += CONTEXT.step_s(len(left), sum(left)) if left else 0.0
            beside += [len(left)] * len(left)
        beside += [2, 2]  # the first step
    assert gated_batch_s(MIXED, CONTEXT, 2) == pytest.approx(np.mean(whole_s))
    assert rows_beside(MIXED.outputs, 2) == pytest.approx(np.mean(beside))


def test_what_has_no_room_makes_a_gated_batch_longer_and_never_better_than_its_slots():
    assert gated_batch_s(MIXED, CONTEXT, 8, room=8) == gated_batch_s(MIXED, CONTEXT, 8)
    assert gated_batch_s(MIXED, CONTEXT, 9, room=8) > gated_batch_s(MIXED, CONTEXT, 9)
    limit = iteration_capacity(MIXED, CONTEXT, 8)
    assert gated_capacity(MIXED, CONTEXT, 64, 8) < gated_capacity(MIXED, CONTEXT, 640, 8) < limit


def test_blocks_are_whole():
    assert MIXED.held_in_blocks(1) == MIXED.held_tokens
    assert MIXED.reserved_tokens(60, 16) == (160 + 272) / 2
    assert MIXED.reserved_tokens(60, 1) == 210


def test_a_slot_of_an_iteration_engine_costs_what_its_steps_cost():
    """One slot: a request after the other, so the mean step times E[o] is the mean of whole requests."""
    whole_s = [brute_lockstep_s(p, o, 1) for p in (100, 200) for o in (10, 20, 60)]
    assert 1 / iteration_capacity(MIXED, CONTEXT, 1) == pytest.approx(np.mean(whole_s))


def test_what_a_slot_reads_and_holds_is_the_mean_over_its_steps():
    reads = [
        p + step - 1 if step > 1 else 0 for p in (100, 200) for o in (10, 20, 60) for step in range(1, o + 1)
    ]
    holds = [p + step for p in (100, 200) for o in (10, 20, 60) for step in range(1, o + 1)]
    assert MIXED.context_tokens == pytest.approx(np.mean(reads))
    assert MIXED.held_tokens == pytest.approx(np.mean(holds))
    assert MIXED.most_tokens == 260


def test_lockstep_efficiency_is_a_ratio_of_means():
    rng = np.random.default_rng(5)
    law = lengths.lognormal(median=20, sigma=1.8, minimum=1, maximum=600)
    drawn = np.array(law.draw(rng, 8 * 20_000)).reshape(-1, 8)
    assert lockstep_efficiency(law, 8) == pytest.approx(drawn.mean() / drawn.max(axis=1).mean(), rel=0.02)


def test_exponential_lengths_leave_one_part_in_the_harmonic_number():
    values = np.arange(1, 40_001)
    law = lengths.empirical(values=values.tolist(), weights=np.exp(-values / 2_000).tolist())
    harmonic = sum(1 / k for k in range(1, 17))
    assert lockstep_efficiency(law, 16) == pytest.approx(1 / harmonic, rel=1e-3)


@given(batch=st.integers(1, 256))
def test_equal_lengths_waste_nothing_and_larger_batches_no_less(batch):
    assert lockstep_efficiency(lengths.fixed(tokens=50), batch) == 1.0
    assert lockstep_efficiency(MIXED.outputs, batch + 1) <= lockstep_efficiency(MIXED.outputs, batch)
    assert lockstep_efficiency(MIXED.outputs, 2) < 1.0


@given(rate=st.floats(0.1, 60.0), cap=st.integers(1, 64))
@pytest.mark.parametrize("formula", [lockstep_capacity, iteration_capacity, gated_capacity])
def test_the_batch_at_a_rate_is_the_smallest_that_keeps_up(formula, rate, cap):
    def capacity(batch: int) -> float:
        return formula(MIXED, CONTEXT, batch)

    batch = batch_at(rate, cap, capacity)
    assert 1 <= batch <= cap
    assert capacity(batch) >= rate or batch == cap
    assert batch == 1 or capacity(batch - 1) < rate


def test_little_says_what_is_in_flight():
    """At λ = μ(B) there are B in flight, each for E[o] steps: B = λ·E[o]·step(B)."""
    rate = iteration_capacity(MIXED, CONTEXT, 7)
    assert batch_at(rate, 32, lambda batch: iteration_capacity(MIXED, CONTEXT, batch)) == 7
    assert rate * MIXED.outputs.mean() * iteration_step_s(MIXED, CONTEXT, 7) == pytest.approx(7)


def test_prompts_hide_behind_memory_on_a_roofline():
    """Prefill that fits beside the reading of the weights costs nothing; beyond that it costs its compute."""
    model = Roofline(
        weight_bytes=1e9, kv_bytes_per_token=1, bandwidth_bytes_per_s=1e11, flop_per_s=1e13, parameters=5e8
    )
    hidden = Work(prompts=lengths.fixed(tokens=90), outputs=lengths.fixed(tokens=10))
    bound = Work(prompts=lengths.fixed(tokens=900), outputs=lengths.fixed(tokens=10))
    assert iteration_step_s(hidden, model, 8) == pytest.approx(0.01, rel=1e-3)
    assert iteration_step_s(bound, model, 8) == pytest.approx(2 * 5e8 * (8 + 8 * 900 / 10) / 1e13)


def test_kv_room_and_delivery():
    assert kv_batch(439_453, 2_048) == 214
    assert ideal_tokens_per_s(2.0, 5.0, 10.0) == 20.0
    assert ideal_tokens_per_s(7.0, 5.0, 10.0) == 50.0
