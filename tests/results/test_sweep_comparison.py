"""Which cells and repeats of two sweeps are compared, and what is said of predictions."""

from dataclasses import replace

import pytest

from results.comparisons import THROUGHPUT
from results.findings import CellSummary, Findings, TrialSummary, Verdict
from results.records import VIRTUAL
from results.report.comparison import render
from results.sweep_changes import Comparison
from results.sweep_comparison import METRICS, compare
from tests.plotly_texts import texts_of_page
from tests.results.made_sweep import KNOBS, make_trial
from tests.results.table_texts import numbers_as_text

KNOBS_OF = {knobs["setting"]: knobs for knobs in KNOBS}


def cell(
    rate: float = 1.0,
    *,
    values: tuple[float | None, ...] = (1.0, 1.0, 1.0),
    setting: str = "naive · 8",
    virtual: bool = False,
    seed: int = 0,
    requests: int = 60,
    verdicts: tuple[Verdict, ...] = (),
) -> CellSummary:
    """A cell on vllm with every metric at one value a repeat."""
    device = VIRTUAL if virtual else "cpu"
    backend = "simulated vllm" if virtual else "vllm"
    knobs = KNOBS_OF[setting]
    row = {
        "cell_id": "cell",
        "attempt": 1,
        "backend": backend,
        "model": "tiny",
        "device": device,
        "rate": rate,
        "seed": seed,
        "planned_s": 0.0,
        "last_token_s": 1.0,
        **{key: knobs[key] for key in ("strategy", "setting")},
    }
    trials = tuple(
        TrialSummary(
            trial=make_trial([{**row, "repeat": repeat}] * 2, knobs=knobs).model_copy(
                update={
                    "planned_requests": requests,
                    "repeat": repeat,
                    "seed": seed,
                    "device": device,
                    "rate": rate,
                }
            ),
            metrics=dict.fromkeys(METRICS, value),
            verdicts=verdicts,
            triggers={},
            batch_sizes={},
        )
        for repeat, value in enumerate(values)
    )
    return CellSummary(
        strategy=knobs["strategy"],
        setting=setting,
        backend=backend,
        model="tiny",
        device=device,
        rate=rate,
        trials=trials,
    )


def findings(*cells: CellSummary, config: object = None) -> Findings:
    sweep = {"name": "made", "config": config} | ({"simulated": {}} if cells[0].device == VIRTUAL else {})
    trials = tuple(trial for one in cells for trial in one.trials)
    return Findings(
        sweep=sweep,
        trials=trials,
        cells=cells,
        changes=(),
        splits=(),
        sentences=(),
        knees={},
        failures=(),
        planned_cells=0,
    )


def one(found: Comparison, metric: str = "ttft_s_p50"):
    (compared,) = found.cells
    return compared.changes[metric]


OVER = (Verdict(name="overloaded", detail="it is"),)


def test_repeats_of_the_same_requests_are_paired():
    change = one(
        compare(findings(cell(values=(1, 2, 4))), findings(cell(values=(1.1, 2.2, 4.4))), ("a", "b"))
    )
    assert (change.pairs, change.ratio) == (3, pytest.approx(1.1))
    assert (change.low, change.high) == (pytest.approx(1.1), pytest.approx(1.1))
    assert (change.a, change.b) == (pytest.approx(2), pytest.approx(2.2))


@pytest.mark.parametrize("other", [{"seed": 1}, {"requests": 61}])
def test_other_requests_are_not_paired_and_give_a_ratio_of_means(other: dict):
    found = compare(findings(cell(values=(1, 2, 3))), findings(cell(values=(4, 4, 4), **other)), ("a", "b"))
    change = one(found)
    assert (change.pairs, change.ratio, change.low) == (0, pytest.approx(2), None)
    assert "no repeat was sent the same requests" in found.notes[0]


def test_a_prediction_is_set_against_what_was_measured_whatever_comes_first():
    real, made = findings(cell(values=(2, 2, 2))), findings(cell(values=(3, 3, 3), virtual=True))
    for sides, names in (((real, made), ("real", "made")), ((made, real), ("made", "real"))):
        found = compare(*sides, names)
        assert (found.a, found.b, found.prediction) == ("real", "made", True)
        assert one(found).ratio == pytest.approx(1.5)
    (error,) = (error for error in found.errors() if error.metric == "e2e_s_p99")
    assert (error.median, error.worst, error.cells) == (pytest.approx(0.5), pytest.approx(0.5), 1)
    assert error.worst_cell == "naive · 8 on vllm at 1 req/s"


def test_two_simulated_sweeps_are_said_to_be_simulated():
    made, again = (findings(cell(values=(value,) * 3, virtual=True)) for value in (2, 3))
    found = compare(made, again, ("made", "again"))
    assert (found.prediction, found.simulated) == (False, ("made", "again"))
    assert any("both sweeps are simulated" in note for note in found.notes)
    assert "<strong>Simulated.</strong> Both sweeps ran in virtual time" in render(found)
    measured = compare(findings(cell()), findings(cell()), ("a", "b"))
    assert measured.simulated == ()
    assert "virtual time" not in render(measured)
    assert numbers_as_text(render(found)) == []


def test_markup_in_names_is_shown_and_not_read_by_plotly():
    evil = '<script>alert("no")</script>'
    one = replace(cell(), setting=evil)
    html = render(compare(findings(one), findings(one), (evil, "b")))
    drawn = texts_of_page(html)
    assert not any("<script" in text for text in drawn)
    assert any("&lt;script" in text for text in drawn)
    assert html.count(evil) == 0


def test_the_worst_error_of_a_strategy_keeps_its_sign_and_its_cell():
    real = findings(*(cell(rate, values=(2, 2, 2)) for rate in (1.0, 2.0, 3.0)))
    made = findings(
        *(cell(rate, values=(v,) * 3, virtual=True) for rate, v in ((1.0, 2.2), (2.0, 1.0), (3.0, 2.4)))
    )
    (error,) = (error for error in compare(real, made, ("a", "b")).errors() if error.metric == "ttft_s_p50")
    assert error.median == pytest.approx(0.2)
    assert (error.worst, error.worst_cell) == (pytest.approx(-0.5), "naive · 8 on vllm at 2 req/s")


def test_automatic_rates_that_differ_are_matched_by_their_place():
    config = {"arrival_rate": "auto"}
    a = findings(cell(1.0), cell(2.0), config=config)
    b = findings(cell(1.1), cell(2.3), config=config)
    found = compare(a, b, ("a", "b"))
    assert [(one.rate_a, one.rate_b) for one in found.cells] == [(1.0, 1.1), (2.0, 2.3)]
    assert {change.pairs for one in found.cells for change in one.changes.values()} == {0}
    assert "by their place: 1 and 1.1, 2 and 2.3 req/s" in found.notes[0]
    assert len(compare(a, findings(cell(2.0)), ("a", "b")).only_a) == 1


def test_more_throughput_is_better_and_more_latency_worse():
    found = compare(findings(cell(values=(1, 1, 1))), findings(cell(values=(1.2, 1.2, 1.2))), ("a", "b"))
    worse = {one.metric for one in found.worse(0.1)}
    assert worse == set(METRICS) - {THROUGHPUT}
    found = compare(findings(cell(values=(1, 1, 1))), findings(cell(values=(0.8, 0.8, 0.8))), ("a", "b"))
    assert [one.metric for one in found.worse(0.1)] == [THROUGHPUT]


def test_an_interval_that_reaches_what_is_allowed_is_not_worse():
    found = compare(findings(cell(values=(1, 1, 1))), findings(cell(values=(1.0, 1.2, 1.4))), ("a", "b"))
    assert found.worse(0.05) == []
    assert found.untold(0.05) == []


def test_a_cell_that_is_overloaded_and_was_not_is_worse_and_its_latency_says_nothing():
    found = compare(findings(cell()), findings(cell(values=(9, 9, 9), verdicts=OVER)), ("a", "b"))
    assert [(one.metric, one.by) for one in found.worse(0.05)] == [("stopped", None)]
    assert one(found).censored
    assert not one(found, THROUGHPUT).censored
    both = compare(findings(cell(verdicts=OVER)), findings(cell(values=(9, 9, 9), verdicts=OVER)), ("a", "b"))
    assert both.worse(0.05) == []
    assert {error.metric for error in both.errors()} == {THROUGHPUT}


def test_a_cell_that_fails_requests_and_did_not_is_worse_and_a_note_says_what_latency_is_of():
    failing = (Verdict(name="failures", detail="3 of 60"),)
    found = compare(findings(cell()), findings(cell(verdicts=failing)), ("a", "b"))
    assert [(one.metric, one.by) for one in found.worse(0.05)] == [("failures", None)]
    assert any("requests failed: latency is of those that were served" in note for note in found.notes)
    assert (
        compare(findings(cell(verdicts=failing)), findings(cell(verdicts=failing)), ("a", "b")).worse(0.05)
        == []
    )


def test_goodput_is_compared_where_both_have_it():
    def with_goodput(found: Findings) -> Findings:
        def extended(trial: TrialSummary) -> TrialSummary:
            return replace(trial, metrics={**trial.metrics, "goodput_requests_per_s@ttft_ms=500": 2.0})

        cells = tuple(replace(one, trials=tuple(map(extended, one.trials))) for one in found.cells)
        return replace(found, cells=cells, trials=tuple(map(extended, found.trials)))

    assert (
        "goodput_requests_per_s@ttft_ms=500"
        in compare(with_goodput(findings(cell())), with_goodput(findings(cell())), ("a", "b")).metrics
    )
    assert compare(with_goodput(findings(cell())), findings(cell()), ("a", "b")).metrics == METRICS
