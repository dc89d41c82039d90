"""Step models: MEASUREMENT's figures, and sums of decode steps against adding them one by one."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deployments.virtual.step_model import Linear, Roofline, StepModel

LLAMA_2_7B = {"weight_bytes": 6_738_415_616 * 2, "kv_bytes_per_token": 524_288, "parameters": 6_738_415_616}

costs_s = st.floats(1e-7, 0.1)
linear_models = st.builds(
    Linear,
    fixed_s=costs_s,
    per_sequence_s=costs_s,
    per_context_token_s=st.floats(0, 1e-4),
    per_prefill_token_s=st.floats(0, 1e-3),
    per_prefill_token_sq_s=st.floats(0, 1e-6),
)
# Sizes near each other, so that compute and memory bind about equally often, and change over in a run.
roofline_models = st.builds(
    Roofline,
    weight_bytes=st.floats(1e3, 1e5),
    kv_bytes_per_token=st.floats(1, 100),
    bandwidth_bytes_per_s=st.floats(1e5, 1e7),
    flop_per_s=st.floats(1e5, 1e7),
    parameters=st.floats(1e2, 1e5),
)
TURNS = Roofline(  # compute of 8 sequences takes 1.0 s, which the memory reaches at a context of 450
    weight_bytes=100, kv_bytes_per_token=2, bandwidth_bytes_per_s=1_000, flop_per_s=1_600, parameters=100
)


def one_by_one_s(model: StepModel, sequences: int, context_tokens: int, steps: int) -> float:
    return math.fsum(model.step_s(sequences, context_tokens + step * sequences) for step in range(steps))


@pytest.mark.parametrize(
    ("sequences", "prefill_tokens", "expected_s"),
    [(1, 0, 0.02235), (32, 0, 0.0332), (16, 4_000, 0.2676), (16, 0, 0.0276)],
)
def test_the_default_costs(sequences, prefill_tokens, expected_s):
    step_s = Linear().step_s(sequences, prefill_tokens=prefill_tokens)
    assert step_s == pytest.approx(expected_s, rel=1e-12)


def test_each_term_of_the_line_is_charged():
    model = Linear(
        fixed_s=1,
        per_sequence_s=10,
        per_context_token_s=100,
        per_prefill_token_s=1e3,
        per_prefill_token_sq_s=1e4,
    )
    assert model.step_s(2, 3, 4, 5) == 1 + 20 + 300 + 4_000 + 50_000


@pytest.mark.parametrize("bandwidth_bytes_per_s", [336e9, 936e9, 4.8e12])
def test_sixteen_sequences_give_twelve_times_the_tokens_on_any_bandwidth(bandwidth_bytes_per_s):
    model = Roofline(**LLAMA_2_7B, bandwidth_bytes_per_s=bandwidth_bytes_per_s, flop_per_s=1e18)
    longer = model.step_s(16, 16 * 512) / model.step_s(1, 512)
    assert longer == pytest.approx(1.293, abs=5e-4)
    assert 16 / longer == pytest.approx(12.37, abs=5e-3)


def test_compute_is_a_floor():
    model = Roofline(**LLAMA_2_7B, bandwidth_bytes_per_s=2e12, flop_per_s=312e12)
    assert model.step_s(0, prefill_tokens=2_048) == 2 * 6_738_415_616 * 2_048 / 312e12
    assert model.step_s(1, 512) == (6_738_415_616 * 2 + 512 * 524_288) / 2e12


@given(
    model=linear_models | roofline_models,
    sequences=st.integers(0, 64),
    context_tokens=st.integers(0, 5_000),
    steps=st.integers(0, 300),
)
@example(model=TURNS, sequences=8, context_tokens=0, steps=100)
@example(model=TURNS, sequences=8, context_tokens=450, steps=5)
@example(model=TURNS, sequences=8, context_tokens=442, steps=5)
def test_a_run_of_decodes_is_the_sum_of_its_steps(model, sequences, context_tokens, steps):
    expected_s = one_by_one_s(model, sequences, context_tokens, steps)
    assert model.decode_s(sequences, context_tokens, steps) == pytest.approx(expected_s, rel=1e-9, abs=0)


def test_the_run_with_a_turn_is_bound_by_both():
    assert TURNS.step_s(8, 440) == 1.0
    assert TURNS.step_s(8, 450) == 1.0
    assert TURNS.step_s(8, 460) == 1.02
    assert TURNS.decode_s(8, 440, 4) == pytest.approx(1.0 + 1.0 + 1.012 + 1.028)


@given(
    model=linear_models | roofline_models,
    sequences=st.integers(1, 64),
    context_tokens=st.integers(0, 5_000),
    first=st.integers(0, 100),
    second=st.integers(0, 100),
)
def test_a_run_may_be_cut_anywhere(model, sequences, context_tokens, first, second):
    whole_s = model.decode_s(sequences, context_tokens, first + second)
    head_s = model.decode_s(sequences, context_tokens, first)
    tail_s = model.decode_s(sequences, context_tokens + first * sequences, second)
    assert head_s + tail_s == pytest.approx(whole_s, rel=1e-9, abs=0)


@pytest.mark.parametrize(
    ("costs", "complaint"),
    [
        ({"fixed_s": -0.1}, "fixed_s must be at least 0 and finite, got -0.1"),
        ({"per_context_token_s": math.nan}, "per_context_token_s must be at least 0 and finite, got nan"),
    ],
)
def test_a_line_without_sense_is_refused(costs, complaint):
    with pytest.raises(ValueError, match=complaint):
        Linear(**costs)


@pytest.mark.parametrize("name", ["weight_bytes", "kv_bytes_per_token", "parameters"])
def test_a_roofline_of_nothing_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be above 0 and finite, got 0"):
        Roofline(**(LLAMA_2_7B | {name: 0}), bandwidth_bytes_per_s=2e12, flop_per_s=312e12)
