"""The answer in ten seconds: each fact is that of the findings, and what puts it in doubt comes worst first."""

from collections.abc import Callable
from dataclasses import replace

from results.findings import CellSummary, Change, Findings, TrialSummary, Verdict, VerdictName
from results.goodput import Slo
from results.report import splits
from results.report.answer import answer
from results.report.caveats import caveats
from results.report.glance import Fact, glance
from results.report.headlines import throughput
from results.report.panel import Absent, Panel
from results.report.series import series_of
from results.report.within import goodput, largest_within
from results.sentences import UNLIKE, sentences

SLO = Slo(ttft_ms=100)


def facts(findings: Findings) -> dict[str, Fact]:
    return {one.question: one for one in glance(findings, series_of(findings))}


def panel_of(made: Panel | Absent) -> Panel:
    assert isinstance(made, Panel)
    return made


def each_cell(findings: Findings, change: Callable[[CellSummary], CellSummary]) -> Findings:
    cells = tuple(map(change, findings.cells))
    return replace(findings, cells=cells, trials=tuple(trial for cell in cells for trial in cell.trials))


def judged(findings: Findings, *names: VerdictName, strategy: str = "") -> Findings:
    """The findings with these verdicts on the trials of a strategy, or on all."""

    def mark(cell: CellSummary) -> CellSummary:
        if strategy not in ("", cell.strategy):
            return cell
        verdicts = tuple(Verdict(name=name, detail=f"as made: {name}") for name in names)
        return replace(
            cell, trials=tuple(replace(one, verdicts=(*one.verdicts, *verdicts)) for one in cell.trials)
        )

    return each_cell(findings, mark)


def test_who_wins_by_how_much_and_how_surely_is_what_the_changes_say(findings: Findings) -> None:
    found = facts(findings)
    assert found["Which strategy wins?"].answer == "continuous · 8"
    (gain,) = [
        one
        for one in findings.changes
        if (one.base, one.other, one.rate) == ("vllm / naive · 8", "vllm / continuous · 8", 30.0)
        and one.metric == "steady_throughput_tokens_per_s"
    ]
    assert found["By how much, how surely?"].answer == f"{gain.ratio:.2f}× the tokens/s"
    assert f"95 % interval {gain.low:.2f}× to {gain.high:.2f}×" in found["By how much, how surely?"].detail[0]
    assert found["Where does it stop keeping up?"].answer == "above 30 req/s"
    assert "naive · 8: 5 to 30" in found["Where does it stop keeping up?"].detail[0]
    (split,) = [
        one
        for one in findings.splits
        if (one.total.base, one.rate) == ("huggingface / naive · 8", 30.0) and one.metric == gain.metric
    ]
    assert found["Policy or engine?"].answer == (
        f"policy {split.policy.ratio:.2f}×, engine {split.engine.ratio:.2f}×"
    )
    assert "H1" in found["Was that expected?"].detail[0]


Factor = tuple[float, float | None, float | None]  # ratio, low, high


def with_factors(findings: Findings, *, policy: Factor, engine: Factor) -> Findings:
    """The findings with these parts of each split."""

    def changed(change: Change, ratio: float, low: float | None, high: float | None) -> Change:
        return replace(change, ratio=ratio, low=low, high=high)

    return replace(
        findings,
        splits=tuple(
            replace(one, policy=changed(one.policy, *policy), engine=changed(one.engine, *engine))
            for one in findings.splits
        ),
    )


def test_a_factor_whose_interval_contains_no_change_is_not_stated_as_found(findings: Findings) -> None:
    wild = with_factors(findings, policy=(2.88, 0.83, 9.94), engine=(1.09, 0.31, 3.86))
    fact, heading = facts(wild)["Policy or engine?"], panel_of(splits.panel(wild)).first.heading
    assert fact.answer == "not determined"
    assert fact.detail[1] == "policy 2.88× [0.83, 9.94] (not shown), engine 1.09× [0.31, 3.86] (not shown)"
    assert "= 2.88× [0.83, 9.94] (not shown) from policy · 1.09× [0.31, 3.86] (not shown)" in heading
    half = with_factors(findings, policy=(2.88, 2.5, 3.1), engine=(1.09, 0.31, 3.86))
    assert facts(half)["Policy or engine?"].answer == "policy 2.88×, engine not shown"
    bare = with_factors(findings, policy=(2.88, None, None), engine=(1.09, None, None))
    assert facts(bare)["Policy or engine?"].answer == "policy 2.88×, engine 1.09×, not yet surely"


def test_the_split_says_what_puts_its_own_trials_in_doubt(findings: Findings) -> None:
    doubted = facts(judged(findings, "drifted", "not-stationary", strategy="naive"))["Policy or engine?"]
    assert doubted.detail[0].endswith(" at 30 req/s, 2 of 3 settings overloaded")
    assert doubted.detail[2:] == ("in doubt: the machine's speed changed (6 of 9 trials)",)  # of throughput
    assert not facts(judged(findings, "drifted", strategy="dynamic"))["Policy or engine?"].detail[2:]


def test_without_intervals_the_winner_is_not_sure(findings: Findings) -> None:
    bare = replace(findings, changes=tuple(replace(one, low=None, high=None) for one in findings.changes))
    assert facts(bare)["Which strategy wins?"].answer == "continuous · 8, not yet surely"


def test_a_wait_of_naive_for_its_batch_to_fill_is_said_to_be_that(findings: Findings) -> None:
    def details(found: Findings) -> str:
        return " ".join(facts(found)["By how much, how surely?"].detail)

    assert "naive · 8 waits there until 8 requests have come: 3.5 s on average, (8 − 1) ÷ 2λ" in details(
        findings
    )

    def slow(cell: CellSummary) -> CellSummary:
        ttft = {"ttft_s_p50": 8.0 if cell.strategy == "naive" else 1.0}  # it waits for more than its batch
        return replace(
            cell, trials=tuple(replace(one, metrics={**one.metrics, **ttft}) for one in cell.trials)
        )

    assert "requests have come" not in details(each_cell(findings, slow))


def test_the_worst_caveat_of_the_trials_behind_the_finding_comes_first(findings: Findings) -> None:
    doubted = judged(findings, "too-short", "drifted", "failures", strategy="continuous")
    doubt = facts(doubted)["What to doubt most?"]
    assert doubt.answer.startswith("requests failed")
    assert "behind this finding" in doubt.detail[0]
    assert doubt.detail[1] == (
        "also: the machine's speed changed; trials were too short to tell whether the queue had settled"
    )
    other = judged(findings, "client-bound", strategy="dynamic")  # not compared in the finding
    assert "of the sweep" in facts(other)["What to doubt most?"].detail[0]
    assert (
        caveats(replace(findings, planned_cells=1000), ())[0].words == "most of the sweep is still to be done"
    )


def test_with_one_strategy_nothing_wins_and_nothing_is_judged_twice(findings: Findings) -> None:
    alone = replace(
        findings,
        cells=tuple(one for one in findings.cells if one.strategy == "naive"),
        changes=(), splits=(), sentences=(), knees={},
    )  # fmt: skip
    found = facts(alone)
    assert found["Which strategy wins?"].answer == "only naive has run"
    assert found["Where does it stop keeping up?"].answer == "not judged"
    assert glance(replace(findings, cells=(), trials=()), ()) == ()


def test_unequal_batch_sizes_are_compared_only_if_there_are_no_equal_ones_and_then_it_is_said(
    findings: Findings,
) -> None:
    def larger(cell: CellSummary) -> CellSummary:
        if cell.strategy != "continuous":
            return cell
        return replace(cell, trials=tuple(map(with_16, cell.trials)))

    def with_16(one: TrialSummary) -> TrialSummary:
        return replace(one, trial=one.trial.model_copy(update={"knobs": {"max_batch_size": 16}}))

    unlike = each_cell(findings, larger)
    heading = throughput(
        replace(unlike, changes=tuple(c for c in findings.changes if "continuous" in c.other))
    )
    assert heading is not None
    assert heading.endswith(", with max_batch_size 16 against 8")
    said = sentences(unlike.cells, findings.changes, ())
    assert {UNLIKE in one.notes for one in said if one.kind == "policy" and "continuous" in one.other} == {
        True
    }
    assert not any(UNLIKE in one.notes for one in said if "continuous" not in one.other)
    assert not (throughput(findings) or "").endswith("against 8")


def test_latency_of_the_requests_that_were_served_is_said_to_be_theirs(findings: Findings) -> None:
    failed = judged(findings, "failures")
    notes = {note for one in sentences(failed.cells, findings.changes, ()) for note in one.notes}
    assert any("latency is that of the others" in note for note in notes)
    assert not any(
        "that of the others" in note
        for one in sentences(findings.cells, findings.changes, ())
        for note in one.notes
    )


def test_the_largest_rate_within_an_slo_is_one_that_99_per_cent_keep_and_is_not_overloaded(
    findings: Findings,
) -> None:
    shares = {1.0: 0.5, 5.0: 0.99, 30.0: 1.0}  # at 1/s requests wait for a full batch

    def kept(cell: CellSummary) -> CellSummary:
        of = {SLO.of("goodput_share"): shares[cell.rate]}
        return replace(cell, trials=tuple(replace(one, metrics={**one.metrics, **of}) for one in cell.trials))

    sweep = replace(each_cell(findings, kept), slos=(SLO,))
    largest = {one.key: largest_within(one, SLO) for one in series_of(sweep)}
    assert largest["vllm / naive · 8"] == 5.0  # overloaded at 30
    assert largest["vllm / continuous · 8"] == 30.0
    fact = facts(sweep)["Up to which rate within TTFT ≤ 100 ms?"]
    assert (fact.answer, fact.detail[0]) == ("30 req/s", "continuous · 8 on vllm")
    table = goodput(SLO, series_of(sweep), [1.0, 5.0, 30.0])
    assert [cells[0] for one, cells in table.rows if one.key == "vllm / naive · 8"] == ["5 req/s"]
    none = each_cell(sweep, lambda cell: replace(cell, trials=tuple(
        replace(one, metrics={**one.metrics, SLO.of("goodput_share"): 0.98}) for one in cell.trials
    )))  # fmt: skip
    assert facts(none)["Up to which rate within TTFT ≤ 100 ms?"].answer == "at no rate of the sweep"


def test_who_keeps_an_slo_is_named_by_share_and_then_by_what_was_judged(findings: Findings) -> None:
    shares = {"naive": 0.992, "dynamic": 0.995, "continuous": 0.992}

    def kept(cell: CellSummary) -> CellSummary:
        of = {SLO.of("goodput_share"): shares[cell.strategy] if cell.rate == 5 else 0.5}
        return replace(cell, trials=tuple(replace(one, metrics={**one.metrics, **of}) for one in cell.trials))

    cells = tuple(one for one in findings.cells if one.backend == "vllm" and "200 ms" not in one.setting)
    sweep = judged(
        each_cell(replace(findings, cells=cells, slos=(SLO,)), kept), "too-short", strategy="naive"
    )
    assert facts(sweep)["Up to which rate within TTFT ≤ 100 ms?"].detail[0] == (
        "dynamic · 8 · 50 ms on vllm, continuous · 8 on vllm, naive · 8 on vllm (not judged, too short)"
    )


def test_sentences_shown_are_of_the_place_with_most_strategies(findings: Findings) -> None:
    shown = answer(findings).groups[0].shown
    assert {one.other.split(" / ")[0] for one in shown} == {"vllm"}
