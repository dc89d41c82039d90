"""Capacities against numbers worked out by hand, and rates that stand on both sides of every knee."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.idle_engine import Sample
from deployments.virtual.step_model import Linear
from experiments.capacity import (
    capacity,
    fit,
    from_record,
    probes,
    resolve_rates,
    to_record,
    two_digits,
)
from experiments.cells import cells
from experiments.config import SweepConfig
from experiments.theory import Work, gated_capacity, iteration_capacity, lockstep_capacity
from workloads.workload import WorkloadSpec

COSTS = Linear(fixed_s=0.022, per_sequence_s=0.00035, per_prefill_token_s=0.0)  # the defaults of `simulated`
WITH_PREFILL = Linear(fixed_s=0.022, per_sequence_s=0.00035, per_prefill_token_s=60e-6)
FAST = Linear(fixed_s=0.01, per_sequence_s=0.001, per_prefill_token_s=0.0)
SLOW = Linear(fixed_s=0.1, per_sequence_s=0.001, per_prefill_token_s=0.0)

seconds = st.floats(1e-5, 1.0)
step_times = st.builds(
    Linear, fixed_s=seconds, per_sequence_s=seconds, per_prefill_token_s=st.floats(0.0, 0.01)
)


@dataclass(frozen=True)
class Tokens:
    """Two lengths, equally frequent: E[max of n] is worked out on paper."""

    short: int
    long: int

    def spec(self) -> dict[str, Any]:
        return {"distribution": "empirical", "values": [self.short, self.long]}


def workload(prompts: Tokens, outputs: Tokens) -> Work:
    spec = {"prompts": {"tokens": prompts.spec()}, "output_tokens": outputs.spec()}
    return Work.of(WorkloadSpec.model_validate(spec))


EQUAL = workload(Tokens(100, 100), Tokens(50, 50))
MIXED = workload(Tokens(100, 200), Tokens(10, 50))


@pytest.mark.parametrize(("cap", "tokens_per_s"), [(16, 580), (32, 964)])
def test_saturated_continuous_gives_the_known_tokens_per_second(cap: int, tokens_per_s: int) -> None:
    assert round(iteration_capacity(EQUAL, COSTS, cap) * 50) == tokens_per_s
    assert round(iteration_capacity(MIXED, COSTS, cap) * 30) == tokens_per_s


def test_a_lockstep_batch_runs_to_its_longest_row() -> None:
    # max of two outputs: 10 with probability ¼, else 50 → 40 steps of 22.7 ms for two requests
    assert lockstep_capacity(MIXED, COSTS, 2) == pytest.approx(2 / (40 * 0.0227))


def test_a_lockstep_batch_pads_its_prompts() -> None:
    # longest of two prompts: 175 tokens on average, two rows of them at 60 µs = 21 ms
    assert lockstep_capacity(MIXED, WITH_PREFILL, 2) == pytest.approx(2 / (0.021 + 40 * 0.0227))


def test_an_iteration_engine_pays_each_prompt_once_and_pads_nothing() -> None:
    # two prompts of 150 tokens on average at 60 µs = 18 ms, 30 steps on average
    assert iteration_capacity(MIXED, WITH_PREFILL, 2) == pytest.approx(2 / (0.018 + 30 * 0.0227))


@given(times=step_times, cap=st.integers(1, 64))
def test_with_equal_lengths_or_one_slot_continuous_gains_nothing(times: Linear, cap: int) -> None:
    assert iteration_capacity(EQUAL, times, cap) == pytest.approx(lockstep_capacity(EQUAL, times, cap))
    assert iteration_capacity(MIXED, times, 1) == pytest.approx(lockstep_capacity(MIXED, times, 1))


@given(times=step_times, cap=st.integers(2, 64))
def test_with_mixed_lengths_it_does(times: Linear, cap: int) -> None:
    assert iteration_capacity(MIXED, times, cap) > lockstep_capacity(MIXED, times, cap)


def test_naive_on_an_engine_that_re_forms_its_batch_is_gated(
    made_config: Callable[..., SweepConfig],
) -> None:
    config = made_config()
    work = Work.of(config.workload)
    by_label = {
        (setting.label, setting.backend): capacity(setting, work, COSTS) for setting in config.settings
    }
    assert by_label["naive · 4", "huggingface"] == lockstep_capacity(work, COSTS, 4)
    assert by_label["naive · 4", "vllm"] == by_label["dynamic · 4 · 50 ms", "vllm"]
    assert by_label["naive · 4", "vllm"] == gated_capacity(work, COSTS, 4)
    assert by_label["naive · 4", "huggingface"] < by_label["naive · 4", "vllm"]
    assert by_label["continuous · 4", "vllm"] == iteration_capacity(work, COSTS, 4)


def sample(times: Linear, batch_size: int, prompt_tokens: int) -> Sample:
    step_s = times.step_s(batch_size)
    prefill_s = step_s + times.per_prefill_token_s * batch_size * prompt_tokens
    return Sample(batch_size=batch_size, prompt_tokens=prompt_tokens, prefill_s=prefill_s, step_s=step_s)


@given(times=step_times)
def test_the_fit_finds_the_costs_that_made_the_samples(times: Linear) -> None:
    found = fit([sample(times, 1, 40), sample(times, 4, 40), sample(times, 4, 80)])
    assert found.fixed_s == pytest.approx(times.fixed_s, rel=1e-6, abs=1e-9)
    assert found.per_sequence_s == pytest.approx(times.per_sequence_s, rel=1e-6, abs=1e-9)
    assert found.per_prefill_token_s == pytest.approx(times.per_prefill_token_s, rel=1e-6, abs=1e-9)


@given(
    st.lists(
        st.builds(
            Sample,
            batch_size=st.integers(1, 64),
            prompt_tokens=st.integers(1, 512),
            prefill_s=seconds,
            step_s=seconds,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_no_cost_is_negative_and_a_step_takes_time_whatever_was_measured(samples: list[Sample]) -> None:
    found = fit(samples)
    assert min(found.fixed_s, found.per_sequence_s, found.per_prefill_token_s) >= 0
    assert all(found.step_s(each.batch_size) > 0 for each in samples)


def test_samples_that_say_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 sample"):
        fit([])
    with pytest.raises(ValueError, match="a step must take time"):
        fit([Sample(batch_size=1, prompt_tokens=1, prefill_s=0.0, step_s=0.0)])


def test_costs_survive_json() -> None:
    assert from_record(to_record(WITH_PREFILL)) == WITH_PREFILL


@given(huggingface=step_times, vllm=step_times)
def test_automatic_rates_stand_on_both_sides_of_every_knee(
    made_config: Callable[..., SweepConfig], huggingface: Linear, vllm: Linear
) -> None:
    config = made_config(arrival_rate="auto", duration_s="auto")
    times = {"huggingface": huggingface, "vllm": vllm}
    capacities = [capacity(s, Work.of(config.workload), times[s.backend]) for s in config.settings]
    naive = [c for s, c in zip(config.settings, capacities, strict=True) if s.strategy == "naive"]
    lowest, middle, highest = resolve_rates(config, times).rates
    assert lowest == pytest.approx(0.5 * min(capacities), rel=0.051)
    assert highest >= 3 * max(naive)
    assert highest >= 1.2 * max(capacities)
    assert middle / lowest == pytest.approx(0.9 / 0.5, rel=0.1)  # each is rounded to 2 digits
    assert lowest < middle < highest


def test_automatic_rates_of_one_machine(made_config: Callable[..., SweepConfig]) -> None:
    """By hand: naive with 4 gives 4 ÷ (50·0.104) = 0.769 on the slow backend and 4 ÷ (50·0.014) = 5.71 on
    the fast one; half and nine tenths of the first, and three times the second.
    """
    config = made_config(
        arrival_rate="auto",
        duration_s="auto",
        workload={
            "prompts": {"tokens": {"distribution": "fixed", "tokens": 32}},
            "output_tokens": {"distribution": "fixed", "tokens": 50},
        },
        strategies=[{"strategy": "naive", "backends": ["huggingface", "vllm"], "max_batch_size": 4}],
    )
    resolved = resolve_rates(config, {"huggingface": SLOW, "vllm": FAST})
    assert resolved.rates == (0.38, 0.69, 18.0)
    assert resolved.durations_s == (106.0, 58.0, 20.0)  # 40 requests at 0.38/s take 105.3 s, at 0.69/s 58.0 s


def test_without_naive_the_others_set_the_rates(made_config: Callable[..., SweepConfig]) -> None:
    entry = {"strategy": "continuous", "backends": "vllm", "max_batch_size": 4}
    config = made_config(arrival_rate="auto", duration_s="auto", strategies=[entry])
    reached = iteration_capacity(Work.of(config.workload), FAST, 4)
    rates = resolve_rates(config, {"vllm": FAST}).rates
    assert rates[0] == pytest.approx(0.5 * reached, rel=0.051)
    assert rates[2] >= 3 * reached


def test_a_period_is_long_enough_for_three_fills_of_the_largest_naive(
    made_config: Callable[..., SweepConfig],
) -> None:
    entry = {"strategy": "naive", "backends": "huggingface", "max_batch_size": [4, 32]}
    config = made_config(strategies=[entry], arrival_rate=[8, 0.5, 2], duration_s="auto")
    resolved = resolve_rates(config, {})
    assert resolved.rates == (0.5, 2.0, 8.0)
    assert resolved.durations_s == (192.0, 48.0, 20.0)  # 96 requests, at least 20 s
    longer = made_config(
        strategies=[entry], arrival_rate=[8, 0.5, 2], duration_s="auto", minimum_duration_s=60
    )
    assert resolve_rates(longer, {}).durations_s == (192.0, 60.0, 60.0)


def test_what_is_written_needs_no_measuring(made_config: Callable[..., SweepConfig]) -> None:
    given = {"huggingface": {"kv_budget_bytes": 10**9}}
    config = made_config(arrival_rate=[4, 1], duration_s=30, backends=given)
    assert probes(config) == ()
    resolved = resolve_rates(config, {})
    assert (resolved.rates, resolved.durations_s) == ((1.0, 4.0), (30.0, 30.0))


def test_each_backend_is_probed_on_a_lane_that_the_sweep_uses(
    made_config: Callable[..., SweepConfig],
) -> None:
    config = made_config(arrival_rate="auto", duration_s="auto")
    huggingface, vllm = probes(config)
    used = {
        cell.lane_key for cell in cells(config, resolve_rates(config, {"huggingface": SLOW, "vllm": FAST}))
    }
    assert {huggingface.lane_key, vllm.lane_key} <= used
    assert (huggingface.backend, vllm.backend) == ("huggingface", "vllm")
    assert vllm.engine["max_num_seqs"] == vllm.max_batch_size == 4  # the widest lane
    assert vllm.batch_sizes == (1, 4)
    assert vllm.prompt_tokens == 40


@pytest.mark.parametrize(
    ("value", "nearest", "up"),
    [(0.01234, 0.012, 0.013), (0.58, 0.58, 0.58), (17.14, 17.0, 18.0), (99.6, 100.0, 100.0), (3, 3.0, 3.0)],
)
def test_rates_have_two_digits(value: float, nearest: float, up: float) -> None:
    assert (two_digits(value), two_digits(value, up=True)) == (nearest, up)
