"""From a store to findings: cells, changes, splits, knees."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from results.comparisons import COMPARED_METRICS, changes, knees
from results.findings import CellSummary, Findings, TrialSummary, Verdict, VerdictName
from results.sentences import sentences
from results.store import Store
from results.summary import find


def cell(findings: Findings, setting: str, backend: str, rate: float) -> CellSummary:
    return next(
        one for one in findings.cells if (one.setting, one.backend, one.rate) == (setting, backend, rate)
    )


def write_trial(
    made: ModuleType,
    store: Store,
    cell_id: str,
    rows: Sequence[dict[str, Any]],
    batches: Sequence[dict[str, Any]] = (),
    trial: dict[str, Any] | None = None,
    **settings: Any,
) -> None:
    attempt = store.begin_attempt(cell_id)
    identity = {**made.cell_settings(**settings), "cell_id": cell_id, "attempt": attempt.number}
    full = [made.request_row(**identity, **{"index": k, **row}) for k, row in enumerate(rows)]
    attempt.write_requests(full)
    attempt.write_batches([made.batch_row(**identity, **batch) for batch in batches])
    attempt.finish(made.make_trial(full, **(trial or {})))


def test_every_trial_and_cell_is_there_once(findings: Findings) -> None:
    assert len(findings.trials) == findings.planned_cells == 63
    assert len(findings.cells) == 21
    assert all([one.trial.repeat for one in cell.trials] == [0, 1, 2] for cell in findings.cells)
    assert [failure.cause for failure in findings.failures] == ["EngineDead"]
    assert findings.sweep["name"] == "made"


def test_the_documented_metrics_are_all_there(findings: Findings) -> None:
    names = {
        "throughput_tokens_per_s",
        "throughput_requests_per_s",
        "steady_throughput_tokens_per_s",
        "offered_rate",
        "achieved_rate",
        "backlog_slope",
        "batch_size_mean",
        "padding_waste",
        "lockstep_waste",
    }
    metrics = ("queue_wait_s", "ttft_s", "tpot_s", "itl_s", "e2e_s", "held_s", "delivered_s")
    of_requests = itertools.product(
        (*metrics, "dispatch_lag_s", "transport_s"), ("p50", "p90", "p95", "p99", "mean", "count")
    )
    names |= {f"{metric}_{statistic}" for metric, statistic in of_requests}
    assert all(names <= trial.metrics.keys() for trial in findings.trials)
    waste = {one.backend: one.trials[0].metrics["lockstep_waste"] for one in findings.cells}
    assert waste["vllm"] is None  # rows leave early there: nothing is wasted, and that is not 0


def test_batches_are_counted_by_trigger_and_size(findings: Findings) -> None:
    naive = cell(findings, "naive · 8", "huggingface", 1.0).trials[0]
    assert naive.triggers == {"flush": 1, "size": 26}
    assert naive.batch_sizes == {2: 1, 8: 26}
    assert naive.metrics["batch_size_mean"] == pytest.approx(210 / 27)
    continuous = cell(findings, "continuous · 8", "vllm", 30.0).trials[0]
    assert sum(continuous.batch_sizes.values()) == 210
    assert max(continuous.batch_sizes) == 8


def test_lockstep_waste_is_a_ratio_of_sums(tmp_path: Path, made_sweep: ModuleType) -> None:
    """Outputs 50, 120, 500, 80: 62.5 % of the slot-steps are wasted; a second full batch wastes none."""
    store = Store(tmp_path)
    waste = {"lockstep_waste": 0.0, "padding_waste": None}
    batches = [
        {"size": 4, "output_tokens": 750, "longest_output_tokens": 500, **waste},
        {"batch_id": 1, "size": 4, "output_tokens": 2000, "longest_output_tokens": 500, **waste},
    ]
    write_trial(made_sweep, store, "a", [{"token_s": [1.0]}], batches[:1])
    write_trial(made_sweep, store, "b", [{"token_s": [1.0]}], batches)
    one, two = find(store).trials
    assert one.metrics["lockstep_waste"] == pytest.approx(0.625)
    assert two.metrics["lockstep_waste"] == pytest.approx(1 - 2750 / 4000)
    assert one.metrics["padding_waste"] is None


def test_batches_that_ran_out_of_memory_and_idle_steps_are_not_counted(
    tmp_path: Path, made_sweep: ModuleType
) -> None:
    store = Store(tmp_path)
    batches = [
        {"size": 8, "trigger": "size", "out_of_memory": True},
        {"batch_id": 1, "size": 4, "trigger": "size"},
        {"batch_id": 2, "size": 4, "trigger": "age"},
    ]
    steps = [{"kind": "step", "batch_id": k, "size": k, "out_of_memory": None} for k in range(3)]
    write_trial(made_sweep, store, "a", [{"token_s": [1.0]}], [*batches, *steps])
    write_trial(
        made_sweep,
        store,
        "b",
        [{"token_s": [1.0]}],
        [*batches, *steps],
        knobs=made_sweep.KNOBS[3],
        backend="vllm",
    )
    write_trial(
        made_sweep, store, "c", [{"token_s": [1.0]}], batches, knobs=made_sweep.KNOBS[3], backend="vllm"
    )
    sizes = [dict(one.batch_sizes) for one in find(store).trials]
    assert sizes == [{4: 2}, {1: 1, 2: 1}, {4: 2}]
    assert find(store).trials[0].triggers == {"age": 1, "size": 1}


def test_one_cut_holds_for_all_strategies_of_a_rate_and_repeat(findings: Findings) -> None:
    starts: dict[tuple[float, int], set[float | None]] = {}
    for one in findings.trials:
        starts.setdefault((one.trial.rate, one.trial.repeat), set()).add(one.metrics["steady_start_s"])
    assert len(starts) == 9
    assert all(len(found) == 1 for found in starts.values())


def test_how_rows_are_split_into_files_changes_nothing(tmp_path: Path, made_sweep: ModuleType) -> None:
    found = [
        find(made_sweep.make_sweep(tmp_path / str(parts), repeats=1, rates=(5.0,), requests=40, parts=parts))
        for parts in (1, 7)
    ]
    assert found[0] == found[1]


def test_the_order_in_which_rows_are_written_changes_nothing(tmp_path: Path, made_sweep: ModuleType) -> None:
    rows = [{"index": k, "planned_s": 0.1 * k, "token_s": [0.1 * k + 1, 0.1 * k + 3]} for k in range(30)]
    summaries = []
    for name, order in (("forth", rows), ("back", rows[::-1])):
        store = Store(tmp_path / name)
        write_trial(made_sweep, store, "a", order)
        summaries.append(find(store).trials[0].metrics)
    assert summaries[0] == summaries[1]


def test_changes_pair_settings_on_a_backend_and_backends_for_a_setting(findings: Findings) -> None:
    compared = {(one.base, one.other) for one in findings.changes}
    hf, vllm = "huggingface", "vllm"
    static = ("naive · 8", "dynamic · 8 · 50 ms", "dynamic · 8 · 200 ms")
    expected = {
        *((f"{hf} / {one}", f"{hf} / {two}") for one, two in itertools.combinations(static, 2)),
        *(
            (f"{vllm} / {one}", f"{vllm} / {two}")
            for one, two in itertools.combinations((*static, "continuous · 8"), 2)
        ),
        *((f"{hf} / {one}", f"{vllm} / {one}") for one in static),
    }
    assert compared == expected
    assert len(findings.changes) == len(expected) * 3 * len(COMPARED_METRICS)


def test_a_change_is_paired_by_repeat_with_an_interval(findings: Findings) -> None:
    one = next(
        one
        for one in findings.changes
        if (one.metric, one.rate) == ("e2e_s_p50", 1.0)
        and (one.base, one.other) == ("huggingface / naive · 8", "huggingface / dynamic · 8 · 50 ms")
    )
    sides = [
        cell(findings, name.partition(" / ")[2], "huggingface", 1.0).trials for name in (one.base, one.other)
    ]
    logs = [
        math.log((other.metrics["e2e_s_p50"] or 0) / (base.metrics["e2e_s_p50"] or 0))
        for base, other in zip(*sides, strict=True)
    ]
    assert one.ratio == pytest.approx(math.exp(sum(logs) / 3))
    assert one.pairs == 3
    assert one.low is not None
    assert one.high is not None
    assert one.low < one.ratio < one.high < 1
    assert one.shown


def test_changes_with_an_overloaded_side_are_marked(findings: Findings) -> None:
    assert all(one.censored == (one.rate == 30.0) for one in findings.changes)


def test_a_comparison_with_requests_cut_off_is_censored_though_none_was_overloaded(
    findings: Findings,
) -> None:
    cut = Verdict(name="unfinished", detail="3 of 40 requests cut off at the drain limit")
    cells = []
    for marked, one in zip((2, 1), [c for c in findings.cells if c.rate == 1.0][:2], strict=True):
        trials = [replace(trial, verdicts=(*trial.verdicts, cut)) for trial in one.trials[:marked]]
        cells.append(replace(one, trials=(*trials, *one.trials[marked:])))
    assert [one.overloaded for one in cells] == [False, False]
    assert [one.censored for one in cells] == [True, False]  # in most of the repeats, in one of three
    assert all(one.censored for one in changes(cells))
    (said,) = sentences(cells, changes(cells), [])
    assert any("latency is not compared" in note for note in said.notes)


def test_the_split_multiplies_to_the_total(findings: Findings) -> None:
    assert len(findings.splits) == 3 * 3 * len(COMPARED_METRICS)
    for split in findings.splits:
        assert split.total.ratio == pytest.approx(split.policy.ratio * split.engine.ratio, rel=1e-12)
        assert split.total.base.startswith("huggingface / ")
        assert split.engine.base == split.total.base
        assert split.engine.other == split.policy.base
        assert split.policy.other == split.total.other == "vllm / continuous · 8"


def test_the_split_is_exact_when_a_repeat_is_missing(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    naive, continuous = made_sweep.KNOBS[0], made_sweep.KNOBS[3]
    for repeat in range(3):
        for knobs, backend, end_s in (
            (naive, "huggingface", 9.0 + repeat),
            (naive, "vllm", 5.0 + repeat**2),
            (continuous, "vllm", 2.0 + 0.1 * repeat),
        ):
            if (repeat, backend, knobs) == (1, "vllm", naive):
                continue
            settings = {"knobs": knobs, "backend": backend, "seed": repeat, "repeat": repeat}
            rows = [{"planned_s": 0.0, "token_s": [1.0, end_s]}]
            write_trial(
                made_sweep,
                store,
                f"{backend}-{knobs['strategy']}-{repeat}",
                rows,
                trial={"knobs": knobs},
                **settings,
            )
    found = find(store)
    split = next(one for one in found.splits if one.metric == "e2e_s_p50")
    assert split.total.pairs == split.policy.pairs == split.engine.pairs == 2
    assert split.total.ratio == pytest.approx(split.policy.ratio * split.engine.ratio, rel=1e-12)
    assert split.total.low is None


def test_knees_lie_between_the_last_rate_kept_up_with_and_the_first_not(findings: Findings) -> None:
    assert findings.knees["huggingface / naive · 8"] == (5.0, 30.0)
    assert findings.knees["vllm / continuous · 8"] == (30.0, None)
    assert len(findings.knees) == 7


def judged(cell: CellSummary, *names: VerdictName | None) -> CellSummary:
    """The cell with as many repeats as names, each with that one verdict; None: it kept up."""
    trial = cell.trials[0]
    found = [() if name is None else (Verdict(name=name, detail="made"),) for name in names]
    return replace(cell, trials=tuple(replace(trial, verdicts=verdicts) for verdicts in found))


@pytest.mark.parametrize(
    ("verdicts", "knee"),
    [
        (("too-short", "too-short", "too-short"), (None, None)),
        (("too-short", "too-short", "overloaded"), (None, 30.0)),
        ((None, "too-short", "too-short"), (1.0, None)),
        ((None, "too-short", "overloaded"), (1.0, 30.0)),
    ],
)
def test_a_rate_too_short_to_judge_bounds_no_knee(
    findings: Findings, verdicts: tuple[VerdictName | None, ...], knee: tuple[float | None, float | None]
) -> None:
    """Neither kept up with nor overloaded: it is not known."""
    cells = [cell for cell in findings.cells if cell.setting == "naive · 8" and cell.backend == "vllm"]
    made = [judged(cell, name) for cell, name in zip(cells, verdicts, strict=True)]
    assert knees(made) == {"vllm / naive · 8": knee}


@pytest.mark.parametrize(
    ("repeats", "standing"),
    [
        ((None, None, "too-short"), ""),
        ((None, "too-short", "too-short"), "not judged, too short"),
        (("overloaded", "overloaded", "too-short"), "overloaded in 2 of 3 repeats"),
        (("overloaded", "overloaded"), "overloaded"),
        (("overloaded", "too-short"), "not judged, repeats disagree"),
        ((None, "overloaded"), "not judged, repeats disagree"),
        ((None, None, "overloaded"), "not judged, repeats disagree"),  # two that kept up are no promise
    ],
)
def test_a_cell_is_decided_by_most_of_its_repeats_unless_they_disagree(
    findings: Findings, repeats: tuple[VerdictName | None, ...], standing: str
) -> None:
    cell = judged(findings.cells[0], *repeats)
    assert cell.standing == standing
    assert cell.undecided is standing.startswith("not judged")
    assert cell.overloaded is standing.startswith("overloaded")


def test_a_trial_whose_replica_changed_is_shown_and_left_out_of_cells(
    tmp_path: Path, made_sweep: ModuleType
) -> None:
    store = Store(tmp_path)
    write_trial(made_sweep, store, "a", [{"token_s": [1.0]}])
    write_trial(made_sweep, store, "b", [{"token_s": [9.0]}], trial={"incarnation_end": "two"}, repeat=1)
    found = find(store)
    assert [one.has("replica-changed") for one in found.trials] == [False, True]
    assert [len(one.trials) for one in found.cells] == [1]


def test_a_trial_in_which_all_failed_has_counts_and_no_latency(
    tmp_path: Path, made_sweep: ModuleType
) -> None:
    store = Store(tmp_path)
    rows = [{"planned_s": 0.1 * k, "status": "failed", "cause": "OutOfMemory"} for k in range(5)]
    write_trial(made_sweep, store, "a", rows)
    one: TrialSummary = find(store).trials[0]
    assert one.metrics["e2e_s_p50"] is None
    assert one.metrics["throughput_tokens_per_s"] is None
    assert one.metrics["offered_rate"] == pytest.approx(10.0)
    assert one.has("failures")


def test_damage_found_while_reading_leaves_out_the_whole_cell(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = made_sweep.make_sweep(tmp_path, repeats=1, rates=(5.0,), requests=20)
    part = tmp_path / "cells" / "cell-003" / "attempt-1" / "batches-00000.parquet"
    part.write_bytes(bytes(part.stat().st_size))
    found = find(Store(store.root))
    assert "cell-003" not in {one.trial.cell_id for one in found.trials}
    assert (len(found.trials), found.planned_cells) == (6, 7)


def test_an_empty_store_has_no_findings(tmp_path: Path) -> None:
    found = find(Store(tmp_path))
    assert (found.trials, found.cells, found.changes, found.splits, found.sentences) == ((), (), (), (), ())


def test_percentiles_are_of_the_steady_window_and_throughput_of_both(
    tmp_path: Path, made_sweep: ModuleType
) -> None:
    """20 slow first tokens, then 60 quick ones, a token each: the cut leaves the 60."""
    rows = [
        {"planned_s": 1.0 * k, "token_s": [k + (9.0 if k < 20 else 0.5 + 0.1 * (k % 5))]} for k in range(80)
    ]
    store = Store(tmp_path)
    write_trial(made_sweep, store, "a", rows)
    metrics = find(store).trials[0].metrics
    assert (metrics["steady_start_s"], metrics["steady_requests"]) == (20.0, 60.0)
    assert metrics["ttft_s_count"] == 60
    assert metrics["ttft_s_p99"] == pytest.approx(0.9)
    last_s = max(row["token_s"][0] for row in rows)
    assert metrics["throughput_tokens_per_s"] == pytest.approx(80 / last_s)
    inside = sum(20 <= row["token_s"][0] <= 79 for row in rows)
    assert metrics["steady_throughput_tokens_per_s"] == inside / 59
    assert metrics["steady_throughput_requests_per_s"] == inside / 59


def test_a_trial_with_nothing_finished_in_its_window_has_no_percentile_and_is_counted(
    tmp_path: Path, made_sweep: ModuleType
) -> None:
    """Its own cut is 0; that of the other strategy leaves only what failed."""
    waits = [9.0] * 20 + [0.5] * 40
    other = [{"planned_s": 1.0 * k, "token_s": [k + wait]} for k, wait in enumerate(waits)]
    rows = [
        {"planned_s": 1.0 * k, "token_s": [k + 0.5]} if k < 10 else {"planned_s": 1.0 * k, "status": "failed"}
        for k in range(60)
    ]
    store = Store(tmp_path)
    write_trial(made_sweep, store, "a", rows)
    write_trial(made_sweep, store, "b", other, knobs=made_sweep.KNOBS[1])
    metrics = find(store).trials[0].metrics
    assert (metrics["steady_start_s"], metrics["steady_requests"]) == (20.0, 40.0)
    assert (metrics["e2e_s_count"], metrics["e2e_s_p50"], metrics["e2e_s_mean"]) == (0, None, None)
    assert metrics["steady_throughput_tokens_per_s"] == 0


def test_equal_stamps_give_zeros_and_no_rate(tmp_path: Path, made_sweep: ModuleType) -> None:
    """Everything at one moment: latencies of 0 exist, what is divided by no time does not."""
    store = Store(tmp_path)
    write_trial(made_sweep, store, "a", [{"planned_s": 1.0, "token_s": [1.0, 1.0]} for _ in range(3)])
    metrics = find(store).trials[0].metrics
    assert (metrics["ttft_s_p50"], metrics["tpot_s_p50"], metrics["itl_s_p99"]) == (0.0, 0.0, 0.0)
    names = ("throughput_tokens_per_s", "steady_throughput_tokens_per_s", "offered_rate", "little_error")
    assert [metrics[name] for name in names] == [None] * 4


def test_goodput_is_counted_for_the_slos_of_the_config(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    store.write_sweep({"name": "made", "config": {"slo": {"ttft_ms": 600}}})
    rows = [{"planned_s": 1.0 * k, "token_s": [k + (0.5 if k % 4 else 0.7)]} for k in range(16)]
    write_trial(made_sweep, store, "a", rows)
    found = find(store)
    assert [slo.text for slo in found.slos] == ["TTFT ≤ 600 ms"]
    assert found.trials[0].metrics["goodput_share@ttft_ms=600"] == 12 / 16
    assert found.trials[0].metrics["goodput_requests_per_s@ttft_ms=600"] == pytest.approx(12 / 16)
