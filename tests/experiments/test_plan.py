"""What a sweep would do: cells, loads and time, from its config and what is done of it."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.cells import blocks
from experiments.config import SweepConfig
from experiments.plan import AROUND_S, LOAD_S, OTHER_LOAD_S, TIMING_S, Span, make_plan, to_dict
from results.store import Store

NAIVE = {"strategy": "naive", "backends": "huggingface", "max_batch_size": 4}
ONE = {"strategies": [NAIVE], "arrival_rate": [1, 4], "repeats": 2, "drain_limit_s": 10}


def test_the_time_of_a_sweep_is_its_arrivals_its_drains_and_its_loads(
    made_config: Callable[..., SweepConfig],
):
    plan = make_plan(made_config(**ONE), None, [])
    assert (len(plan.cells), len(plan.left), plan.begun) == (4, 4, False)
    assert list(plan.loads.values()) == [1], "one engine stays loaded through both repeats"
    assert plan.whole == Span(4 * (20 + AROUND_S) + OTHER_LOAD_S, 4 * (30 + AROUND_S) + OTHER_LOAD_S)
    assert plan.repeats[0].low_s - plan.repeats[1].low_s == OTHER_LOAD_S
    assert plan.measuring == Span(0, 0)
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
    two_guessed = Span(2 * (20 + AROUND_S), 2 * (30 + AROUND_S))
    assert plan.whole == two_guessed + Span(7.0 + OTHER_LOAD_S, 7.0 + OTHER_LOAD_S)


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
