"""Figures of the knobs: values, fronts and sizes, by hand."""

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from results.findings import CellSummary, Findings, TrialSummary, Verdict
from results.goodput import Slo
from results.report import knobs, pareto, resident
from results.report.panel import Absent, Panel
from results.report.series import series_of

SLO = Slo(ttft_ms=100)
TOKENS, TTFT, SHARE = "steady_throughput_tokens_per_s", "ttft_s_p99", SLO.of("goodput_share")


@pytest.fixture
def cell(made_sweep: ModuleType) -> Any:
    def make(setting: str, rate: float, *repeats: Mapping[str, float], verdict: Any = None) -> CellSummary:
        strategy, size, *wait = setting.split(" · ")
        own = {"strategy": strategy, "setting": setting, "max_batch_size": int(size), "rate": rate}
        trial = made_sweep.make_trial(
            [made_sweep.request_row(**own, backend="vllm", token_s=[0.1])],
            knobs={"max_batch_size": int(size)} | ({"max_wait_ms": 20.0} if wait else {}),
        )
        verdicts = (Verdict(name=verdict, detail=""),) if verdict else ()
        summaries = [
            TrialSummary(
                trial=trial.model_copy(update={"repeat": number}),
                metrics=metrics,
                verdicts=verdicts,
                triggers={},
                batch_sizes={},
            )
            for number, metrics in enumerate(repeats)
        ]
        return CellSummary(
            strategy=strategy,
            setting=setting,
            backend="vllm",
            model="tiny",
            device="cpu",
            rate=rate,
            trials=tuple(summaries),
        )

    return make


@pytest.fixture
def findings_of() -> Any:
    def make(*cells: CellSummary, slos: tuple[Slo, ...] = ()) -> Findings:
        return Findings(
            sweep={},
            trials=tuple(trial for one in cells for trial in one.trials),
            cells=cells,
            changes=(),
            splits=(),
            sentences=(),
            knees={},
            failures=(),
            planned_cells=len(cells),
            slos=slos,
        )

    return make


def live(made: Panel | Absent) -> Mapping[str, Any]:
    assert isinstance(made, Panel)
    assert made.live is not None
    return made.live


def test_a_heatmap_has_a_row_for_the_other_knobs_and_a_column_for_max_batch_size(
    cell: Any, findings_of: Any
) -> None:
    found = findings_of(
        cell("naive · 8", 5.0, {TOKENS: 100.0, TTFT: 2.0}),
        cell("dynamic · 8 · 20 ms", 5.0, {TOKENS: 110.0, TTFT: 0.5}),
        cell("dynamic · 32 · 20 ms", 5.0, {TOKENS: 300.0, TTFT: 0.25}, verdict="overloaded"),
    )
    data = live(knobs.panel(found))
    (group,) = data["groups"]
    assert (group["rows"], group["sizes"]) == (["naive", "dynamic · 20 ms"], ["8", "32"])
    places = {one["setting"]: (one["row"], one["column"]) for one in group["settings"]}
    assert places == {"naive · 8": (0, 0), "dynamic · 8 · 20 ms": (1, 0), "dynamic · 32 · 20 ms": (1, 1)}
    throughput, ttft = (
        [one["label"] for one in data["metrics"]].index(label) for label in ("Throughput", "P99 TTFT")
    )
    assert [one["values"][throughput] for one in group["settings"]] == [[100.0], [110.0], [300.0]]
    assert [one["states"] for one in group["settings"]] == [[""], [""], ["overloaded"]]
    assert data["headings"][0][throughput].endswith(
        "is highest with dynamic · 32 · 20 ms: 300 tokens/s (1 repeat, no interval)"
    )
    assert data["headings"][0][ttft].endswith(
        "is lowest with dynamic · 8 · 20 ms: 500 ms (1 repeat, no interval)"
    )  # overloaded is out


def test_a_best_is_named_where_it_is_shown_to_differ_and_the_colours_run_over_the_repeats(
    cell: Any, findings_of: Any
) -> None:
    def repeats(*tokens: float, ttft: float) -> list[dict[str, float]]:
        return [{TOKENS: value, TTFT: ttft, SHARE: 0.0} for value in tokens]

    data = live(
        knobs.panel(
            findings_of(
                cell("dynamic · 8 · 20 ms", 5.0, *repeats(100, 120, 140, ttft=0.5)),
                cell("dynamic · 32 · 20 ms", 5.0, *repeats(101, 119, 142, ttft=0.6)),  # +1, -1, +2
                cell("dynamic · 64 · 20 ms", 5.0, *repeats(90, 108, 126, ttft=0.7)),  # a tenth less each time
                slos=(SLO,),
            )
        )
    )
    labels = [one["label"] for one in data["metrics"]]
    tokens, ttft, share = (
        next(n for n, label in enumerate(labels) if label.startswith(text))
        for text in ("Throughput", "P99 TTFT", "Share")
    )
    assert data["headings"][0][tokens].endswith(
        "no difference shown between dynamic · 32 · 20 ms (highest mean, 121 tokens/s) and dynamic · 8 · 20 ms"
    )
    assert data["headings"][0][ttft].endswith("is lowest with dynamic · 8 · 20 ms: 500 ms")
    assert "no difference shown between" in data["headings"][0][share]  # of zeros there is no ratio
    (group,) = data["groups"]
    leads = {one["setting"].split(" · ")[1]: one["leads"] for one in group["settings"]}
    assert {size: of[tokens] for size, of in leads.items()} == {"8": [1], "32": [1], "64": [0]}
    assert {size: of[ttft] for size, of in leads.items()} == {"8": [1], "32": [0], "64": [0]}
    assert data["spans"][0][tokens] == [90, 142]


def test_the_only_one_on_the_front_is_called_best_in_what_it_is_shown_to_be(
    cell: Any, findings_of: Any
) -> None:
    def heading(*cells: CellSummary) -> str:
        text: str = live(pareto.panel(findings_of(*cells)))["views"][0][0]["heading"]
        return text.removeprefix("At 5 req/s on vllm ")

    def repeats(*tokens: float, ttft: float) -> list[dict[str, float]]:
        return [{TOKENS: value, TTFT: ttft * value} for value in tokens]

    best = cell("continuous · 8", 5.0, *repeats(100, 120, 141, ttft=0.001))
    as_much = cell("naive · 8", 5.0, *repeats(99, 121, 138, ttft=0.01))
    less = cell("naive · 8", 5.0, *repeats(90, 108, 126, ttft=0.01))
    assert heading(best, less) == (
        "continuous · 8 has the most throughput and the lowest p99 TTFT of the 2 settings that have both"
    )
    assert heading(best, as_much) == (
        "continuous · 8 has the lowest p99 TTFT of the 2 settings that have both; not shown to differ: "
        "its throughput from that of naive · 8"
    )
    over = cell("naive · 8", 5.0, {TOKENS: 90.0, TTFT: 9.0}, verdict="overloaded")
    assert heading(best, over).startswith("continuous · 8 alone is neither overloaded nor cut off")


def test_without_two_values_of_a_knob_there_is_no_heatmap(cell: Any, findings_of: Any) -> None:
    one_each = findings_of(cell("naive · 8", 5.0, {TOKENS: 1.0}), cell("continuous · 8", 5.0, {TOKENS: 2.0}))
    made = knobs.panel(one_each)
    assert isinstance(made, Absent)
    assert "two values of a knob" in made.reason


def test_a_backend_without_a_heatmap_is_named_with_the_reason(cell: Any, findings_of: Any) -> None:
    def on_hf(of: CellSummary) -> CellSummary:
        return replace(of, backend="huggingface")

    two = [on_hf(cell(f"naive · {size}", 5.0, {TOKENS: 1.0})) for size in (8, 32)]
    one_each = [cell(f"{name} · 8", 5.0, {TOKENS: 2.0}) for name in ("naive", "continuous")]
    made = knobs.panel(findings_of(*two, *one_each))
    assert isinstance(made, Panel)
    assert made.notes[1] == (
        "No heatmap of vllm: each strategy ran there with one setting, so no knob varies."
    )
    more = findings_of(*two, on_hf(cell("naive · 64", 5.0, {TOKENS: 1.0})), *one_each,
        cell("naive · 32", 5.0, {TOKENS: 2.0}))  # fmt: skip
    both = knobs.panel(more)
    assert isinstance(both, Panel)
    assert [chart.title for chart in both.first.charts] == ["vllm", "huggingface"]  # most strategies first
    assert len(both.notes) == 1


def test_the_front_has_whom_nobody_betters_in_both(cell: Any, findings_of: Any) -> None:
    found = findings_of(
        cell("naive · 8", 5.0, {TOKENS: 100.0, TTFT: 2.0}),  # bettered by the next
        cell("dynamic · 8 · 20 ms", 5.0, {TOKENS: 110.0, TTFT: 0.5}),
        cell("continuous · 8", 5.0, {TOKENS: 90.0, TTFT: 0.1}),
        cell("continuous · 32", 5.0, {TOKENS: 90.0, TTFT: 0.2}),  # the same throughput, slower
        cell("naive · 32", 5.0, {TOKENS: 500.0, TTFT: 0.01}, verdict="overloaded"),  # no latency of its own
    )
    points = pareto.points_of(series_of(found), 5.0, TTFT)
    assert [one.series.setting for one in pareto.front(points)] == ["continuous · 8", "dynamic · 8 · 20 ms"]
    (view, *_), *_ = live(pareto.panel(found))["views"]
    assert [one["front"] for one in view["points"]] == [False, True, True, False, False]
    assert "2 of the 5 settings that have both are on the front" in view["heading"]


def test_equal_settings_are_both_on_the_front(cell: Any, findings_of: Any) -> None:
    alike = {TOKENS: 100.0, TTFT: 1.0}
    found = findings_of(cell("naive · 8", 5.0, alike), cell("continuous · 8", 5.0, alike))
    assert len(pareto.front(pareto.points_of(series_of(found), 5.0, TTFT))) == 2


def test_the_first_rate_of_the_front_is_the_highest_that_someone_keeps_up_with(
    cell: Any, findings_of: Any
) -> None:
    over = [
        cell(setting, 50.0, {TOKENS: 100.0, TTFT: 9.0}, verdict="overloaded")
        for setting in ("naive · 8", "continuous · 8")
    ]
    well = [
        cell(setting, rate, {TOKENS: 10.0, TTFT: 1.0})
        for setting in ("naive · 8", "continuous · 8")
        for rate in (1.0, 5.0)
    ]
    assert live(pareto.panel(findings_of(*over, *well)))["rates"] == ["5 req/s", "50 req/s", "1 req/s"]
    alone = live(pareto.panel(findings_of(*over)))
    assert alone["rates"] == ["50 req/s"]
    assert "every setting is overloaded or cut off" in alone["views"][0][0]["heading"]


def test_the_largest_size_within_the_slo_is_named_and_preemptions_are_warned_of(
    cell: Any, findings_of: Any
) -> None:
    found = findings_of(
        cell("continuous · 8", 5.0, {SHARE: 0.995, "ttft_s_p95": 0.05, "kv_preemptions": 0.0}),
        cell("continuous · 32", 5.0, {SHARE: 0.99, "ttft_s_p95": 0.09, "kv_preemptions": 0.0}),
        cell("continuous · 64", 5.0, {SHARE: 0.98, "ttft_s_p95": 0.20, "kv_preemptions": 12.0}),
        slos=(SLO,),
    )
    made = resident.panel(found)
    assert isinstance(made, Panel)
    assert made.first.heading == "The largest max_batch_size within TTFT ≤ 100 ms at 5 req/s on vllm is 32"
    assert "preempts from 64 requests on (12 preemptions a trial)" in made.first.note
    ttft = made.first.charts[0].figure
    assert list(ttft.data[0].x) == [8, 32, 64]
    assert list(ttft.data[0].y) == [0.05, 0.09, 0.20]
    looks = {one.key: one.style for one in series_of(found)}  # as in all other figures
    assert list(ttft.data[0].marker.symbol) == [looks[key].symbol for key in ttft.data[0].meta["series"]]
    assert len(set(ttft.data[0].marker.symbol)) == 3
    assert ttft.layout.shapes[0].y0 == 0.1


def test_without_an_slo_the_size_with_the_lowest_ttft_is_named_and_nothing_is_within(
    cell: Any, findings_of: Any
) -> None:
    found = findings_of(
        cell("continuous · 8", 5.0, {"ttft_s_p95": 0.5, "steady_throughput_requests_per_s": 4.0}),
        cell("continuous · 32", 5.0, {"ttft_s_p95": 0.25, "steady_throughput_requests_per_s": 5.0}),
    )
    made = resident.panel(found)
    assert isinstance(made, Panel)
    assert (
        made.first.heading
        == "P95 TTFT at 5 req/s on vllm is lowest with 32 resident: 250 ms (1 repeat, no interval)"
    )
    assert list(made.first.charts[1].figure.data[0].y) == [4.0, 5.0]
    none = replace(found, slos=(SLO,))
    assert "No max_batch_size keeps 99 %" in panel_of(none).first.heading
    assert isinstance(resident.panel(findings_of(found.cells[0])), Absent)


def panel_of(found: Findings) -> Panel:
    made = resident.panel(found)
    assert isinstance(made, Panel)
    return made
