"""A heading is about what is drawn: the metric that is chosen, the base that is compared with, the figure that it stands over."""

import math
from dataclasses import replace

import pytest

from results.comparisons import THROUGHPUT
from results.findings import Change, Findings
from results.report import batches, changes, curves, decisive, glossary, headlines, tradeoff
from results.report.panel import Absent, Panel
from results.report.series import Series, series_of

CONTINUOUS, NAIVE = "continuous · 8 on vllm", "naive · 8 on vllm"


def panel(made: Panel | Absent) -> Panel:
    assert isinstance(made, Panel)
    return made


def test_throughput_alone_has_the_finding_of_throughput_and_all_else_its_own_name(findings: Findings) -> None:
    views = panel(curves.throughput(findings)).views
    assert views[THROUGHPUT].heading == headlines.throughput(findings)
    others = {key: view.heading for key, view in views.items() if key != THROUGHPUT}
    assert len(others) > 2
    for key, heading in others.items():
        assert heading == f"{headlines.capital(glossary.label(key))} against arrival rate"


def test_latency_against_throughput_says_which_latency(findings: Findings) -> None:
    views = panel(tradeoff.panel(findings)).views
    assert views["e2e_s|p99"].heading.startswith(
        "P99 E2E latency against throughput: the most tokens/s on vllm: "
    )
    assert len({view.heading for view in views.values()}) == len(views)


def view_of(made: Panel, base: str, statistic: str = "p50") -> tuple[str, list[str]]:
    """The heading of the view with this base, and those of its figures."""
    (value,) = [choice.value for choice in made.controls[0].choices if choice.label == base]
    view = made.views[f"{value}|{statistic}"]
    return view.heading, [chart.heading for chart in view.charts]


def seen_from(base: Series, findings: Findings, metric: str, rate: float) -> list[Change]:
    """What is drawn of a metric at a rate: changes of strategy or of backend, shown to differ."""
    seen = [
        one if one.base == base.key else decisive.flipped(one)
        for one in findings.changes
        if base.key in (one.base, one.other) and (one.metric, one.rate) == (metric, rate) and one.shown
    ]
    return [one for one in seen if {*one.base.split(" / ")} & {*one.other.split(" / ")}]


def test_the_changes_speak_of_the_chosen_base_and_of_the_largest_that_is_shown(findings: Findings) -> None:
    made, by_key = panel(changes.panel(findings)), {one.key: one for one in series_of(findings)}
    places = set()
    for base in by_key.values():
        heading, figures = view_of(made, base.name)
        found = max(seen_from(base, findings, THROUGHPUT, 30.0), key=lambda one: abs(math.log(one.ratio)))
        other = by_key[found.other]
        same = other.place == base.place
        named = (other.setting, base.setting) if same else (other.name, base.name)
        start = f"{headlines.capital(named[0])} makes {headlines.times(found)} the tokens/s of {named[1]} at 30 req/s"
        assert figures[0] == start + (f" on {base.place}" if same else "")
        assert heading == figures[0]
        places.add(same)
    assert places == {True, False}, "of a strategy in one view, of a backend in another"


def test_each_figure_of_the_changes_states_its_own_metric_and_names_the_base(findings: Findings) -> None:
    made = panel(changes.panel(findings))
    _, (_, ttft, e2e, delivered) = view_of(made, CONTINUOUS, "p99")
    for heading, name in ((ttft, "P99 TTFT"), (e2e, "P99 E2E latency"), (delivered, "P99 delivered")):
        assert heading.startswith(f"{name} of naive · 8 is ")
        assert heading.endswith(" that of continuous · 8 at 1 req/s on vllm")
    for choice in made.controls[0].choices:
        for chart in made.views[f"{choice.value}|p50"].charts:
            axis = chart.figure.layout.yaxis.title.text.replace("<br>", " ").replace("\u00a0", " ")
            assert axis == f"times {choice.label}"


def test_without_a_difference_the_base_is_still_named(findings: Findings) -> None:
    alike = tuple(replace(one, ratio=1.2, low=0.9, high=1.6) for one in findings.changes)
    heading, figures = view_of(panel(changes.panel(replace(findings, changes=alike))), CONTINUOUS)
    assert heading == f"Each setting compared with {CONTINUOUS}: no difference shown"
    assert figures[1] == f"No difference in p50 TTFT from {CONTINUOUS} shown at 1 req/s"


def test_the_answer_of_a_search_is_no_heading_of_changes(
    findings: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headlines.largest_rate, "headline", lambda _: "up to 4 req/s")
    assert panel(changes.panel(findings)).first.heading == headlines.throughput(findings)


@pytest.mark.parametrize("make", [changes.panel, batches.panel])
def test_where_a_panel_has_several_figures_each_has_a_heading_of_its_own(make, findings: Findings) -> None:  # type: ignore[no-untyped-def]
    for view in panel(make(findings)).views.values():
        headings = [chart.heading for chart in view.charts]
        assert len(headings) > 1
        assert all(headings)
        assert len(set(headings)) == len(headings)
