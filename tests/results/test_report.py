"""The page: what it says and draws, compared with the findings it was made from."""

import base64
import json
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from results.comparisons import knees
from results.findings import Change, Findings, TrialSummary, Verdict, VerdictName
from results.records import Failure
from results.report import (
    axes,
    batches,
    changes,
    curves,
    decisive,
    headlines,
    numbers,
    points,
    slo,
    splits,
    theme,
    tradeoff,
)
from results.report.answer import answer
from results.report.glance import glance
from results.report.page import render, write_page
from results.report.panel import SEPARATOR, Absent, Panel, unbroken
from results.report.series import series_of
from results.report.setup import setup
from results.report.trust import trust
from results.store import Store
from results.summary import find
from tests.plotly_texts import texts_of_page

EVIL = '<script>alert("no")</script><b>&amp;'
COMPARED = "steady_throughput_tokens_per_s"
PANELS = (
    curves.throughput,
    curves.latency,
    tradeoff.panel,
    changes.panel,
    splits.panel,
    batches.panel,
)


class Page(HTMLParser):
    """The page as a browser would read it: elements with attributes, and the text outside scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).replace("\u00a0", " ").split())


@pytest.fixture(scope="module")
def html(findings: Findings, made_store: Store) -> str:
    return render(findings, made_store)


@pytest.fixture
def empty(tmp_path: Path) -> Store:
    store = Store(tmp_path / "empty")
    store.write_sweep({"name": "begun", "planned_cells": 12, "config": "name: begun\n"})
    return store


def panel(made: Panel | Absent) -> Panel:
    assert isinstance(made, Panel)
    return made


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def with_trials(findings: Findings, **update: Any) -> Findings:
    """Replace fields of every trial, and the same fields of cells where they have them."""
    trials = {id(one): replace(one, trial=one.trial.model_copy(update=update)) for one in findings.trials}
    cells = tuple(
        replace(
            cell,
            trials=tuple(trials[id(one)] for one in cell.trials),
            **{name: value for name, value in update.items() if name in ("setting", "backend", "model")},
        )
        for cell in findings.cells
    )
    return replace(findings, trials=tuple(trials.values()), cells=cells)


def test_the_page_says_every_sentence_policy_first(html: str, findings: Findings) -> None:
    text = Page(html).text
    assert findings.sentences
    for sentence in findings.sentences:
        assert " ".join(sentence.text.split()) in text
        assert unbroken(sentence.text) in unescape(html)  # no line ends between a number and its unit
    first = {
        kind: min(text.index(s.text) for s in findings.sentences if s.kind == kind)
        for kind in ("policy", "engine", "split")
    }
    assert first["policy"] < first["engine"] < first["split"]


def test_the_page_says_how_much_is_done_and_how_many_repeats(html: str) -> None:
    text = Page(html).text
    assert "63 of 63 planned cells done, 1 failed attempt" in text
    assert "Ratios on this page are no quotients of these" in text
    assert "3 repeats, intervals at 95 %" in text


def test_one_repeat_is_said_to_have_no_intervals(made_sweep: ModuleType, tmp_path: Path) -> None:
    store = made_sweep.make_sweep(tmp_path / "one", repeats=1, requests=40)
    page = render(find(store), store)
    assert "one repeat so far: no intervals" in Page(page).text
    assert "[nan" not in page
    view = panel(changes.panel(find(store))).first
    assert "no interval" in view.heading
    for panel_of in (changes.panel, curves.latency, curves.throughput):
        for trace in panel(panel_of(find(store))).first.charts[0].figure.data:
            assert not trace.error_y.visible
    for text in stated(find(store)):
        assert "No difference" not in text


def stated(found: Findings) -> list[str]:
    """All headings that the page can show."""
    views = [view for make in PANELS for view in panel(make(found)).views.values()]
    return [answer(found).headline, *(view.heading for view in views)]


def test_an_axis_of_rates_is_as_wide_as_the_rates_whatever_stands_at_them() -> None:
    """What is drawn beside a lone rate, to tell neighbours apart, would else fill the axis."""
    for rates in ([4.0], [4.0, 6.0], [1.0, 4.0, 20.0]):
        axis = axes.rate_axis(rates)
        low, high = axis["range"]
        if axis["type"] == "log":
            low, high = 10**low, 10**high
        assert low < rates[0] / 1.03
        assert high > rates[-1] * 1.03
        assert high - low > 0.2 * rates[-1]


def test_a_point_without_an_interval_has_no_bar_and_its_neighbour_keeps_its_own() -> None:
    bars = points.error_bars([None, 2.0], [None, 1.0], color="red")
    assert bars == {"array": [None, 2.0], "arrayminus": [None, 1.0], "visible": True, "color": "red"}


def test_trials_too_short_to_judge_are_drawn_with_a_dot_and_listed(
    made_sweep: ModuleType, tmp_path: Path
) -> None:
    store = made_sweep.make_sweep(tmp_path / "short", repeats=1, requests=40)
    short = find(store)
    for one, trace in zip(
        series_of(short), panel(curves.latency(short)).first.charts[0].figure.data, strict=True
    ):
        for cell, symbol in zip(one.cells, trace.marker.symbol, strict=True):
            assert symbol.endswith("-open-dot") == cell.trials[0].has("too-short")
    assert "too-short" in Page(render(short, store)).text


@pytest.mark.parametrize(
    ("verdicts", "knee"),
    [
        (("too-short", "too-short", "too-short"), "not judged"),
        (("too-short", "too-short", "overloaded"), "below 30, lower not judged"),
        ((None, "overloaded", "overloaded"), "1 to 5"),
        (("too-short", None, "overloaded"), "5 to 30"),
        ((None, None, "too-short"), "above 5, higher not judged"),
        ((None, None, None), "above 30"),
    ],
)
def test_the_knee_says_no_more_than_was_judged(
    findings: Findings, verdicts: tuple[VerdictName | None, ...], knee: str
) -> None:
    by_rate = dict(zip((1.0, 5.0, 30.0), verdicts, strict=True))
    cells = tuple(
        replace(
            cell,
            trials=tuple(
                replace(one, verdicts=(Verdict(name=name, detail="made"),) if name else ())
                for one in cell.trials
            ),
        )
        for cell in findings.cells
        for name in (by_rate[cell.rate],)
    )
    found = answer(replace(findings, cells=cells, knees=knees(cells)))
    assert {score.knee for score in found.scores} == {knee}


def test_nothing_is_loaded_from_outside_and_plotly_is_there_once(html: str) -> None:
    page = Page(html)
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert not {"src", "srcset", "action"} & set(attributes), (tag, attributes)
        assert (attributes.get("href") or "#").startswith("#"), (tag, attributes)
    policies = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies
    assert str(policies[0]).startswith("default-src 'none'")
    assert "http" not in str(policies[0])
    assert html.count("* plotly.js v") == 1
    assert "@import" not in html.split("<script", 1)[0]
    assert "url(" not in html.split("<script", 1)[0]


def test_strings_from_data_show_as_text(findings: Findings, made_store: Store) -> None:
    hostile = with_trials(findings, model=EVIL, setup={"cpu": EVIL})
    hostile = replace(
        hostile,
        cells=tuple(replace(c, setting=EVIL) if c.strategy == "naive" else c for c in hostile.cells),
        trials=(
            replace(hostile.trials[0], verdicts=(Verdict(name="failures", detail=EVIL),)),
            *hostile.trials[1:],
        ),
        sweep={"name": EVIL, "config": {"model": EVIL}},
        failures=(Failure(cell_id="x", attempt=1, cause=EVIL, error=EVIL, failed_at="now"),),
        sentences=tuple(replace(s, text=EVIL) for s in hostile.sentences),
    )
    html = render(hostile, made_store)
    page = Page(html)
    plain = Page(render(findings, made_store))
    assert len(page.scripts) == len(plain.scripts)
    assert [tag for tag, _ in page.elements].count("b") == 0
    assert EVIL in page.text
    assert "alert(" not in re.sub(r"<script.*?</script>|data-of='[^']*'", "", html, flags=re.DOTALL).replace(
        "&lt;script&gt;alert(", ""
    )
    drawn = texts_of_page(html)
    assert not any("<script" in text for text in drawn)
    assert any("&lt;script" in text for text in drawn)


def test_embedded_data_reads_back_as_the_panels(html: str, findings: Findings) -> None:
    packed = html.split('id="panels">')[1].split("</script>")[0]
    embedded = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert set(embedded) == {
        *("throughput", "latency", "tradeoff", "changes", "splits", "batches"),
        *("knobs", "pareto", "timelines", "goodput", "closeup", "distributions", "slots"),
    }
    assert embedded["latency"] == json.loads(json.dumps(panel(curves.latency(findings)).specification()))


@pytest.mark.parametrize("make", PANELS)
def test_every_position_of_the_controls_has_a_view_with_as_many_charts(make: Any, findings: Findings) -> None:
    made = panel(make(findings))
    keys = {
        SEPARATOR.join(values)
        for values in product(*([choice.value for choice in control.choices] for control in made.controls))
    }
    assert keys == set(made.views)
    assert {len(view.charts) for view in made.views.values()} == {len(made.first.charts)}
    assert all(chart.summary and chart.figure.data for view in made.views.values() for chart in view.charts)
    assert made.table.rows
    assert {len(row) for row in made.table.rows} == {len(made.table.columns)}


@pytest.mark.parametrize("make", PANELS)
def test_every_colour_in_a_figure_has_a_twin_for_dark(make: Any, findings: Findings) -> None:
    used = {
        text
        for text in strings(panel(make(findings)).specification())
        if re.fullmatch(r"#[0-9a-fA-F]{3,8}|rgba?\(.*\)", text)
    }
    assert used
    assert used <= set(theme.DARK)


def test_latency_points_are_the_cells_means_and_hollow_where_overloaded(findings: Findings) -> None:
    made = panel(curves.latency(findings))
    for metric, statistic in (
        ("ttft_s", "p50"),
        ("e2e_s", "p99"),
        ("queue_wait_s", "p99"),
        ("delivered_s", "p95"),
    ):
        traces = made.views[f"{metric}|{statistic}"].charts[0].figure.data
        for one, trace in zip(series_of(findings), traces, strict=True):
            assert list(trace.x) == [cell.rate for cell in one.cells]
            assert list(trace.y) == [cell.mean(f"{metric}_{statistic}") for cell in one.cells]
            assert [s.endswith("-open") for s in trace.marker.symbol] == [c.overloaded for c in one.cells]
    assert any(cell.overloaded for cell in findings.cells)


def test_throughput_is_shown_over_all_and_in_the_steady_window(findings: Findings) -> None:
    shown = [choice.value for choice in panel(curves.throughput(findings)).controls[0].choices]
    assert {"throughput_tokens_per_s", "steady_throughput_tokens_per_s"} <= set(shown)


def test_bars_span_the_repeats(findings: Findings) -> None:
    trace = panel(curves.latency(findings)).first.charts[0].figure.data[0]
    cell = series_of(findings)[0].cells[0]
    values = [trial.metrics["ttft_s_p50"] for trial in cell.trials]
    known = [value for value in values if value is not None]
    assert len(known) == 3
    assert trace.y[0] + trace.error_y.array[0] == pytest.approx(max(known))
    assert trace.y[0] - trace.error_y.arrayminus[0] == pytest.approx(min(known))


def test_the_reason_for_overload_and_the_drain_limit_are_in_the_hover_text(findings: Findings) -> None:
    one = next(s for s in series_of(findings) if any(cell.overloaded for cell in s.cells))
    cell = next(cell for cell in one.cells if cell.overloaded)
    text = points.hover(cell, one, "ttft_s_p50")
    detail = next(v.detail for v in cell.trials[0].verdicts if v.name == "overloaded")
    assert detail in text
    assert "drain limit" in text
    assert "drain limit" not in points.hover(cell, one, "throughput_tokens_per_s")


def test_a_percentile_with_fewer_than_ten_requests_beyond_it_is_faint(findings: Findings) -> None:
    made = panel(curves.latency(findings))
    cells = series_of(findings)[0].cells
    faint = {}
    for statistic, beyond in (("p50", 0.5), ("p90", 0.1), ("p99", 0.01)):
        opacities = made.views[f"ttft_s|{statistic}"].charts[0].figure.data[0].marker.opacity
        faint[statistic] = [opacity < 1 for opacity in opacities]
        counts = [cell.mean("ttft_s_count") or 0 for cell in cells]
        assert faint[statistic] == [count * beyond < 10 for count in counts]
        for cell, is_faint in zip(cells, faint[statistic], strict=True):
            text = points.hover(cell, series_of(findings)[0], f"ttft_s_{statistic}")
            assert (f"thin: fewer than 10 requests beyond {statistic}" in text) == is_faint
    assert not any(faint["p50"])  # of at most 210 requests
    assert all(faint["p99"])


def test_changes_are_those_found_seen_from_the_chosen_base(findings: Findings) -> None:
    made = panel(changes.panel(findings))
    bases = {one.name: one.key for one in series_of(findings)}
    checked = 0
    for choice in made.controls[0].choices:
        base = bases[choice.label]
        for chart, metric in zip(
            made.views[f"{choice.value}|p50"].charts,
            ("steady_throughput_tokens_per_s", "ttft_s_p50", "e2e_s_p50", "delivered_s_p50"),
            strict=True,
        ):
            expected: dict[str, list[float]] = {}
            for change in findings.changes:
                if change.metric == metric and base in (change.base, change.other):
                    other = change.other if change.base == base else change.base
                    ratio = change.ratio if change.base == base else 1 / change.ratio
                    expected.setdefault(other, []).append(ratio)
            for trace in chart.figure.data:
                assert sorted(trace.y) == pytest.approx(sorted(expected[trace.meta["series"]]))
                checked += len(trace.y)
            assert chart.figure.layout.yaxis.type == "log"
            assert [shape.y0 for shape in chart.figure.layout.shapes] == [1]
    assert checked > 100


def test_the_first_base_is_naive_where_most_strategies_ran(findings: Findings) -> None:
    assert panel(changes.panel(findings)).controls[0].choices[0].label == "naive · 8 on vllm"


def test_the_changes_open_on_the_pair_of_the_answer(findings: Findings) -> None:
    kept = tuple(one for one in findings.changes if one.rate < 30 or NAIVE not in (one.base, one.other))
    found = replace(findings, changes=kept)
    made, said = panel(changes.panel(found)), decisive.most_throughput(found)
    assert said is not None
    assert made.controls[0].choices[0].label == said.base.name != "naive · 8 on vllm"
    assert made.first.heading == headlines.main(found)


def test_a_note_says_where_the_bars_are_missing(findings: Findings) -> None:
    bare = tuple(
        replace(one, low=None, high=None, pairs=2) if one.rate == 1 else one for one in findings.changes
    )
    notes = [
        panel(changes.panel(replace(findings, changes=found))).first.note
        for found in (bare, findings.changes)
    ]
    assert ["none below three pairs" in note for note in notes] == [True, False]


def test_a_change_is_hollow_where_a_side_was_overloaded_and_grey_where_none_is_shown(
    findings: Findings,
) -> None:
    series = {one.key: one for one in series_of(findings)}
    made = panel(changes.panel(findings))
    base = next(one for one in series.values() if one.name == made.controls[0].choices[0].label)
    found = {(one.metric, one.rate, one.base, one.other): one for one in findings.changes}
    looks = set()
    for metric, chart in zip((COMPARED, "ttft_s_p50"), made.first.charts, strict=False):
        for trace in chart.figure.data:
            other = series[trace.meta["series"]]
            for rate, symbol, colour in zip(
                trace.meta["rates"], trace.marker.symbol, trace.marker.color, strict=True
            ):
                sides = (metric, rate, base.key, other.key), (metric, rate, other.key, base.key)
                change = next(found[one] for one in sides if one in found)
                cells = [one for side in (base, other) if (one := side.at(rate)) is not None]
                assert symbol.endswith("-open") == any(cell.overloaded for cell in cells)
                assert (colour == theme.MUTED) == (not change.shown)
                looks.add((symbol.endswith("-open"), colour == theme.MUTED))
    assert len(looks) == 4
    bare = replace(findings, changes=tuple(replace(one, low=None, high=None) for one in findings.changes))
    for trace in (
        panel(changes.panel(bare)).first.charts[0].figure.data
    ):  # without an interval nothing is shown
        assert set(trace.marker.color) == {theme.MUTED}
    cut_off = replace(findings, changes=tuple(replace(one, censored=True) for one in findings.changes))
    again = panel(changes.panel(cut_off)).first.charts[0].figure.data
    assert [one.marker.symbol for one in again] == [
        one.marker.symbol for one in made.first.charts[0].figure.data
    ]


def test_a_rate_of_which_nothing_can_be_compared_says_so_in_the_figure(findings: Findings) -> None:
    gone = [one for one in findings.changes if (one.metric, one.rate) != ("ttft_s_p50", 30.0)]
    made = panel(changes.panel(replace(findings, changes=tuple(gone)))).first
    said = [[one.text for one in chart.figure.layout.annotations] for chart in made.charts]
    assert [len(of_one) for of_one in said] == ["TTFT" in chart.title for chart in made.charts]
    assert all(text.endswith(": none to compare") for of_one in said for text in of_one)
    cut_off = [
        replace(one, trials=tuple(_without(t, "ttft_s_p50") for t in one.trials))
        for one in findings.cells
        if one.rate == 30.0
    ]
    rest = [one for one in findings.cells if one.rate != 30.0]
    made = panel(changes.panel(replace(findings, changes=tuple(gone), cells=(*rest, *cut_off)))).first
    texts = [one.text for chart in made.charts for one in chart.figure.layout.annotations]
    assert texts == ["overloaded: none to compare"]


def _without(trial: TrialSummary, metric: str) -> TrialSummary:
    return replace(trial, metrics={name: value for name, value in trial.metrics.items() if name != metric})


def test_the_knee_is_drawn_from_the_last_rate_kept_up_with_to_the_first_overloaded(
    findings: Findings,
) -> None:
    series = {one.key: one for one in series_of(findings)}
    traces = panel(tradeoff.panel(findings)).first.charts[0].figure.data
    drawn = {one.meta["series"]: one for one in traces if one.meta.get(tradeoff.KNEE)}
    both = {key: knee for key, knee in findings.knees.items() if None not in knee}
    assert both
    assert set(drawn) == set(both) != set(series)
    for key, (low, high) in both.items():
        ends = [series[key].at(rate) for rate in (low, high)]
        assert drawn[key].x[0] == ends[0].mean(COMPARED)
        assert drawn[key].x[-1] == ends[1].mean(COMPARED)
        assert not ends[0].overloaded
        assert ends[1].overloaded
        assert f"between {low:g} req/s and {high:g} req/s" in drawn[key].text[0]


def test_a_trial_that_does_not_count_is_crossed_in_every_curve_with_the_reason(
    findings: Findings, made_store: Store
) -> None:
    cell = findings.cells[0]
    bad = Verdict(name="replica-changed", detail="the replica <died>")
    trial = replace(cell.trials[0], verdicts=(bad,))
    crossed = replace(findings, invalid=(replace(cell, rate=99.0, trials=(trial,)),))
    key = series_of(findings)[0].key
    for make in (curves.throughput, curves.latency, tradeoff.panel):
        before, after = (panel(make(one)).first.charts[0].figure for one in (findings, crossed))
        assert len(after.data) == len(before.data) + 1
        trace = after.data[-1]
        assert (trace.meta["series"], trace.marker.symbol) == (key, points.CROSS)
        assert "does not count" in trace.text[0]
        assert "replica-changed: the replica &lt;died&gt;" in trace.text[0]
    made, (block,) = slo.panel(crossed, series_of(crossed))
    live = panel(made).live
    assert live is not None
    assert [one["trial"] for line in live["lines"] for one in line["crossed"]] == [len(findings.trials)]
    assert len(json.loads(block.about)["about"]["trials"]) == len(findings.trials) + 1


def test_policy_and_engine_add_up_to_the_total_each_with_its_interval(findings: Findings) -> None:
    made = panel(splits.panel(findings))
    for view in made.views.values():
        bars, total, policy, engine = view.charts[0].figure.data
        for a, b, c in zip(policy.x, engine.x, total.x, strict=True):
            assert a + b == pytest.approx(c, abs=1e-9)
        assert sorted(bars.x) == sorted([*total.x, *policy.x, *engine.x])
        for part in (total, policy, engine):
            assert all(length > 0 for length in (*part.error_x.array, *part.error_x.arrayminus))


def test_the_split_opens_on_the_pair_that_the_answer_names(findings: Findings) -> None:
    """Also where another pair was measured first."""
    others_first = replace(findings, splits=tuple(sorted(findings.splits, key=lambda one: one.total.base)))
    assert "dynamic" in others_first.splits[0].total.base
    for found in (findings, others_first):
        (fact,) = [one for one in glance(found, series_of(found)) if one.question == "Policy or engine?"]
        made = panel(splits.panel(found))
        base, other = made.controls[0].choices[0].label.split(" → ")
        assert f"the tokens/s of {base}, with {other} at" in fact.detail[0]
        policy, engine = fact.detail[1].removeprefix("policy ").split(", engine ")
        assert f"= {policy} from policy · {engine} from the engine" in made.first.heading


def test_the_heading_of_a_latency_split_is_not_drawn_from_an_overloaded_rate(findings: Findings) -> None:
    views = panel(splits.panel(findings)).views
    assert any(one.total.censored for one in findings.splits if one.rate == 30)
    assert views["0|steady_throughput_tokens_per_s"].heading.startswith("At 30 req/s")
    assert views["0|ttft_s_p50"].heading.startswith("At 5 req/s")
    (starred,) = [
        text for text in views["0|ttft_s_p50"].charts[0].figure.layout.yaxis.ticktext if "30 req/s" in text
    ]
    assert "30 req/s *" in starred


def test_rates_that_read_the_same_have_a_view_each(findings: Findings) -> None:
    rates = sorted({cell.rate for cell in findings.cells})
    near = {rate: 50 + position / 1000 for position, rate in enumerate(rates)}
    cells = tuple(replace(cell, rate=near[cell.rate]) for cell in findings.cells)
    assert len(panel(batches.panel(replace(findings, cells=cells))).views) == len(rates)


def test_batch_sizes_and_triggers_are_counted_over_the_repeats(findings: Findings) -> None:
    made = panel(batches.panel(findings))
    sizes, triggers = made.first.charts
    rate = max(cell.rate for cell in findings.cells)
    one = series_of(findings)[0]
    cell = one.at(rate)
    assert cell is not None
    counted = {size for trial in cell.trials for size in trial.batch_sizes}
    assert set(sizes.figure.data[0].x) == counted
    shares = {trace.name: trace.x[0] for trace in triggers.figure.data}
    total = sum(sum(trial.triggers.values()) for trial in cell.trials)
    full = sum(trial.triggers.get("size", 0) for trial in cell.trials)
    assert shares["size"] == pytest.approx(100 * full / total)
    assert sum(shares.values()) == pytest.approx(100)
    assert "no trigger" in str(triggers.figure.layout.annotations[0].text)  # continuous: engine steps


def test_the_mean_batch_of_a_cell_is_the_mean_over_its_repeats_as_in_every_figure(findings: Findings) -> None:
    """Not that of all batches together, in which a repeat with many small ones weighs more."""
    cell = findings.cells[0]
    first, second = (
        replace(one, batch_sizes={size: count}, metrics={**one.metrics, "batch_size_mean": float(size)})
        for one, size, count in zip(cell.trials[:2], (1, 8), (90, 1), strict=True)
    )
    cells = (replace(cell, trials=(first, second)),)
    made = panel(batches.panel(replace(findings, cells=cells)))
    assert "the mean batch is 4.5 with" in made.first.heading
    assert made.table.columns[4] == "mean batch size"
    assert str(made.table.rows[0][4]) == "4.5"
    (bar,) = [
        one for one in made.first.charts[0].figure.data if one.hovertemplate == "mean 4.5<extra></extra>"
    ]
    assert set(bar.x) == {4.5}


def change(base: str, other: str, ratio: float, low: float | None, high: float | None) -> Change:
    return Change(
        metric=headlines.THROUGHPUT,
        rate=30,
        base=base,
        other=other,
        ratio=ratio,
        low=low,
        high=high,
        pairs=3 if low else 1,
        censored=False,
    )


def headline(findings: Findings, *shown: Change) -> str | None:
    return headlines.main(replace(findings, changes=shown))


NAIVE, DYNAMIC, CONTINUOUS = (
    f"vllm / {name}" for name in ("naive · 8", "dynamic · 8 · 50 ms", "continuous · 8")
)


def test_the_headline_compares_on_one_backend_only(findings: Findings) -> None:
    across = change("huggingface / naive · 8", NAIVE, 9.0, 8.0, 10.0)
    within = change(NAIVE, CONTINUOUS, 3.2, 2.9, 3.5)
    title = "Continuous · 8 makes 3.20× [2.90, 3.50] the tokens/s of naive · 8 at 30 req/s on vllm"
    assert headline(findings, across, within) == title
    assert headline(findings, across) is None


def test_the_headline_compares_the_winner_with_naive(findings: Findings) -> None:
    against_dynamic = change(DYNAMIC, CONTINUOUS, 9.0, 8.0, 10.0)
    against_naive = change(NAIVE, CONTINUOUS, 3.2, 2.9, 3.5)
    assert "of naive · 8" in (headline(findings, against_dynamic, against_naive) or "")
    assert "of dynamic · 8 · 50 ms" in (headline(findings, against_dynamic) or "")


def test_a_knob_is_not_shown_as_the_win_of_a_strategy(findings: Findings) -> None:
    cells = tuple(
        replace(
            cell,
            trials=tuple(
                replace(one, trial=one.trial.model_copy(update={"knobs": {"max_batch_size": 1}}))
                for one in cell.trials
            ),
        )
        if cell.strategy == "dynamic"
        else cell
        for cell in findings.cells
    )
    mixed = replace(findings, cells=cells)
    unlike = change(DYNAMIC, CONTINUOUS, 9.0, 8.0, 10.0)
    alike = change(NAIVE, CONTINUOUS, 3.2, 2.9, 3.5)
    knob = change("vllm / dynamic · 8 · 50 ms", "vllm / dynamic · 8 · 200 ms", 2.0, 1.9, 2.1)
    assert "of naive · 8" in (headline(mixed, unlike, alike, knob) or "")
    assert "of dynamic · 8 · 50 ms" in (headline(mixed, unlike, knob) or "")
    assert headline(mixed, knob) is None


def test_where_nobody_is_overloaded_the_headline_is_latency(findings: Findings) -> None:
    calm = replace(change(NAIVE, CONTINUOUS, 1.3, 1.2, 1.4), rate=1)
    slow = replace(change(NAIVE, CONTINUOUS, 1 / 31, None, None), rate=1, metric="ttft_s_p50")
    assert headline(findings, calm, slow) == (
        "Continuous · 8 is 31× quicker to the first token than naive · 8 at 1 req/s on vllm "
        "(p50, 1 repeat, no interval)"
    )
    sure = replace(slow, low=1 / 40, high=1 / 20)
    assert "is 31.0× [20.0, 40.0] quicker" in (headline(findings, calm, sure) or "")
    assert headlines.throughput(replace(findings, changes=(calm, slow))) is None


def test_where_nothing_differs_the_headline_says_so(findings: Findings) -> None:
    calm = replace(change(NAIVE, CONTINUOUS, 1.01, None, None), rate=1)
    near = replace(change(NAIVE, CONTINUOUS, 0.97, None, None), rate=1, metric="ttft_s_p50")
    only = replace(
        findings,
        cells=tuple(
            replace(
                cell,
                trials=tuple(
                    replace(one, verdicts=tuple(v for v in one.verdicts if v.name != "too-short"))
                    for one in cell.trials
                ),
            )
            for cell in findings.cells
            if cell.rate == 1
        ),
    )
    title = "Throughput tells nobody apart: every strategy delivers what is offered, up to 1 req/s"
    assert headline(only, calm, near) == title
    assert headlines.latency(replace(only, changes=(calm, near)), "ttft_s_p50") == (
        "P50 TTFT of continuous · 8 is 0.97× that of naive · 8 at 1 req/s on vllm (1 repeat, no interval)"
    )
    sure = replace(near, low=0.9, high=1.04)
    assert headlines.latency(replace(only, changes=(calm, sure)), "ttft_s_p50") == (
        "No difference in p50 TTFT shown between continuous · 8 and naive · 8 at 1 req/s on vllm"
    )


def test_an_interval_that_contains_no_change_is_not_ranked(findings: Findings) -> None:
    unclear = change(NAIVE, CONTINUOUS, 1.3, 0.9, 1.9)
    title = "No difference in throughput shown between continuous · 8 and naive · 8 at 30 req/s on vllm"
    assert headline(findings, unclear) == title
    one = replace(unclear, ratio=1.02, low=None, high=None, pairs=1)
    assert headline(findings, one) == (
        "Throughput of continuous · 8 is 1.02× that of naive · 8 at 30 req/s on vllm (1 repeat, no interval)"
    )


def test_a_flipped_change_is_its_own_inverse() -> None:
    one = change("a", "b", 4.0, 2.0, 8.0)
    flipped = decisive.flipped(one)
    assert (flipped.base, flipped.ratio, flipped.low, flipped.high) == ("b", 0.25, 0.125, 0.5)
    assert decisive.flipped(flipped) == one


def test_latency_headline_leaves_censored_changes_out(findings: Findings) -> None:
    assert headlines.latency(findings, "ttft_s_p50") is not None
    censored = tuple(replace(one, censored=True) for one in findings.changes)
    assert headlines.latency(replace(findings, changes=censored), "ttft_s_p50") is None


def test_verdicts_clock_memory_and_failures_are_shown(html: str, findings: Findings) -> None:
    text = Page(html).text
    for trial in findings.trials:
        for verdict in trial.verdicts:
            assert verdict.detail in text
    assert "EngineDead" in text
    assert "286 MiB resident" in text
    assert "memory of the whole process" in text
    assert "± 0.2 ms" in text
    assert text.count("huggingface") >= 27  # each of its trials has a row


def test_trials_are_listed_by_setting_rate_and_repeat(findings: Findings, made_store: Store) -> None:
    mixed = replace(findings, trials=tuple(sorted(findings.trials, key=lambda one: one.trial.cell_id[::-1])))
    rows = [row.cells for row in trust(mixed, made_store).rows]
    settings = [(backend, setting) for setting, backend, *_ in rows]
    assert list(dict.fromkeys(settings)) == list(
        dict.fromkeys((cell.backend, cell.setting) for cell in findings.cells)
    )
    assert len(set(settings)) * 9 == len(rows)
    for place in range(0, len(rows), 9):
        assert len(set(settings[place : place + 9])) == 1
        assert [row[2:4] for row in rows[place : place + 9]] == [
            (rate, repeat) for rate in ("1 req/s", "5 req/s", "30 req/s") for repeat in ("1", "2", "3")
        ]


def test_the_set_up_has_commit_config_and_commands(findings: Findings, html: str) -> None:
    made = setup(findings)
    assert made.config == "name: made\nmodel: tiny\n"
    assert made.commands == (
        f"git checkout {'0' * 40}",
        "make",
        ".venv/bin/batchyard sweep made.yaml --fresh",
    )
    facts = {name: value for group in made.groups for name, value in group.facts}
    assert facts["git dirty"] == "no"
    assert facts["dtype"] == "bfloat16"
    assert facts["threads"] == "1"
    assert ".venv/bin/batchyard sweep made.yaml --fresh" in Page(html).text


def test_the_set_up_shows_the_engine_as_it_was_resolved_and_no_fact_twice(findings: Findings) -> None:
    machine = {"host": "box", "memory_bytes": 2**34, "versions": {"torch": "2.13"}}
    engine = {
        "model": "tiny",
        "weight_bytes": 2**29,
        "versions": {"vllm": "0.32.0", "torch": "2.13"},
        "engine_args": {"gpu_memory_utilization": None, "max_num_batched_tokens": 2048},
    }
    trials = tuple(
        replace(
            one,
            trial=one.trial.model_copy(
                update={
                    "engine": {"gpu_memory_utilization": 0.9, "max_num_seqs": 8},
                    "setup": {**machine, "engine": engine},
                }
            ),
        )
        for one in findings.trials
    )
    sweep = {"name": "x", "provenance": machine, "workload_hashes": {"1.8/0": "abc"}}
    groups = {
        group.title: group.facts for group in setup(replace(findings, trials=trials, sweep=sweep)).groups
    }
    ran = dict(groups["What ran"])
    assert ran["engine vllm version"] == "0.32.0"
    assert ran["engine max num seqs"] == "8"
    assert ran["engine max num batched tokens"] == "2048"
    assert ran["engine weight"] == "512 MiB"
    assert "engine gpu memory utilization" not in ran  # asked for, and not used
    assert not {"host", "memory", "versions torch", "engine torch version", "engine model"} & set(ran)
    assert dict(groups["Machine, versions and commit"])["memory"] == "16 GiB"
    assert dict(groups["Workloads, by rate and repeat"]) == {"1.8 req/s, repeat 1": "abc"}


def test_a_backend_without_model_and_device_has_no_heading_of_nones(findings: Findings) -> None:
    def on(**place: str) -> Findings:
        trials = [replace(one, trial=one.trial.model_copy(update=place)) for one in findings.trials]
        return replace(findings, trials=tuple(trials))

    assert setup(on(model="none", device="none")).heading == "No model and no device"
    assert setup(on(model="tiny", device="none")).heading == "tiny"
    assert setup(findings).heading == "tiny on cpu"


def test_repeats_are_counted_from_one(html: str) -> None:
    assert re.search(r"<td>1 req/s</td>\s*<td>1</td>", html)
    assert not re.search(r"<td>1 req/s</td>\s*<td>0</td>", html)


def test_a_config_given_as_a_mapping_is_shown_as_yaml_in_its_order(findings: Findings) -> None:
    made = setup(replace(findings, sweep={"name": "x", "config": {"b": 1, "a": [1, 2]}}))
    assert made.config == "b: 1\na:\n- 1\n- 2\n"


def test_settings_that_differ_by_backend_name_it(findings: Findings) -> None:
    trials = tuple(
        replace(one, trial=one.trial.model_copy(update={"setup": {"dtype": one.trial.backend[:2]}}))
        for one in findings.trials
    )
    groups = setup(replace(findings, trials=trials)).groups
    facts = {name: value for group in groups for name, value in group.facts}
    assert facts["dtype"] == "hu (huggingface), vl (vllm)"


def test_nothing_done_yet_is_said(empty: Store) -> None:
    html = render(find(empty), empty)
    text = Page(html).text
    assert "Nothing measured yet" in text
    assert "0 of 12 planned cells done" in text
    assert "no repeat so far" in text
    assert not [1 for tag, attributes in Page(html).elements if "data-chart" in attributes]


def test_a_sweep_in_which_every_attempt_failed_says_so_with_the_causes(empty: Store) -> None:
    for number in range(3):
        attempt = empty.begin_attempt(f"cell-{number}")
        attempt.fail(
            Failure(
                cell_id=f"cell-{number}",
                attempt=attempt.number,
                cause="ModelError",
                error="no such model",
                failed_at="2026-11-01T10:00:00Z",
            )
        )
    text = Page(render(find(empty), empty)).text
    assert "Every attempt failed so far" in text
    assert "0 of 12 planned cells done, 3 failed attempts" in text
    assert "attempts ModelError 3 no such model" in text


def test_one_strategy_alone_has_curves_but_nothing_to_compare(findings: Findings, made_store: Store) -> None:
    alone = replace(
        findings,
        cells=tuple(c for c in findings.cells if c.setting == "naive · 8" and c.backend == "vllm"),
        changes=(),
        splits=(),
        sentences=(),
    )
    assert isinstance(changes.panel(alone), Absent)
    assert isinstance(splits.panel(alone), Absent)
    assert len(panel(curves.latency(alone)).first.charts[0].figure.data) == 1
    text = Page(render(alone, made_store)).text
    assert "Only naive has been measured so far" in text


def test_what_is_simulated_is_labelled_wherever_it_appears(findings: Findings, made_store: Store) -> None:
    simulated = with_trials(findings, backend="simulated")
    simulated = replace(
        simulated,
        cells=tuple(
            c for c, old in zip(simulated.cells, findings.cells, strict=True) if old.backend == "vllm"
        ),
        changes=tuple(
            replace(
                one,
                base=one.base.replace("vllm", "simulated"),
                other=one.other.replace("vllm", "simulated"),
            )
            for one in findings.changes
            if one.base.startswith("vllm")
        ),
        splits=(),
        sentences=(),
    )
    html = render(simulated, made_store)
    text = Page(html).text
    assert "Nothing about them was measured" in text
    heading = panel(changes.panel(simulated)).first.heading
    assert "no measurement" in heading
    for one in series_of(simulated):
        assert "no measurement" in one.name
    assert not re.findall(r"simulated(?! \(no measurement\)|\.|</)", text.replace("Simulated", ""))


def test_backends_differ_by_dash_families_by_colour_settings_by_marker(findings: Findings) -> None:
    styles = {one.key: one.style for one in series_of(findings)}
    naive, twin = styles["huggingface / naive · 8"], styles["vllm / naive · 8"]
    assert (naive.colour, naive.symbol) == (twin.colour, twin.symbol)
    assert naive.dash != twin.dash
    quick, slow = styles["vllm / dynamic · 8 · 50 ms"], styles["vllm / dynamic · 8 · 200 ms"]
    assert quick.symbol != slow.symbol
    assert quick.colour != slow.colour
    assert len({style.colour for style in styles.values()}) == 4


def test_writing_replaces_the_page_and_leaves_nothing_beside_it(empty: Store, tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    path.parent.mkdir()
    path.write_text("an older page")
    write_page(find(empty), empty, path)
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "–"),
        (math.nan, "–"),
        (0, "0"),
        (0.0123, "0.0123"),
        (9.996, "10"),
        (1234.5, "1,234"),
        (94.53, "94.5"),
    ],
)
def test_numbers_have_three_figures(value: float | None, expected: str) -> None:
    assert numbers.number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.34, "340 ms"), (7.5, "7.5 s"), (-0.0004, "−0.4 ms"), (0, "0 s")]
)
def test_durations_have_a_unit(value: float, expected: str) -> None:
    assert numbers.duration(value) == expected


def test_requests_that_did_not_finish_are_counted_by_cause(made_sweep: ModuleType, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write_sweep({"name": "some", "planned_cells": 1})
    attempt = store.begin_attempt("cell-000")
    rows = [made_sweep.request_row(index=index, token_s=[index + 1.0, index + 2.0]) for index in range(4)]
    for index, status, cause in (
        (1, "failed", "OutOfMemory"),
        (2, "failed", "OutOfMemory"),
        (3, "unfinished", None),
    ):
        rows[index] = made_sweep.request_row(index=index, status=status, cause=cause, error="it broke")
    attempt.write_requests(rows)
    attempt.finish(made_sweep.make_trial(rows))
    text = Page(render(find(store), store)).text
    assert "requests failed OutOfMemory 2 it broke" in text
    assert "no cause" not in text  # what was cut off did not fail
    assert "Only naive has been measured so far" in text
