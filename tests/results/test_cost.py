"""What a sweep costs: by the hours for which lanes were held, of every attempt."""

import os
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from results.cost import PER_MILLION, spent
from results.findings import Findings
from results.price import Price, Spent, price_of
from results.records import Failure, LaneTime
from results.report import cost
from results.report.page import render
from results.report.panel import Absent, Panel
from results.store import Store
from results.summary import find

PRICED = {"config": {"price_per_gpu_hour": {"A10G": 1.5, "any": 3.0}, "currency": "EUR"}}


def store_of(root: Path, made_sweep: ModuleType, times: list[LaneTime], killed: int = 0) -> Store:
    """One cell: all attempts fail but the last; then some that left nothing."""
    store = Store(root)
    for time in times[:-1]:
        attempt = store.begin_attempt("cell")
        record = {"cell_id": "cell", "attempt": attempt.number, "cause": "x", "error": "y", "failed_at": "z"}
        attempt.fail(Failure(**record, lane_time=time))
    attempt = store.begin_attempt("cell")
    row = made_sweep.request_row(cell_id="cell", attempt=attempt.number, token_s=[0.5, 1.0])
    attempt.write_requests([row])
    attempt.finish(made_sweep.make_trial([row], lane_time=times[-1]))
    for _ in range(killed):
        store.begin_attempt("cell")
    return store


def test_the_costs_of_all_attempts_add_up_to_price_times_lane_hours(tmp_path: Path, made_sweep: ModuleType):
    times = [
        LaneTime(held_s=1_800, kind="A10G"),
        LaneTime(held_s=0),
        LaneTime(held_s=3_600, kind="NVIDIA A10G"),
        LaneTime(held_s=900, gpus=4, kind="L4"),
    ]
    store = store_of(tmp_path, made_sweep, times, killed=2)
    timing = {"measured": {"lane_time": {"held_s": 360, "gpus": 1, "kind": "A10G"}}}
    found = spent(store, timing, price_of(PRICED))
    assert found.cost == pytest.approx(0.5 * 1.5 + 1 * 1.5 + 0.25 * 4 * 3.0 + 0.1 * 1.5)
    assert found.gpu_hours == pytest.approx(0.5 + 1 + 1 + 0.1)
    assert (found.attempts, found.unrecorded) == (4, 2)
    assert spent(store, {}, None).cost is None
    assert spent(store, {}, None).gpu_hours == pytest.approx(2.5), "known without a price"
    assert spent(store, {"simulated": {}}, price_of(PRICED)).attempts == 0


def test_an_attempt_that_was_killed_costs_at_least_what_it_did_until_the_last_that_it_wrote(
    tmp_path: Path, made_sweep: ModuleType
):
    store = store_of(tmp_path, made_sweep, [LaneTime(held_s=1_800, kind="A10G")], killed=1)
    killed = store.begin_attempt("cell")
    killed.took_lane(LaneTime(held_s=0.01, gpus=2, kind="A10G"))
    killed.write_requests([made_sweep.request_row(cell_id="cell", attempt=killed.number, token_s=[0.5])])
    folder = tmp_path / "cells" / "cell" / f"attempt-{killed.number}"
    for name, at_s in (("lane.json", 1_000), ("requests-00000.parquet", 1_900)):
        os.utime(folder / name, (at_s, at_s))
    found = spent(store, {}, price_of(PRICED))
    assert found.cost == pytest.approx(0.5 * 1.5 + 0.25 * 2 * 1.5)
    assert (found.attempts, found.unrecorded) == (1, 2)
    assert found.per_attempt == pytest.approx(0.5 * 1.5), "of what is known"
    assert found.text(price_of(PRICED) or Price(per_hour={})) == "at least 1.50 EUR"
    (folder / "lane.json").write_text('{"schema_version": 1, "lane_time": null}')
    assert spent(store, {}, price_of(PRICED)).cost == pytest.approx(0.5 * 1.5), "damaged"


def test_the_saturation_runs_of_a_search_are_in_its_cost(tmp_path: Path, made_sweep: ModuleType):
    store = store_of(tmp_path, made_sweep, [LaneTime(held_s=1_800, kind="A10G")])
    store_of(tmp_path / "at-once", made_sweep, [LaneTime(held_s=600, kind="A10G"), LaneTime(held_s=600)])
    assert spent(store, {}, price_of(PRICED)).gpu_hours == pytest.approx(50 / 60)


@pytest.mark.parametrize(
    ("written", "kind", "expected"),
    [
        (2, "A10G", 2.0),
        (2, "", 2.0),
        ({"A10G": 1}, "NVIDIA A10G", 1.0),
        ({"A10G": 1}, "L4", None),
        ({"A10G": 1, "any": 5}, "L4", 5.0),
        ({"A100": 2, "A100-SXM4-80GB": 3}, "NVIDIA A100-SXM4-80GB", 3.0),
    ],
)
def test_the_price_of_a_kind_of_gpu(written: Any, kind: str, expected: float | None):
    price = price_of({"config": {"price_per_gpu_hour": written}})
    assert price is not None
    assert price.of(kind) == expected


@pytest.mark.parametrize("written", [None, "much", True, -1, {}, {"A10G": "much"}])
def test_what_is_no_price_is_none(written: Any):
    assert price_of({"config": {"price_per_gpu_hour": written}}) is None


@pytest.mark.parametrize(
    ("currency", "amount", "expected"),
    [("$", 1234.5, "$1,234.50"), ("EUR", 0.0123, "0.0123 EUR"), ("$", 0.0, "$0.00"), ("$", None, "–")],
)
def test_amounts_are_read_as_money(currency: str, amount: float | None, expected: str):
    assert Price(per_hour={"any": 1}, currency=currency).text(amount) == expected


@pytest.fixture(scope="module")
def priced(made_sweep: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Findings, Store]:
    """The made sweep, once it has a price."""
    store: Store = made_sweep.make_sweep(tmp_path_factory.mktemp("priced"))
    info = store.read_sweep() or {}
    store.write_sweep({**info, "config": {"price_per_gpu_hour": 1.8}})
    return find(store), store


def test_a_million_tokens_cost_what_the_time_to_make_them_does(priced: tuple[Findings, Store]):
    findings, store = priced
    for one in findings.trials:
        throughput = one.metrics["steady_throughput_tokens_per_s"]
        assert throughput
        assert one.metrics[PER_MILLION] == pytest.approx(1.8 / 3600 * 1e6 / throughput)
    made = cost.panel(findings)
    assert isinstance(made, Panel)
    assert len(made.table.rows) == len(findings.cells)
    mean, low, high = (value.number for value in made.table.rows[0][-3:] if not isinstance(value, str))
    assert low is not None
    assert high is not None
    assert low < mean < high
    page = render(findings, store)
    assert 'id="cost"' in page
    paid = cost.panel(replace(findings, spent=Spent(cost=1.8, gpu_s=3_600, attempts=4)))
    assert isinstance(paid, Panel)
    assert paid.notes[-1].startswith("This sweep cost $1.80 ($0.450 a trial): 1 GPU hours of 4 attempts")
    assert "price of a GPU hour × GPUs of the lane ÷ 3600 ÷ throughput × 10⁶" in page


def test_without_a_price_there_is_no_such_section(findings: Findings, page: Path):
    assert isinstance(cost.panel(findings), Absent)
    assert 'id="cost' not in page.read_text()
