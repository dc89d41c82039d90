"""The sentences: what they claim, at which rate, and what they admit."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from results.findings import Change, Findings
from results.sentences import sentences
from results.store import Store
from results.summary import find
from results.wording import effects, number, repeats, times


def change(ratio: float, low: float | None = None, high: float | None = None, pairs: int = 3) -> Change:
    return Change(
        metric="e2e_s_p50",
        rate=1.0,
        base="a / b",
        other="a / c",
        ratio=ratio,
        low=low,
        high=high,
        pairs=pairs,
        censored=False,
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (change(0.28, 0.26, 0.30), "reduced latency by 72 % [70, 74] at λ = 2 req/s"),
        (change(2.5, 2.0, 3.0), "raised latency by 150 % [100, 200] at λ = 2 req/s"),
        (change(0.985, 0.98, 0.99), "reduced latency by 1.5 % [1.0, 2.0] at λ = 2 req/s"),
        (change(0.97, 0.91, 1.04), "showed no difference in latency (−3.0 % [−9.0, +4.0]) at λ = 2 req/s"),
        (change(0.5, pairs=1), "reduced latency by 50 % at λ = 2 req/s"),
        (change(1.0004, pairs=1), "showed no change in latency (0.0 %) at λ = 2 req/s"),
        (change(0.9994, pairs=1), "reduced latency by 0.1 % at λ = 2 req/s"),
        (None, "gave no latency to compare at λ = 2 req/s"),
    ],
)
def test_a_change_is_worded_by_sign_and_interval(given: Change | None, said: str) -> None:
    assert effects({2.0: given}, "latency") == [said]


def test_the_same_verb_is_said_once() -> None:
    parts = effects({1.0: change(0.5), 4.0: change(0.8), 9.0: change(1.2)}, "latency")
    assert parts == [
        "reduced latency by 50 % at λ = 1 req/s",
        "by 20 % at λ = 4 req/s",
        "raised latency by 20 % at λ = 9 req/s",
    ]


def test_factors_and_numbers_are_short() -> None:
    assert times(change(4.2, 4.0, 4.4)) == "×4.20 [4.00, 4.40]"
    assert times(change(1.1, 0.9, 1.4)) == "×1.10 [0.90, 1.40] (no difference shown)"
    assert times(change(12.34, pairs=2)) == "×12.3"
    assert [number(value) for value in (0.5, 2.0, 3.14159, 1234.5, 5.6e-5)] == [
        "0.5",
        "2",
        "3.14",
        "1,234",
        "0.000056",
    ]
    assert repeats([change(1, pairs=1)]) == "one repeat, no interval"
    assert repeats([change(1, pairs=1), change(1, pairs=2)]) == "1 to 2 repeats, no interval"
    assert (
        repeats([change(1, pairs=1), change(1, 1, 1)]) == "1 to 3 repeats, 95 % intervals where there are 3"
    )
    assert repeats([change(1, pairs=2)]) == "2 repeats, no interval"
    assert repeats([change(1, 1, 1)]) == "3 repeats, 95 % intervals"


def test_every_pair_of_strategies_has_a_sentence_naming_its_knobs(findings: Findings) -> None:
    policy = [(one.base, one.other) for one in findings.sentences if one.kind == "policy"]
    hf, vllm = "huggingface", "vllm"
    short, long = "dynamic · 8 · 50 ms", "dynamic · 8 · 200 ms"
    assert sorted(policy) == sorted(
        [
            *(
                (f"{backend} / naive · 8", f"{backend} / {knobs}")
                for backend in (hf, vllm)
                for knobs in (short, long)
            ),
            *((f"{vllm} / {base}", f"{vllm} / continuous · 8") for base in ("naive · 8", short, long)),
        ]
    )
    assert [one.kind for one in findings.sentences] == ["policy"] * 7 + ["engine"] * 3 + ["split"] * 3


def test_latency_is_compared_where_neither_is_overloaded_and_throughput_at_the_top(
    findings: Findings,
) -> None:
    text = findings.sentences[0].text
    assert text.startswith("Dynamic batching (8 · 50 ms) reduced p50 E2E latency by ")
    assert "] at λ = 1 req/s, by " in text
    assert "] at λ = 5 req/s and " in text
    assert "throughput" in text.partition("] at λ = 5 req/s and ")[2]
    assert (
        "at λ = 30 req/s, where both were overloaded, compared to naive batching (8) on the same backend"
        in text
    )
    assert "(huggingface, tiny, cpu, 3 repeats, 95 % intervals)" in text
    assert "λ = 30 req/s" not in text.partition("throughput")[0]


def test_the_figures_are_those_of_the_changes(findings: Findings) -> None:
    sentence = next(one for one in findings.sentences if one.other == "vllm / continuous · 8")
    found = next(
        one
        for one in findings.changes
        if (one.metric, one.rate) == ("steady_throughput_tokens_per_s", 30.0)
        and (one.base, one.other) == (sentence.base, sentence.other)
    )
    assert found.low is not None
    assert found.high is not None
    low, middle, high = (100 * (value - 1) for value in (found.low, found.ratio, found.high))
    assert (
        f"raised throughput by {middle:.0f} % [{low:.0f}, {high:.0f}] at λ = 30 req/s, where naive "
        "was overloaded, compared to" in sentence.text
    )


def test_gated_batches_are_not_called_lockstep(findings: Findings) -> None:
    for one in findings.sentences:
        assert ("gated, not lockstep" in " ".join(one.notes)) == ("vllm" in one.other)


def test_an_engine_sentence_keeps_the_knobs(findings: Findings) -> None:
    text = next(one.text for one in findings.sentences if one.kind == "engine")
    assert text.startswith("Under naive batching (8), vllm reduced p50 E2E latency by ")
    assert "compared to huggingface with the same knobs (tiny, cpu, 3 repeats, 95 % intervals)" in text


def test_a_split_names_both_factors(findings: Findings) -> None:
    split = next(
        one
        for one in findings.splits
        if (one.metric, one.rate) == ("steady_throughput_tokens_per_s", 30.0) and "naive" in one.total.base
    )
    text = next(one.text for one in findings.sentences if one.kind == "split")
    assert text.startswith("From naive batching (8) on huggingface to continuous batching (8) on vllm: ")
    assert (
        f"{times(split.total)} in throughput at λ = 30 req/s = {times(split.policy)} from "
        f"iteration-level scheduling (policy) times {times(split.engine)} from the engine"
    ) in text
    assert "in p50 E2E latency at λ = 5 req/s" in text


def test_a_figure_without_an_interval_beside_others_with_one_says_so(findings: Findings) -> None:
    def bare(one: Change) -> Change:
        return replace(one, low=None, high=None, pairs=2) if one.rate == 1 else one

    for said in sentences(findings.cells, tuple(map(bare, findings.changes)), ()):
        assert " % (no interval) at λ = 1 req/s" in said.text
        assert said.text.count("(no interval)") == 1
    split = next(one for one in findings.splits if one.metric == "e2e_s_p50")
    assert "no interval" not in times(bare(split.total))
    assert times(replace(split.total, low=None), mixed=True).endswith(" (no interval)")


def test_one_repeat_has_no_interval_and_short_trials_admit_it(tmp_path: Path, made_sweep: ModuleType) -> None:
    found = find(made_sweep.make_sweep(tmp_path, repeats=1, rates=(1.0, 30.0), requests=60))
    for one in found.sentences:
        assert "one repeat, no interval" in one.text
        assert "[" not in one.text
    (note,) = (note for note in found.sentences[0].notes if "too short" in note)
    assert note.startswith("At λ = 1 req/s trials were too short")


def test_without_a_calm_rate_latency_is_not_compared(tmp_path: Path, made_sweep: ModuleType) -> None:
    found = find(made_sweep.make_sweep(tmp_path, repeats=1, rates=(60.0,), requests=200))
    assert "p50 E2E latency" not in found.sentences[0].text
    assert found.sentences[0].notes[0] == (
        "At every rate one of the two was overloaded or cut off, so latency is not compared."
    )


def test_a_sentence_has_no_two_parentheses_in_a_row_and_one_full_stop(findings: Findings) -> None:
    """What qualifies it is in its notes."""
    for one in findings.sentences:
        assert ") (" not in one.text
        assert ";" not in one.text or one.kind == "split"
        assert one.text.endswith(").")
        assert all(note.endswith(".") and note[0].isupper() for note in one.notes)


def test_a_backend_without_a_model_has_no_nones_in_its_sentences(findings: Findings) -> None:
    cells = [replace(cell, model="none", device="none") for cell in findings.cells]
    for one in sentences(cells, findings.changes, findings.splits):
        assert "none" not in one.text
        assert one.text.endswith("3 repeats, 95 % intervals).")


def test_with_several_models_only_equals_are_compared(tmp_path: Path, made_sweep: ModuleType) -> None:
    store = Store(tmp_path)
    for model in ("tiny", "small"):
        for knobs in made_sweep.KNOBS[:2]:
            attempt = store.begin_attempt(f"{model}-{knobs['strategy']}")
            settings = {**made_sweep.cell_settings(knobs), "model": model}
            row = made_sweep.request_row(**settings, cell_id=attempt.cell_id, token_s=[1.0, 2.0])
            attempt.write_requests([row])
            attempt.finish(made_sweep.make_trial([row], knobs=knobs))
    found = find(store)
    assert {(one.base, one.other) for one in found.changes} == {
        (f"huggingface / naive · 8 / {model}", f"huggingface / dynamic · 8 · 50 ms / {model}")
        for model in ("tiny", "small")
    }
