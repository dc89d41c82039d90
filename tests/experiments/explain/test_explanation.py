"""What theory says of a config: the formulas at the right places, and limits of memory."""

import pytest

from deployments.virtual.step_model import Linear
from experiments.explain.basis import bases
from experiments.explain.explanation import explain, to_dict
from experiments.explain.guide_lines import gather_s, guides
from experiments.explain.text import text
from experiments.simulation.engines import engine_of
from experiments.simulation.simulation import Simulation
from experiments.theory import (
    fill_wait_s,
    gated_capacity,
    idle_batch,
    iteration_capacity,
    lockstep_capacity,
    mm1_wait_s,
)


@pytest.fixture(scope="module")
def explained(made_config):
    config = made_config()
    return explain(config, bases(config))


def by_label(explanation, label, backend="vllm"):
    return next(
        one for one in explanation.theories if (one.setting.label, one.setting.backend) == (label, backend)
    )


def test_each_strategy_has_the_capacity_of_its_kind(explained):
    work, model = explained.work, Linear()
    assert by_label(explained, "naive · 4", "huggingface").capacity == lockstep_capacity(work, model, 4)
    assert by_label(explained, "naive · 4").capacity == gated_capacity(work, model, 4)
    assert by_label(explained, "dynamic · 2 · 50 ms").capacity == gated_capacity(work, model, 2)
    assert by_label(explained, "continuous · 4").capacity == iteration_capacity(work, model, 4)


def test_what_is_said_at_a_rate(explained):
    naive, dynamic = by_label(explained, "naive · 4"), by_label(explained, "dynamic · 4 · 500 ms")
    at = naive.at(4.0)
    assert at.utilisation == 4.0 / naive.capacity
    assert at.wait_s == mm1_wait_s(4.0, naive.capacity)
    assert (at.fill_wait_s, at.idle_batch, at.batch) == (fill_wait_s(4, 4.0), None, 4)
    at = dynamic.at(4.0)
    assert (at.fill_wait_s, at.idle_batch) == (None, idle_batch(4.0, 0.5, 4))
    assert at.tokens_per_s == pytest.approx(4.0 * explained.work.outputs.mean())


def test_beyond_capacity_there_is_no_wait_and_all_slots_are_taken(explained):
    continuous = by_label(explained, "continuous · 4")
    at = continuous.at(2 * continuous.capacity)
    assert (at.wait_s, at.batch, at.utilisation) == (None, 4, 2.0)
    assert at.tokens_per_s == pytest.approx(continuous.tokens_per_s)


def test_a_small_cache_lowers_the_cap_and_with_it_the_capacity(made_config):
    long = {"distribution": "fixed", "tokens": 1_000_000}
    workload = {"prompts": {"tokens": long}, "output_tokens": {"distribution": "fixed", "tokens": 4}}
    strategies = [{"strategy": "continuous", "backends": "vllm", "max_batch_size": [4, 32]}]
    config = made_config(workload=workload, strategies=strategies)
    small, large = explain(config, bases(config, hardware="h100")).theories
    # 0.9·80e9 − 0.27e9 bytes ÷ 23,040 = 3,113,323 tokens in blocks of 16; a slot holds 1,000,002.5 on average
    assert (small.kv_tokens, small.kv_limit) == (3_113_312, 3)
    assert (small.cap, large.cap) == (3, 3)
    assert small.capacity == large.capacity


@pytest.mark.parametrize(
    ("block", "engine", "hardware", "tokens"),
    [
        ({"kv_blocks": 120}, {}, "h100", 120 * 16),
        ({"kv_blocks": 120, "kv_block_tokens": 32}, {}, None, 120 * 32),
        ({}, {"kv_blocks": 9}, "l4", 9 * 256),
        ({"kv_blocks": 30}, {"kv_blocks": 9}, None, 30 * 256),
        ({}, {}, None, None),
    ],
)
def test_theory_has_the_pool_that_virtual_time_has(made_config, block, engine, hardware, tokens):
    backend = "huggingface-continuous" if engine else "vllm"
    strategies = [{"strategy": "continuous", "backends": backend, "max_batch_size": 64}]
    config = made_config(simulation=block, backends={backend: engine}, strategies=strategies)
    found = bases(config, hardware=hardware)
    (theory,) = explain(config, found).theories
    simulation = Simulation.of(config, found)
    kv = engine_of(simulation.cells()[0], simulation.premises[backend], config.simulation).kv
    assert theory.kv_tokens == tokens == (kv and kv.blocks * kv.block_tokens)


def test_what_is_reserved_lowers_the_room(made_config):
    rooms = {}
    for admission in ("optimistic", "reserve"):
        config = made_config(simulation={"kv_blocks": 120, "admission": admission})
        rooms[admission] = by_label(explain(config, bases(config)), "continuous · 4").kv_limit
    # 16 to 64 tokens of prompt and 32 reserved in blocks of 16: (48 + 16·64 + 16·80 + 16·96) ÷ 49 = 79.3
    assert rooms["reserve"] == 24
    assert rooms["optimistic"] > 24


def test_naive_waits_for_its_n_where_the_cache_has_room_for_fewer(made_config):
    strategies = [
        {"strategy": "naive", "backends": "vllm", "max_batch_size": 64},
        {"strategy": "continuous", "backends": "vllm", "max_batch_size": 64},
    ]
    config = made_config(simulation={"kv_blocks": 120}, strategies=strategies)
    explanation = explain(config, bases(config))
    naive, continuous = explanation.theories
    assert naive.kv_limit == continuous.kv_limit == continuous.cap < 64
    assert naive.at(4.0).fill_wait_s == gather_s(naive, 4.0) == fill_wait_s(64, 4.0)
    assert naive.capacity == gated_capacity(explanation.work, Linear(), 64, naive.room)
    assert naive.capacity < gated_capacity(explanation.work, Linear(), 64)
    said = list(text(explanation))
    assert f"  vllm, continuous · 64: 64 at most, and KV room for {continuous.room}" in said
    assert f"{continuous.at(4.0).batch} of 64" in " ".join(said)


def test_automatic_rates_come_from_the_step_times(made_config):
    config = made_config(arrival_rate="auto", duration_s="auto")
    explanation = explain(config, bases(config))
    slowest = min(one.capacity for one in explanation.theories)
    assert explanation.automatic
    assert explanation.rates[0] == pytest.approx(0.5 * slowest, rel=0.051)
    assert explain(config, bases(config), rates=(1.0, 2.0)).rates == (1.0, 2.0)


def test_batches_are_shown_past_the_largest_that_is_used(explained):
    assert explained.batches == (1, 2, 4, 8, 16, 32)
    steps = explained.steps("vllm")
    assert steps[0].gain == 1.0
    assert steps[-1].step_s == Linear().step_s(32)
    assert steps[-1].tokens_per_s == pytest.approx(964, abs=0.5)


def test_the_document_says_the_same(explained):
    document = to_dict(explained)
    first = document["settings"][0]
    assert first["setting"] == "naive · 4"
    assert first["rates"][1]["fill_wait_s"] == fill_wait_s(4, 4.0)
    assert document["backends"]["vllm"]["kind"] == "default"
    assert document["lockstep_efficiency"]["1"] == 1.0


def test_guides_deliver_what_is_offered_until_the_capacity(explained):
    guide = next(one for one in guides(explained) if one.setting == "continuous · 4")
    mean = explained.work.outputs.mean()
    points = guide.lines["throughput_tokens_per_s"]
    assert points[0] == pytest.approx((1.0, mean))
    assert points[-1] == pytest.approx((4.0, min(4.0, guide.capacity) * mean))


def test_guides_of_latency_end_before_the_capacity_and_only_rise_behind_a_free_engine(made_config):
    config = made_config(arrival_rate=[1, 100])
    guide = next(one for one in guides(explain(config, bases(config))) if one.setting == "continuous · 4")
    for name in ("queue_wait_s_p50", "ttft_s_p99", "e2e_s_mean"):
        rates, values = zip(*guide.lines[name], strict=True)
        assert max(rates) <= 0.9951 * guide.capacity
        assert list(values) == sorted(values)
    assert guide.lines["ttft_s_p50"][0][1] == pytest.approx(Linear().step_s(1, prefill_tokens=40), rel=1e-3)


def test_gathering_takes_naive_long_and_dynamic_no_longer_than_its_wait(explained):
    assert gather_s(by_label(explained, "naive · 4"), 0.1) == fill_wait_s(4, 0.1)
    assert 0.49 < gather_s(by_label(explained, "dynamic · 4 · 500 ms"), 0.1) <= 0.5
    assert gather_s(by_label(explained, "dynamic · 4 · 500 ms"), 1e6) == 0.0
    assert gather_s(by_label(explained, "continuous · 4"), 0.1) == 0.0


def test_service_changes_smoothly_with_the_rate(explained):
    dynamic = by_label(explained, "dynamic · 4 · 50 ms")
    for batch in (1, 2, 3):
        rate = dynamic.capacity_of(batch)
        assert dynamic.service_at(rate) == pytest.approx(dynamic.service_s(batch))
        assert dynamic.service_at(rate * 1.0001) == pytest.approx(dynamic.service_s(batch), rel=1e-3)
    assert dynamic.service_at(10 * dynamic.capacity) == dynamic.service_s(4)
