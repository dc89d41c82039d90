"""Several sweeps on one page: named apart, drawn apart, compared within themselves alone."""

from dataclasses import replace
from itertools import product
from typing import Any

from results.findings import Findings
from results.report import changes, several
from results.report.panel import Panel
from results.report.series import Series, series_of
from results.store import Store


def told(
    findings: Findings, *, simulated: bool = False, options: tuple[str, ...] = (), **update: Any
) -> Findings:
    """The findings of the same sweep elsewhere: the trials' device or model, and whether they are simulated."""
    trials = tuple(replace(one, trial=one.trial.model_copy(update=update)) for one in findings.trials)
    sweep = {**findings.sweep, **({"simulated": {"options": list(options)}} if simulated else {})}
    return replace(findings, trials=trials, sweep=sweep)


def names(*found: Findings) -> list[str]:
    return several.names_of([(f"folder-{place}", one) for place, one in enumerate(found)])


def test_sweeps_are_named_by_what_tells_them_apart(findings: Findings) -> None:
    h200, l4 = told(findings, device="NVIDIA H200"), told(findings, device="NVIDIA L4")
    assert names(h200, l4) == ["NVIDIA H200", "NVIDIA L4"]
    assert names(h200, told(findings, device="NVIDIA H200", simulated=True)) == ["measured", "simulated"]
    assert names(h200, l4, told(findings, simulated=True)) == ["NVIDIA H200", "NVIDIA L4", "simulated"]
    assert names(told(findings, model="small"), told(findings, model="large")) == ["small", "large"]
    assert names(
        told(findings, simulated=True, options=("--hardware", "H200")),
        told(findings, simulated=True, options=("--hardware", "L4")),
    ) == ["simulated H200", "simulated L4"]
    both = [told(findings, device=device, model=model) for device in ("a", "b") for model in ("x", "y")]
    assert names(*both) == ["a, x", "a, y", "b, x", "b, y"]
    assert names(findings, findings) == ["folder-0", "folder-1"]


def test_every_line_differs_and_no_comparison_leaves_its_sweep(findings: Findings, made_store: Store) -> None:
    shown = several.shown([("one", findings, made_store), ("two", findings, made_store)])
    both = several.together(shown)
    series = series_of(both)
    assert len(series) == 2 * len(series_of(findings))
    assert len({one.key for one in series}) == len({look(one) for one in series}) == len(series)
    for setting in {one.setting for one in series}:
        assert len({one.style.colour for one in series if one.setting == setting}) == 1
    sweep_of = {one.key: one.sweep for one in series}
    assert {sweep_of[one.base] for one in both.changes} == {"one", "two"}
    assert all(sweep_of[one.base] == sweep_of[one.other] for one in both.changes)
    assert all(sweep_of[one.base] == sweep_of[one.other] for one in both.sentences)
    assert set(both.knees) == set(sweep_of)
    assert both.planned_cells == 2 * findings.planned_cells


def test_the_changes_of_a_sweep_have_its_own_rates_alone(findings: Findings, made_store: Store) -> None:
    """Or each rate of another would be marked as not run, over the lines."""
    low, high = (
        replace(
            findings,
            cells=tuple(one for one in findings.cells if one.rate in rates),
            changes=tuple(one for one in findings.changes if one.rate in rates),
        )
        for rates in ((1.0, 5.0), (30.0,))
    )
    shown = several.shown([("low", low, made_store), ("high", high, made_store)])
    made = changes.panel(several.together(shown))
    assert isinstance(made, Panel)
    ticks = {
        tuple(chart.figure.layout.xaxis.tickvals) for view in made.views.values() for chart in view.charts
    }
    assert ticks == {(1.0, 5.0), (30.0,)}
    assert not any(chart.figure.layout.annotations for view in made.views.values() for chart in view.charts)


def test_a_sweep_alone_is_left_as_it_is(findings: Findings, made_store: Store) -> None:
    (shown,) = several.shown([("one", findings, made_store)])
    assert shown.name == ""
    assert several.together((shown,)) is findings


def test_many_settings_of_one_strategy_look_different(findings: Findings) -> None:
    cell = findings.cells[0]
    cells = tuple(replace(cell, strategy="dynamic", setting=f"dynamic · {n}") for n in range(18))
    assert len({look(one) for one in series_of(replace(findings, cells=cells))}) == 18
    assert len({one.style.colour for one in series_of(replace(findings, cells=cells[:6]))}) == 6


def test_shade_says_one_knob_and_marker_the_other(findings: Findings) -> None:
    """3 waits × 2 sizes of one strategy, on two backends."""
    first = findings.cells[0]
    trial = first.trials[0]
    cells = []
    for backend, size, wait in product(("huggingface", "vllm"), (8, 32), (20, 100, 500)):
        knobs = {"max_batch_size": size, "max_wait_ms": wait}
        summary = replace(trial, trial=trial.trial.model_copy(update={"knobs": knobs}))
        setting = f"dynamic · {size} · {wait} ms"
        cells.append(replace(first, strategy="dynamic", setting=setting, backend=backend, trials=(summary,)))
    series = series_of(replace(findings, cells=tuple(cells)))
    assert len({look(one) for one in series}) == 12
    knobs_of = {one.key: one.cells[0].trials[0].trial.knobs for one in series}
    for of, knob in (
        (lambda one: one.style.colour, "max_wait_ms"),
        (lambda one: one.style.symbol, "max_batch_size"),
    ):
        for a, b in product(series, series):
            assert (of(a) == of(b)) == (knobs_of[a.key][knob] == knobs_of[b.key][knob])


def look(one: Series) -> tuple[str, str, str]:
    return one.style.colour, one.style.dash, one.style.symbol
