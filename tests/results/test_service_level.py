"""Percentiles with limits: how they are written, and which trials keep them."""

import math
from types import ModuleType

import pyarrow as pa
import pytest

from results.metrics import with_metrics
from results.records import BATCHES, REQUESTS
from results.service_level import Target, judge, parse, percentile


def rows(made_sweep: ModuleType, e2e_s: list[float | None], **changes: object) -> list[dict[str, object]]:
    """Requests a second apart that take so long; None failed."""
    return [
        made_sweep.request_row(
            index=index,
            request_id=f"r{index}",
            planned_s=float(index),
            token_s=[] if took_s is None else [index + took_s / 2, index + took_s],
            status="failed" if took_s is None else "finished",
            **changes,
        )
        for index, took_s in enumerate(e2e_s)
    ]


def measured(written: list[dict[str, object]]) -> pa.Table:
    return with_metrics(pa.Table.from_pylist(written, schema=REQUESTS))


def test_limits_are_read_in_either_unit_and_written_as_they_are_read():
    targets = parse("ttft_p99=500ms, e2e_p95=5s,itl_p99.9=0.2s")
    assert targets == (
        Target(metric="ttft", percentile=99, limit_s=0.5),
        Target(metric="e2e", percentile=95, limit_s=5),
        Target(metric="itl", percentile=99.9, limit_s=0.2),
    )
    assert parse(",".join(target.key for target in targets)) == targets
    assert [target.text for target in targets] == [
        "p99 TTFT ≤ 500 ms",
        "p95 E2E ≤ 5 s",
        "p99.9 ITL p99 of a request ≤ 200 ms",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ttft_p99",
        "ttft_p99=5",
        "ttft_p99=-5ms",
        "ttft_p99=5m",
        "p99=5s",
        "x_p9=1s",
        "ttft_p9=1s,ttft_p9=2s",
    ],
)
def test_anything_else_is_refused(text: str):
    with pytest.raises(ValueError, match="must"):
        parse(text)


@pytest.mark.parametrize(("share", "expected"), [(50, 5.0), (90, 9.0), (91, 10.0), (100, 10.0), (0.1, 1.0)])
def test_a_percentile_is_the_least_value_that_its_share_does_not_exceed(
    made_sweep: ModuleType, share: float, expected: float
):
    table = measured(rows(made_sweep, [float(k) for k in range(10, 0, -1)]))
    assert percentile(table, Target(metric="e2e", percentile=share, limit_s=1)) == pytest.approx(expected)


def test_what_failed_was_offered_and_is_slower_than_all(made_sweep: ModuleType):
    table = measured(rows(made_sweep, [1.0] * 9 + [None]))
    assert percentile(table, Target(metric="e2e", percentile=90, limit_s=1)) == pytest.approx(1.0)
    assert math.isinf(percentile(table, Target(metric="e2e", percentile=91, limit_s=1)))


def judged(made_sweep: ModuleType, e2e_s: list[float | None], text: str) -> tuple[bool, str]:
    written = rows(made_sweep, e2e_s)
    trial = made_sweep.make_trial(
        written, knobs={"strategy": "naive", "setting": "naive · 8", "max_batch_size": 8}
    )
    found = judge(trial, pa.Table.from_pylist(written, schema=REQUESTS), BATCHES.empty_table(), parse(text))
    return found.within, found.why


def test_a_trial_keeps_a_level_if_it_keeps_all_of_it(made_sweep: ModuleType):
    usual = [0.5] * 30
    assert judged(made_sweep, usual, "e2e_p99=500ms,ttft_p99=1s") == (
        True,
        "p99 E2E ≤ 500 ms: 500 ms, p99 TTFT ≤ 1 s: 250 ms",
    )
    assert judged(made_sweep, usual, "e2e_p99=400ms,ttft_p99=1s") == (False, "p99 E2E ≤ 400 ms: 500 ms")
    assert judged(made_sweep, [*usual, None], "e2e_p99=1s") == (False, "p99 E2E ≤ 1 s: never")


def test_an_overloaded_trial_keeps_nothing(made_sweep: ModuleType):
    within, why = judged(made_sweep, [90.0] * 60, "e2e_p99=1000s")
    assert not within
    assert why.startswith("overloaded: 60 of 60 requests were not finished")
