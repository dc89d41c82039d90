"""H1 to H6: when each is confirmed, refuted, not shown or not tested, and the rules that decide."""

import math
from collections.abc import Mapping, Sequence
from types import ModuleType

import pytest

from results.comparisons import ordered
from results.expectations import CLAIMS, expectations
from results.findings import CellSummary, Expectation, Findings, Judged, Outcome, TrialSummary, Verdict
from results.judgement import (
    Rule,
    far_higher,
    higher,
    in_words,
    lower,
    not_lower,
    similar,
    together,
)
from results.statistics import Ratio, mean_interval, paired_ratio
from results.store import Store
from results.summary import find

NOISE = (0.99, 1.0, 1.01)  # of three repeats: an interval of about 2.5 % to either side


@pytest.mark.parametrize(
    ("rule", "low", "high", "outcome"),
    [
        (far_higher, 2.0, 3.0, "confirmed"),
        (far_higher, 1.5, 3.0, "not shown"),
        (far_higher, 1.2, 1.9, "refuted"),
        (higher, 1.01, 1.2, "confirmed"),
        (higher, 0.9, 1.2, "not shown"),
        (higher, 0.8, 0.99, "refuted"),
        (lower, 0.8, 0.99, "confirmed"),
        (lower, 1.01, 1.2, "refuted"),
        (similar, 0.96, 1.05, "confirmed"),
        (similar, 0.96, 1.06, "not shown"),
        (similar, 0.5, 2.0, "not shown"),
        (similar, 1.06, 1.2, "refuted"),
        (similar, 0.80, 0.95, "refuted"),
        (not_lower, 0.96, 2.0, "confirmed"),
        (not_lower, 0.96, 0.99, "confirmed"),  # lower, by less than the margin
        (not_lower, 0.90, 1.1, "not shown"),
        (not_lower, 0.80, 0.99, "refuted"),
    ],
)
def test_an_interval_decides(rule: Rule, low: float, high: float, outcome: Outcome) -> None:
    assert rule(Ratio(ratio=math.sqrt(low * high), low=low, high=high, pairs=3)) == outcome


@pytest.mark.parametrize("rule", [far_higher, higher, lower, similar, not_lower])
def test_without_an_interval_nothing_is_shown(rule: Rule) -> None:
    bare = Ratio(ratio=1.0, low=None, high=None, pairs=2)
    assert rule(bare) == "not shown"
    assert in_words(bare) == "×1.00 (2 of the 3 repeats that an interval takes)"


def test_similar_is_the_same_from_both_sides() -> None:
    for low, high in ((0.953, 1.0), (0.951, 1.0), (1.0, 1.049), (1.0, 1.051)):
        turned = Ratio(ratio=1.0, low=1 / high, high=1 / low, pairs=3)
        assert similar(Ratio(ratio=1.0, low=low, high=high, pairs=3)) == similar(turned)


def test_one_case_refutes_and_one_that_shows_nothing_leaves_it_open() -> None:
    assert together(["confirmed", "not shown", "refuted"]) == "refuted"
    assert together(["confirmed", "not shown"]) == "not shown"
    assert together(["confirmed", "confirmed"]) == "confirmed"
    assert together([]) == "not tested"


def test_the_interval_of_a_mean_is_students() -> None:
    found = mean_interval([1.0, 2.0, 3.0])
    assert found == pytest.approx((2.0, 2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))
    assert mean_interval([1.0, 2.0]) is None


@pytest.fixture(scope="module")
def one(made_store: Store) -> TrialSummary:
    return find(made_store).trials[0]


class Made:
    """Cells with these metrics, each value times the noise of the repeat."""

    def __init__(self, made: ModuleType, one: TrialSummary) -> None:
        self._made, self._one = made, one
        self.cells: list[CellSummary] = []

    def add(
        self,
        strategy: str,
        rate: float,
        metrics: Mapping[str, float | None],
        *,
        backend: str = "vllm",
        size: int = 8,
        overloaded: bool = False,
        noise: Sequence[float] = NOISE,
    ) -> None:
        knobs = {"max_batch_size": size}
        rows = [self._made.request_row(token_s=[1.0])]
        verdicts = (Verdict(name="overloaded", detail="made"),) if overloaded else ()
        trials = tuple(
            TrialSummary(
                trial=self._made.make_trial(
                    rows, knobs=knobs, strategy=strategy, rate=rate, backend=backend, repeat=repeat
                ),
                metrics={name: None if value is None else value * factor for name, value in metrics.items()},
                verdicts=verdicts,
                triggers={},
                batch_sizes={},
            )
            for repeat, factor in enumerate(noise)
        )
        self.cells.append(
            CellSummary(
                strategy=strategy,
                setting=f"{strategy} · {size}",
                backend=backend,
                model="tiny",
                device="cpu",
                rate=rate,
                trials=trials,
            )
        )

    def judged(self, name: str) -> Expectation:
        return next(one for one in expectations(ordered(self.cells)) if one.name == name)


@pytest.fixture
def cells(made_sweep: ModuleType, one: TrialSummary) -> Made:
    return Made(made_sweep, one)


@pytest.mark.parametrize(("ttft_s", "verdict"), [(3.0, "confirmed"), (1.5, "refuted"), (2.0, "not shown")])
def test_h1_is_about_the_first_token_at_the_lowest_rate(cells: Made, ttft_s: float, verdict: Judged) -> None:
    cells.add("naive", 1.0, {"ttft_s_p50": ttft_s}, noise=(0.9, 1.0, 1.1))
    cells.add("naive", 9.0, {"ttft_s_p50": 1.0})
    for strategy in ("dynamic", "continuous"):
        cells.add(strategy, 1.0, {"ttft_s_p50": 1.0})
        cells.add(strategy, 9.0, {"ttft_s_p50": 9.0})
    found = cells.judged("H1")
    assert (found.verdict, len(found.evidence)) == (verdict, 2)
    assert found.evidence[0].text.startswith("p50 TTFT of naive · 8 on vllm is ×")
    assert "[" in found.evidence[0].text


def test_latency_of_an_overloaded_side_is_no_case(cells: Made) -> None:
    cells.add("naive", 1.0, {"ttft_s_p50": 9.0}, overloaded=True)
    cells.add("dynamic", 1.0, {"ttft_s_p50": 1.0})
    assert cells.judged("H1").verdict == "not tested"


def test_only_settings_of_one_size_are_compared_where_there_are_any(cells: Made) -> None:
    for size in (4, 8):
        cells.add("naive", 1.0, {"ttft_s_p50": 3.0}, size=size)
    cells.add("dynamic", 1.0, {"ttft_s_p50": 1.0}, size=8)
    assert len(cells.judged("H1").evidence) == 1
    cells.cells = [cell for cell in cells.cells if cell.setting != "naive · 8"]
    assert len(cells.judged("H1").evidence) == 1


def static(wait_s: float | None, throughput: float = 10.0) -> dict[str, float | None]:
    return {
        "steady_throughput_tokens_per_s": throughput,
        "queue_wait_s_p50": wait_s,
        "queue_wait_s_count": 50.0,
        "e2e_s_p50": None if wait_s is None else 2.0,
        "held_s_mean": 0.3,
    }


def test_h2_takes_similar_throughput_and_requests_that_wait_longer_than_they_are_served(
    cells: Made,
) -> None:
    for strategy in ("naive", "dynamic"):
        cells.add(strategy, 9.0, static(1.5), backend="huggingface", overloaded=True)
    found = cells.judged("H2")
    assert [one.outcome for one in found.evidence] == ["confirmed"] * 5  # one pair; wait and held of each
    assert found.verdict == "confirmed"
    assert any("are held 0.3 s [" in one.text for one in found.evidence)


def test_h2_falls_with_another_throughput_or_without_a_wait(cells: Made) -> None:
    cells.add("naive", 9.0, static(1.5))
    cells.add("dynamic", 9.0, static(0.1, throughput=15.0))
    outcomes = [one.outcome for one in cells.judged("H2").evidence]
    assert outcomes == ["refuted", "confirmed", "confirmed", "refuted", "confirmed"]


@pytest.mark.parametrize("strategy", ["naive", "dynamic"])
def test_h2_is_not_tested_by_one_of_the_two_alone(cells: Made, strategy: str) -> None:
    cells.add(strategy, 9.0, static(1.5), backend="huggingface", overloaded=True)
    cells.add("continuous", 9.0, {"steady_throughput_tokens_per_s": 20.0})
    assert cells.judged("H2").verdict == "not tested"


def test_h3_is_not_tested_by_knees_alone(cells: Made) -> None:
    """They have no interval; rates that no other setting was given, as in a search, compare nothing else."""
    cells.add("naive", 9.0, {"e2e_s_p99": 4.0}, overloaded=True)
    cells.add("continuous", 10.0, {"e2e_s_p99": 1.0})
    assert cells.judged("H3").verdict == "not tested"


def test_a_wait_that_was_cut_off_is_a_wait(cells: Made) -> None:
    for strategy in ("naive", "dynamic"):
        cells.add(strategy, 9.0, static(None), overloaded=True)
    found = cells.judged("H2")
    assert found.verdict == "confirmed"
    assert "half of the requests of naive · 8 on vllm were still waiting" in found.evidence[1].text


def test_h3_wants_more_throughput_where_the_other_is_overloaded_and_a_lower_tail_elsewhere(
    cells: Made,
) -> None:
    for rate, over in ((1.0, False), (9.0, True)):
        cells.add("naive", rate, {"steady_throughput_tokens_per_s": 10.0, "e2e_s_p99": 4.0}, overloaded=over)
        cells.add(
            "continuous", rate, {"steady_throughput_tokens_per_s": 20.0 if over else 10.0, "e2e_s_p99": 1.0}
        )
    found = cells.judged("H3")
    assert found.verdict == "confirmed"
    assert [one.text.partition(" of ")[0] for one in found.evidence] == [
        "Throughput", "p99 E2E", "Throughput", "the knee"
    ]  # fmt: skip
    assert found.evidence[2].text.endswith("at 9 req/s, which is overloaded")
    assert "above 9 req/s" in found.evidence[3].text


def test_h3_falls_with_a_longer_tail(cells: Made) -> None:
    cells.add("dynamic", 1.0, {"steady_throughput_tokens_per_s": 10.0, "e2e_s_p99": 1.0})
    cells.add("continuous", 1.0, {"steady_throughput_tokens_per_s": 10.0, "e2e_s_p99": 1.2})
    assert cells.judged("H3").verdict == "refuted"


@pytest.mark.parametrize(
    ("late", "noise", "verdict"),
    [
        (1.1, (1.0, 1.02, 0.98), "confirmed"),
        (5.0, (1.0, 1.02, 0.98), "refuted"),
        (3.0, (1.0, 1.02, 0.98), "not shown"),
        (1.1, (0.2, 1.0, 5.0), "not shown"),
    ],
)
def test_h4_compares_the_gain_at_the_two_ends_of_what_both_keep_up_with(
    cells: Made, late: float, noise: tuple[float, ...], verdict: Judged
) -> None:
    for rate, gain in ((1.0, 3.0), (5.0, late)):
        cells.add("naive", rate, {"e2e_s_p50": gain}, noise=noise)
        cells.add("dynamic", rate, {"e2e_s_p50": 1.0}, noise=(1.0, 1.0, 1.0) if rate == 1.0 else NOISE)
        noise = tuple(reversed(noise))
    cells.add("naive", 9.0, {"e2e_s_p50": 99.0}, overloaded=True)
    cells.add("dynamic", 9.0, {"e2e_s_p50": 1.0})
    assert cells.judged("H4").verdict == verdict


def test_h5_is_tested_where_there_is_one_slot(cells: Made) -> None:
    for strategy in ("naive", "continuous"):
        cells.add(strategy, 1.0, {"steady_throughput_tokens_per_s": 10.0}, size=8)
    assert cells.judged("H5").verdict == "not tested"
    for strategy in ("naive", "continuous"):
        cells.add(strategy, 1.0, {"steady_throughput_tokens_per_s": 10.0}, size=1)
    assert cells.judged("H5").verdict == "confirmed"
    cells.add("dynamic", 1.0, {"steady_throughput_tokens_per_s": 5.0}, size=1)
    assert cells.judged("H5").verdict == "refuted"


def test_h6_compares_continuous_with_itself_over_rates(cells: Made) -> None:
    cells.add("continuous", 1.0, {"tpot_s_p50": 0.02, "e2e_s_p50": 1.0})
    assert cells.judged("H6").verdict == "not tested"
    cells.add("continuous", 9.0, {"tpot_s_p50": 0.03, "e2e_s_p50": 1.5})
    found = cells.judged("H6")
    assert (found.verdict, len(found.evidence)) == ("confirmed", 2)
    assert (
        found.evidence[0].text
        == "p50 TPOT of continuous · 8 on vllm at 9 req/s is ×1.50 [1.50, 1.50] that at 1 req/s"
    )


def test_an_empty_sweep_tests_nothing() -> None:
    assert {one.verdict for one in expectations([])} == {"not tested"}
    assert [one.name for one in expectations([])] == list(CLAIMS)


def test_a_whole_sweep_has_evidence_with_intervals(made_store: Store) -> None:
    found: Findings = find(made_store)
    assert [one.name for one in found.expectations] == ["H1", "H2", "H3", "H4", "H5", "H6"]
    by_name = {one.name: one for one in found.expectations}
    assert by_name["H5"].verdict == "not tested"  # no cell has one slot
    for name in ("H1", "H2", "H3", "H4", "H6"):
        assert by_name[name].evidence
    ratio = paired_ratio({1: 1.0, 2: 1.0, 3: 1.0}, {1: 2.0, 2: 2.0, 3: 2.0})
    assert ratio is not None
    assert in_words(ratio) == "×2.00 [2.00, 2.00]"
