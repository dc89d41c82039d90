"""Service levels that the page suggests where the config has none, and what its answer says of empty cells."""

from dataclasses import replace
from pathlib import Path

from results.findings import CellSummary, Findings
from results.report import slo
from results.report.answer import answer
from results.report.panel import Panel
from results.report.series import series_of
from results.report.suggested_slos import suggested
from results.report.within import largest_within
from results.store import Store
from results.summary import find


def test_each_is_kept_by_some_and_tells_settings_apart(
    findings: Findings, made_store: Store, tmp_path: Path
) -> None:
    """Counted from the store, as if they had been configured."""
    slos = suggested(series_of(findings))
    assert slos
    (tmp_path / "cells").symlink_to(Path(made_store.root) / "cells")
    store = Store(tmp_path)
    sweep = {key: value for key, value in findings.sweep.items() if key != "schema_version"}
    store.write_sweep({**sweep, "config": {"slo": [one.limits for one in slos]}})
    found = series_of(find(store))
    kept = [tuple(largest_within(one, slo) for one in found) for slo in slos]
    assert all(len(set(rates)) >= 3 for rates in kept), "rates up to which settings keep it, and none"
    assert len(set(kept)) == len(kept)


def test_nothing_is_suggested_where_nobody_keeps_anything(findings: Findings) -> None:
    def refused(cell: CellSummary) -> CellSummary:
        trials = [
            replace(one, served=one.served and replace(one.served, offered=10**6)) for one in cell.trials
        ]
        return replace(cell, trials=tuple(trials))

    cells = tuple(map(refused, findings.cells))
    assert suggested(series_of(replace(findings, cells=cells))) == ()


def test_an_empty_cell_of_the_answer_says_why(findings: Findings) -> None:
    highest = tuple(cell for cell in findings.cells if cell.rate == 30)
    tails = {one.series.setting: one.tail for one in answer(replace(findings, cells=highest)).scores}
    assert tails["naive · 8"] == "overloaded at each rate tried"
    assert tails["continuous · 8"].endswith(" at 30 req/s")


def test_where_batches_are_gated_is_said_beside_the_settings(findings: Findings) -> None:
    (said,) = answer(findings).gated
    assert said.startswith(
        "On vllm static batches are gated, not lockstep: the next waits until all of one are done"
    )
    alone = replace(findings, cells=tuple(one for one in findings.cells if one.strategy == "continuous"))
    assert answer(alone).gated == ()


def test_the_figure_of_goodput_says_why_it_may_exceed_throughput(findings: Findings) -> None:
    series = series_of(findings)
    made, _ = slo.panel(findings, series)
    assert isinstance(made, Panel)
    assert any("goodput may be a little more than throughput" in note for note in made.notes)
