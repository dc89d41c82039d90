"""The CSV of every figure, as Chromium saves it: numbers as the store has them, their units in one header row."""

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from results.findings import CellSummary, Findings
from results.metrics import column
from results.report import several
from results.report.frame import write
from results.report.page import render_all
from results.report.series import series_of
from results.store import Store

pytest.importorskip("selenium", reason="needs selenium")
from tests.chromium import DEADLINE_S, show

pytestmark = pytest.mark.browser
Rows = list[dict[str, str]]
TEXTS = {"strategy", "backend", "state", "metric", "base", "other", "from", "to", "a side censored"}
TEXTS |= {"on the front of", "latency", "phase", "status"}
PANELS = (
    *("throughput", "latency", "goodput", "tradeoff", "changes", "knobs", "pareto"),
    *("splits", "batches", "timelines", "closeup", "distributions", "slots"),
)


# What a click saves, without the browser's own limit of ten files from one page.
SAVED = """
const done = arguments[0], saved = {}, blobs = new Map(), make = URL.createObjectURL;
URL.createObjectURL = (blob) => { const url = make(blob); blobs.set(url, blob); return url; };
HTMLAnchorElement.prototype.click = function () { saved[this.download] = blobs.get(this.href); };
const buttons = [...document.querySelectorAll('[data-download=csv]')];
buttons.forEach((one) => one.click());
const wait = async () => {
  while (Object.keys(saved).length < buttons.length) await new Promise((go) => setTimeout(go, 20));
  done(await Promise.all(Object.entries(saved).map(async ([name, blob]) => [name, await blob.text()])));
};
wait();
"""


@pytest.fixture(scope="module")
def saved(browser: Any, page: Path) -> dict[str, Rows]:
    """The rows of every figure's CSV, by its panel."""
    return saved_of(browser, page)


def saved_of(browser: Any, page: Path) -> dict[str, Rows]:
    browser.set_script_timeout(DEADLINE_S)
    show(browser, page)
    return {
        next(part for part in name.removesuffix(".csv").split("-") if part in PANELS): list(rows(text))
        for name, text in browser.execute_async_script(SAVED)
    }


def rows(text: str) -> Iterator[dict[str, str]]:
    header, *lines = csv.reader(io.StringIO(text, newline=""))
    assert len(set(header)) == len(header), header
    for line in lines:
        yield dict(zip(header, line, strict=True))


def cell_of(findings: Findings, row: dict[str, str]) -> CellSummary:
    """The cell that a row is about."""
    (one,) = [s for s in series_of(findings) if (s.setting, s.place) == (row["strategy"], row["backend"])]
    found = one.at(float(row["rate (req/s)"]))
    assert found is not None
    return found


def test_every_figure_has_one_with_numbers_alone_in_its_columns_of_numbers(saved: dict[str, Rows]) -> None:
    assert set(saved) == set(PANELS)
    for panel, lines in saved.items():
        assert lines, panel
        for line in lines:
            for name, value in line.items():
                if name not in TEXTS and value:
                    float(value)  # ValueError: a unit, a sign of thousands or a dash is no number


@pytest.mark.parametrize(
    ("panel", "columns"),
    [
        (
            "latency",
            {"p50 TTFT (s)": "ttft_s_p50", "p95 TTFT (s)": "ttft_s_p95", "p99 E2E latency (s)": "e2e_s_p99"},
        ),
        ("throughput", {"throughput (tokens/s)": "steady_throughput_tokens_per_s"}),
        (
            "tradeoff",
            {"throughput (tokens/s)": "steady_throughput_tokens_per_s", "p90 TPOT (s)": "tpot_s_p90"},
        ),
        ("knobs", {"p99 TTFT (s)": "ttft_s_p99", "lockstep waste (ratio)": "lockstep_waste"}),
        ("pareto", {"tokens/s": "steady_throughput_tokens_per_s", "p99 TTFT (s)": "ttft_s_p99"}),
        ("batches", {"lockstep waste (ratio)": "lockstep_waste"}),
    ],
)
def test_the_numbers_of_cells_are_the_stores(
    panel: str, columns: dict[str, str], saved: dict[str, Rows], findings: Findings
) -> None:
    for row in saved[panel]:
        cell = cell_of(findings, row)
        for heading, name in columns.items():
            expected = cell.mean(name)
            assert row[heading] == ("" if expected is None else repr(expected)), (heading, row)


def test_the_changes_and_the_splits_are_those_found(saved: dict[str, Rows], findings: Findings) -> None:
    found = [repr(one) for change in findings.changes for one in (change.ratio, change.low, change.high)]
    assert [
        row[name] for row in saved["changes"] for name in ("ratio", "low (ratio)", "high (ratio)")
    ] == found
    parts = [(one.total.ratio, one.policy.high, one.engine.low) for one in findings.splits]
    names = ("total (ratio)", "policy, high (ratio)", "engine, low (ratio)")
    assert [tuple(float(row[name]) for name in names) for row in saved["splits"]] == parts


def test_the_rows_of_requests_and_the_curves_are_those_drawn_of_the_stores(
    saved: dict[str, Rows], findings: Findings, made_store: Store
) -> None:
    """Times are kept to 0.1 ms."""
    row = saved["slots"][0]
    trial = cell_of(findings, row).trials[0]
    stored = made_store.requests({trial.trial.cell_id}).sort_by("planned_s")
    same = [
        one
        for one in saved["slots"]
        if one["strategy"] == row["strategy"] and one["backend"] == row["backend"]
    ]
    for phase, names in (
        ("prefill", ("scheduled_s", "first_token_s")),
        ("decode", ("first_token_s", "last_token_s")),
    ):
        drawn = {int(one["request"]): one for one in same if one["phase"] == phase}
        for end, name in zip(("begin (s)", "end (s)"), names, strict=True):
            expected = [column(stored, name)[at] for at in drawn]
            assert [float(one[end]) for one in drawn.values()] == pytest.approx(expected, abs=1.1e-4)
    curve = saved["distributions"][0]
    cell = cell_of(findings, curve)
    stored = made_store.requests({cell.trials[0].trial.cell_id})
    ttft_s = column(stored, "first_token_s") - column(stored, "planned_s")
    kept = column(stored, "planned_s") >= (cell.trials[0].metrics["steady_start_s"] or 0.0)
    points = [
        float(one["took no longer than (s)"])
        for one in saved["distributions"]
        if [one[name] for name in ("strategy", "backend", "latency")]
        == [curve["strategy"], curve["backend"], "TTFT"]
    ]
    assert points == pytest.approx(sorted(ttft_s[kept]), abs=2.1e-4)
    at = [row for row in saved["timelines"] if row["repeat"] == "1"]
    assert len(at) == len(saved["timelines"])
    assert {"time (s)", "requests waiting"} <= set(at[0])


def test_rows_of_several_sweeps_begin_with_their_sweep(
    browser: Any, findings: Findings, made_store: Store, tmp_path: Path
) -> None:
    """And their lines differ."""
    one_rate = replace(findings, cells=tuple(cell for cell in findings.cells if cell.rate == 5))
    sweeps = several.shown([("one", one_rate, made_store), ("two", one_rate, made_store)])
    write(render_all(sweeps), tmp_path / "two.html")
    found = saved_of(browser, tmp_path / "two.html")
    for panel in ("latency", "goodput", "changes", "timelines", "closeup", "distributions", "slots"):
        assert next(iter(found[panel][0])) == "sweep", panel
        assert {row["sweep"] for row in found[panel]} == (
            {"one"} if panel == "closeup" else {"one", "two"}
        ), panel
    drawn = browser.execute_script(
        "return document.querySelector('#latency [data-chart]').data.map(t => [t.name, t.line.color + t.line.dash + t.marker.symbol])"
    )
    assert all(name.endswith((" · one", " · two")) for name, _ in drawn)
    assert len({look for _, look in drawn}) == len(drawn)
