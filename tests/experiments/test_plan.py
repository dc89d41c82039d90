"""What a sweep would do: cells, loads and time, from its config and what is done of it."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.cells import blocks
from experiments.config import SweepConfig
from experiments.plan import LOAD_S, OTHER_LOAD_S, TIMING_S, EarlierRun, make_plan, to_dict
from experiments.trial_time import AROUND_S, Span
from results.store import Store

NAIVE = {"strategy": "naive", "backends": "huggingface", "max_batch_size": 4}
ONE = {
    "strategies": [NAIVE],
    "arrival_rate": [1, 4],
    "repeats": 2,
    "drain_limit_s": 10,
    "backends": {"huggingface": {"kv_budget_bytes": 10**9}},  # nothing is measured first
}


def test_the_time_of_a_sweep_is_its_arrivals_its_drains_and_its_loads(
    made_config: Callable[..., SweepConfig],
):
    plan = make_plan(made_config(**ONE), None, [])
    assert (len(plan.cells), len(plan.left), plan.begun) == (4, 4, False)
    assert list(plan.loads.values()) == [1], "one engine stays loaded through both repeats"
    assert plan.whole == Span(4 * (20 + AROUND_S) + OTHER_LOAD_S, None, 4 * (30 + AROUND_S) + OTHER_LOAD_S)
    assert plan.capacities_of is None, "nothing has timed this engine"
    assert plan.repeats[0].low_s - plan.repeats[1].low_s == OTHER_LOAD_S
    assert plan.measuring == Span(0, 0, 0)
    assert plan.rates == (1, 4)
    assert plan.grows_below is None


@pytest.mark.parametrize("lanes", [2, 3])
def test_an_engine_is_loaded_as_often_as_the_order_of_the_trials_asks(
    made_config: Callable[..., SweepConfig], lanes: int
):
    sizes = [2, 4, 8][:lanes]
    config = made_config(
        strategies=[{"strategy": "continuous", "backends": "vllm", "max_batch_size": sizes}], repeats=3
    )
    plan = make_plan(config, None, [])
    order = [cell.lane_key for block in blocks(plan.cells, config.seed) for cell in block]
    loads = Counter(key for key, before in zip(order, [None, *order], strict=False) if key != before)
    assert plan.loads == loads
    assert sum(loads.values()) == {2: 4, 3: 9}[lanes], "with two, a repeat begins where the last one ended"


def test_isolated_trials_load_each_time(made_config: Callable[..., SweepConfig]):
    plan = make_plan(made_config(**ONE, isolate=True), None, [])
    assert list(plan.loads.values()) == [4]


def test_automatic_rates_are_measured_first_on_lanes_that_are_used(made_config: Callable[..., SweepConfig]):
    config = made_config(arrival_rate="auto", duration_s="auto", minimum_duration_s=10)
    plan = make_plan(config, None, [])
    assert [probe.backend for probe in plan.probes] == ["huggingface", "vllm"]
    assert plan.measuring.low_s == OTHER_LOAD_S + LOAD_S["vllm"] + 2 * TIMING_S
    assert plan.rates is None
    assert plan.grows_below == 40 / 10, "40 requests in 10 s"
    assert len(plan.cells) == len(config.settings) * 3 * config.repeats
    warm = plan.probes[-1].lane_key
    assert blocks(plan.cells, config.seed, warm)[0][0].lane_key == warm
    written = make_plan(made_config(), None, [])
    first = sum(written.loads.values())
    assert sum(plan.loads.values()) <= first + 1, "what was timed last is not loaded again"


def test_a_reserve_is_measured_on_the_engine_that_repeat_1_begins_with(
    made_config: Callable[..., SweepConfig],
):
    given, measured = (
        make_plan(made_config(**(ONE | {"backends": backends})), None, [])
        for backends in (ONE["backends"], {})
    )
    assert list(measured.loads.values()) == [1]
    assert measured.whole == given.whole + Span.of(TIMING_S)


def test_a_written_duration_does_not_grow(made_config: Callable[..., SweepConfig]):
    assert make_plan(made_config(arrival_rate="auto"), None, []).grows_below is None


def test_what_is_done_is_left_out_and_tells_how_long_its_twins_take(
    made_config: Callable[..., SweepConfig], begun_sweep: Callable[..., Path], tmp_path: Path
):
    config = made_config(**ONE)
    store = Store(begun_sweep(config, tmp_path, done=1))
    plan = make_plan(config, store.read_sweep(), store.trials())
    assert plan.begun
    assert (len(plan.cells), len(plan.left), plan.known) == (4, 3, 1)
    done = set(store.done_cells())
    assert {cell.cell_id for cell in plan.cells} - {cell.cell_id for cell in plan.left} == done
    two_guessed = Span(2 * (20 + AROUND_S), None, 2 * (30 + AROUND_S))
    assert plan.whole == two_guessed + Span.of(7.0 + OTHER_LOAD_S)


def measured_at(per_step_s: float) -> dict[str, Any]:
    """What a sweep keeps of engines whose steps take as long whatever is in them."""
    step_times = {"fixed_s": per_step_s, "per_sequence_s": 0.0, "prefill_s_per_token": 0.0}
    return {"huggingface": {"step_times": step_times}}


EIGHT_TOKENS = {
    "prompts": {"source": "english", "tokens": {"distribution": "fixed", "tokens": 16}},
    "output_tokens": {"distribution": "fixed", "tokens": 8},
}


@pytest.mark.parametrize("own", [True, False])
def test_what_is_likely_to_drain_is_what_a_rate_leaves_behind_at_the_measured_capacity(
    made_config: Callable[..., SweepConfig], begun_sweep: Callable[..., Path], tmp_path: Path, own: bool
):
    """Four requests in eight steps of 0.25 s: 2 requests/s; at 3/s a third of 20 s is left for 10 s more."""
    config = made_config(**{**ONE, "arrival_rate": [1, 3, 100]}, workload=EIGHT_TOKENS)
    store = Store(begun_sweep(config, tmp_path))
    info = (store.read_sweep() or {}) | {"measured": measured_at(0.25)}
    if own:
        plan = make_plan(config, info, [])
        assert plan.capacities_of == "this sweep"
    else:
        plan = make_plan(config, None, [], EarlierRun(name="made-before", info=info, trials=[]))
        assert plan.capacities_of == "made-before"
    drains_s = 2 + 10 + 10  # the last batch; more than the limit; the limit
    assert plan.whole.likely_s == pytest.approx(2 * (3 * (20 + AROUND_S) + drains_s) + OTHER_LOAD_S)
    assert plan.whole.low_s < plan.whole.likely_s < plan.whole.high_s


def test_trials_of_an_earlier_run_are_twins_too(
    made_config: Callable[..., SweepConfig], begun_sweep: Callable[..., Path], tmp_path: Path
):
    config = made_config(**ONE)
    before = Store(begun_sweep(config, tmp_path, done=4))
    earlier = EarlierRun(name="made-before", info=before.read_sweep() or {}, trials=before.trials())
    plan = make_plan(made_config(**ONE, seed=7), None, [], earlier)
    assert plan.known == len(plan.left) == 4
    assert plan.whole == Span.of(4 * 7.0 + OTHER_LOAD_S)
    longer = make_plan(made_config(**{**ONE, "duration_s": 30}), None, [], earlier)
    assert longer.known == 0


def test_automatic_rates_stand_to_the_capacities_as_they_will(made_config: Callable[..., SweepConfig]):
    """At half and nine tenths of the capacity a batch is left, at three times it twice the arrivals and it."""
    config = made_config(
        **{**ONE, "arrival_rate": "auto", "drain_limit_s": 1_000}, workload=EIGHT_TOKENS, duration_s=1_000
    )
    plan = make_plan(config, None, [])
    assert plan.capacities_of == "the simulated engine"
    drains_s = (plan.repeats[1].likely_s or 0) - plan.repeats[1].low_s
    assert drains_s == pytest.approx(1_000, rel=0.01), "the limit at the highest rate, little at the others"


def test_the_plan_as_plain_values(made_config: Callable[..., SweepConfig]):
    document: dict[str, Any] = json.loads(json.dumps(to_dict(make_plan(made_config(**ONE), None, []))))
    assert document["planned_cells"] == len(document["cells"]) == 4
    assert document["done_cells"] == 0
    assert document["engine_loads"] == 1
    assert document["rates"] == [1, 4]
    assert document["whole"]["low_s"] < document["whole"]["high_s"]
    assert {cell["cell_id"] for cell in document["cells"]} == {None}
    auto = to_dict(make_plan(made_config(arrival_rate="auto"), None, []))
    assert auto["rates"] == "auto"
    assert {cell["rate"] for cell in auto["cells"]} == {"auto"}
    assert [one["backend"] for one in auto["auto_measures"]] == ["huggingface", "vllm"]
