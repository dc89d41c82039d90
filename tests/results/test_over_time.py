"""A trial over time and up close: what the stamps of a few requests say, by hand; and what is packed of them."""

import base64
import json
import zlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from results.findings import Findings
from results.report import closeup, timeline, timelines, trial_block
from results.report.packed import Block
from results.report.panel import Absent, Panel
from results.report.series import series_of
from results.report.trial_rows import TrialRows, count_at, each, most_at_once
from results.store import Store
from results.summary import find

REQUESTS: tuple[dict[str, Any], ...] = (
    {"planned_s": 0.0, "scheduled_s": 1.0, "token_s": [2.0, 3.0], "returned_s": 4.0, "batch_id": 0},
    {"planned_s": 1.0, "scheduled_s": 1.0, "token_s": [2.0, 4.0], "returned_s": 4.0, "batch_id": 0},
    {"planned_s": 2.0, "scheduled_s": 5.0, "token_s": [6.0], "returned_s": 6.0, "batch_id": 1},
    {"planned_s": 3.0, "token_s": [], "returned_s": None, "received_s": None, "status": "unfinished"},
)
BATCHES: tuple[dict[str, Any], ...] = (
    {"batch_id": 0, "size": 2, "trigger": "size", "launched_s": 1.0, "ended_s": 4.0},
    {"batch_id": 1, "size": 1, "trigger": "flush", "launched_s": 5.0, "ended_s": 6.0},
    {"batch_id": 2, "size": 1, "trigger": "join", "launched_s": 6.0, "ended_s": 7.0},
    {
        "kind": "step",
        "batch_id": 0,
        "size": 2,
        "started_s": 1.0,
        "ended_s": 2.0,
        "kv_use": 0.5,
        "preemptions": 1,
    },
    {
        "kind": "step",
        "batch_id": 1,
        "size": 1,
        "started_s": 2.0,
        "ended_s": 4.0,
        "kv_use": 0.25,
        "preemptions": 2,
    },
)
END_S = 8.0


@pytest.fixture
def store(made_sweep: ModuleType, tmp_path: Path) -> Store:
    store = Store(tmp_path / "sweep")
    store.write_sweep({"name": "by hand", "planned_cells": 1})
    attempt = store.begin_attempt("cell-000")
    rows = [made_sweep.request_row(**one, index=i, prompt_tokens=10 + i) for i, one in enumerate(REQUESTS)]
    attempt.write_requests(rows)
    attempt.write_batches([made_sweep.batch_row(**one) for one in BATCHES])
    attempt.finish(made_sweep.make_trial(rows, measured_s=END_S, cut_off=True))
    return store


@pytest.fixture
def findings(store: Store) -> Findings:
    return find(store)


@pytest.fixture
def rows(store: Store, findings: Findings) -> TrialRows:
    (one,) = each(timelines.chosen_of(series_of(findings)), lambda _: store)
    return one


def unpack(block: Block) -> dict[str, list[int]]:
    """Read a block as scripts/packed.js does."""
    described = json.loads(block.about)
    octets = zlib.decompress(base64.b64decode(block.text))
    found, start = {}, 0
    for one in described["columns"]:
        size = one["length"] * one["bytes"]
        planes = np.frombuffer(octets[start : start + size], np.uint8).reshape(one["bytes"], one["length"])
        shifts = 8 * np.arange(one["bytes"], dtype=np.uint32)[:, None]
        values = (planes.astype(np.uint32) << shifts).sum(axis=0, dtype=np.uint32)
        found[one["name"]] = (np.cumsum(values, dtype=np.uint32) if one["delta"] else values).tolist()
        start += size
    assert start == len(octets)
    return found


def test_a_request_waits_runs_and_is_held_one_after_the_other(rows: TrialRows) -> None:
    stays = rows.stays()
    assert [list(edge) for edge in stays["waiting"]] == [[0, 1, 2, 3], [1, 1, 5, END_S]]
    assert [list(edge) for edge in stays["running"]] == [[1, 1, 5, END_S], [3, 4, 6, END_S]]
    assert [list(edge) for edge in stays["held"]] == [[3, 4, 6, END_S], [4, 4, 6, END_S]]


def test_counts_begin_with_a_stay_and_stop_at_its_end(rows: TrialRows) -> None:
    at_s = np.array([0.0, 0.5, 1.0, 2.5, 3.5, 5.5, END_S])
    assert count_at(rows.stays()["waiting"], at_s).tolist() == [1, 1, 0, 1, 2, 1, 0]
    assert count_at(rows.stays()["running"], at_s).tolist() == [0, 0, 2, 2, 1, 1, 0]
    assert count_at(rows.stays()["held"], at_s).tolist() == [0, 0, 0, 0, 1, 0, 0]
    assert [most_at_once(rows.stays()[place]) for place in ("waiting", "running", "held")] == [2, 2, 1]


def test_a_timeline_has_the_greatest_of_every_moment_and_what_steps_tell(rows: TrialRows) -> None:
    one = timeline.timeline(rows)
    assert (one.sampled, one.at_s[0], one.at_s[-1], len(one.at_s)) == (False, 0.0, END_S, timeline.MOMENTS)
    assert one.greatest["waiting"] == 2
    assert one.mean_waiting == (1 + 0 + 3 + 5) / END_S
    kv_use = dict(zip(one.at_s.round(3), one.values["kv_use"], strict=True))
    assert {kv_use[t] for t in kv_use if t < 2} == {0.0}
    assert {kv_use[t] for t in kv_use if 2 <= t < 4} == {0.5}
    assert {kv_use[t] for t in kv_use if t >= 4} == {0.25}
    assert one.values["preemptions"][-1] == one.greatest["preemptions"] == 3
    assert np.isnan(one.values["device"]).all()
    running = dict(zip(one.at_s.round(3), one.values["running"], strict=True))
    assert {running[t] for t in running if 1.1 < t < 2} == {2}
    assert {running[t] for t in running if 2.1 < t < 4} == {1}, "of two whose stamps overlap the step had one"
    assert {running[t] for t in running if 5.1 < t < 6} == {1}, "by the stamps where no step is told"
    assert one.greatest["running"] == 2
    waiting = one.values["waiting"]
    assert np.flatnonzero(np.isnan(waiting)).tolist() == [timeline.MOMENTS - 1], (
        "cut off: its line ends, not at 0"
    )
    assert waiting[-2] == 1


def test_samples_are_drawn_where_there_are_any(made_sweep: ModuleType, tmp_path: Path) -> None:
    store = Store(tmp_path / "sampled")
    store.write_sweep({"name": "sampled", "planned_cells": 1})
    attempt = store.begin_attempt("cell-000")
    rows = [made_sweep.request_row(planned_s=0.0, scheduled_s=0.5, token_s=[2.0])]
    attempt.write_requests(rows)
    seen = [
        {"at_s": float(t), "sent": 1, "ended": 0, "waiting": 5 - t, "running": t, "tokens": 0}
        | {"replica_cpu_s": 1.5 * t, "client_cpu_s": 0.0, "device_utilisation": 0.5}
        for t in range(3)
    ]
    attempt.write_samples(
        [{**made_sweep.cell_settings(), "cell_id": "cell-000", "attempt": 1, **s} for s in seen]
    )
    attempt.finish(made_sweep.make_trial(rows))
    (read,) = each(timelines.chosen_of(series_of(find(store))), lambda _: store)
    one = timeline.timeline(read)
    assert one.sampled
    assert one.at_s.tolist() == [0, 1, 2]
    assert one.values["waiting"].tolist() == [5, 4, 3]
    assert one.values["running"].tolist() == [0, 1, 0], (
        "without what its batch holds, which the replica counts too"
    )
    assert one.values["cpu"][1:].tolist() == [1.5, 1.5]
    assert one.greatest["device"] == 0.5
    assert one.greatest["waiting"] == 1  # of the stamps, over every moment
    early = replace(one, at_s=one.at_s - 0.002)  # the first sample's clock is the replica's
    assert unpack(timelines._packed([early], ["waiting"]))["at_ms"] == [0, 998, 1998]


def test_the_packed_timeline_reads_back(store: Store, findings: Findings) -> None:
    made, (block,) = timelines.panel(findings, lambda _: store)
    assert isinstance(made, Panel)
    assert made.live is not None
    columns = unpack(block)
    assert columns["at_ms"][-1] == 1000 * END_S
    one = timeline.timeline(next(each(timelines.chosen_of(series_of(findings)), lambda _: store)))
    waiting = np.array([code - 1 if code else np.nan for code in columns["waiting"]])
    assert np.array_equal(waiting, one.values["waiting"], equal_nan=True)
    assert {code - 1 for code in columns["kv_use"]} == {0, 500, 250}
    assert set(made.live["quantities"]) == {"waiting", "running", "held", "kv_use", "preemptions"}


def test_requests_are_packed_to_a_tenth_of_a_millisecond(rows: TrialRows) -> None:
    packed = {name: values.tolist() for name, values in trial_block.packed_requests(rows).items()}
    second = 10_000
    assert packed["planned"] == [0, second, 2 * second, 3 * second]
    assert packed["wait"] == [second + 1, 1, 3 * second + 1, 0]
    assert packed["prefill"] == [second + 1, second + 1, second + 1, 0]
    assert packed["decode"] == [second + 1, 2 * second + 1, 1, 0]
    assert packed["stay"] == [4 * second, 3 * second, 4 * second, 5 * second]
    assert [state % 4 for state in packed["state"]] == [0, 0, 0, trial_block.STATES.index("unfinished")]
    assert packed["batch"] == [1, 1, 2, 0]
    assert packed["prompt"] == [10, 11, 12, 13]
    assert packed["output"] == [2, 2, 1, 0]
    batches = {name: values.tolist() for name, values in trial_block.packed_batches(rows).items()}
    assert batches["launched"] == [second, 5 * second]
    assert batches["lasted"] == [3 * second, second]
    assert batches["size"] == [2, 1]


def test_a_trial_up_close_says_the_means_of_what_finished(store: Store, findings: Findings) -> None:
    (bars, *_), (block,) = closeup.panels(findings, lambda _: store)
    assert isinstance(bars, Panel)
    (trial,) = json.loads(block.about)["about"]["trials"]
    assert trial["heading"] == (
        "naive · 8 on huggingface, 1 req/s, repeat 1: on average each of the 3 of 4 requests that finished waits "
        "1.33 s, runs 2 s and is held 333 ms"
    )
    assert (trial["requests"], trial["batches"]) == (4, 2)
    assert unpack(block)["planned"] == [0, 10_000, 20_000, 30_000]


def test_trials_of_three_rates_are_taken_a_setting_of_each_strategy_first(
    made_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = series_of(find(made_store))
    monkeypatch.setattr(closeup, "MOST_TRIALS", 16)
    chosen = closeup.chosen_of(series)
    assert len(chosen) == 16
    assert {summary.trial.repeat for _, summary in chosen} == {0}
    assert list(dict.fromkeys(summary.trial.rate for _, summary in chosen)) == [5.0, 30.0, 1.0]
    for rate in (1.0, 5.0, 30.0):
        taken = {(one.strategy, one.place) for one, summary in chosen if summary.trial.rate == rate}
        assert taken == {(one.strategy, one.place) for one in series}


def test_the_first_requests_of_a_long_trial_are_packed_and_that_is_said(
    made_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_block, "MOST_REQUESTS", 100)
    (bars, *_), (block,) = closeup.panels(find(made_store), lambda _: made_store)
    assert isinstance(bars, Panel)
    trials = json.loads(block.about)["about"]["trials"]
    assert {(trial["requests"], trial["planned"]) for trial in trials} == {(100, 210)}
    assert f"Of {len(trials)} trials with more requests the first 100 are shown." in bars.notes[-1]


def test_without_a_trial_nothing_is_drawn_and_that_is_said(tmp_path: Path) -> None:
    store = Store(tmp_path / "empty")
    store.write_sweep({"name": "begun", "planned_cells": 12})
    drawn, blocks = closeup.panels(find(store), lambda _: store)
    over_time, more = timelines.panel(find(store), lambda _: store)
    assert [type(one) for one in (*drawn, over_time)] == [Absent] * 4
    assert (blocks, more) == ((), ())
