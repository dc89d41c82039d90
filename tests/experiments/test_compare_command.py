"""`batchyard compare`: a sweep with itself shows nothing, a slower one is caught, and what cannot be told is said."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from results.findings import Findings
from results.store import Store
from results.summary import find
from results.sweep_comparison import find_both

Batchyard = Callable[..., Any]
Sweeps = Callable[..., Path]


@pytest.fixture(scope="module")
def sweep(made_sweep: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Sweeps:
    """`sweep("b", slower=1.3)`: a small sweep whose steps on vllm take so many times as long; each made once."""
    folder = tmp_path_factory.mktemp("sweeps")

    def make(name: str, *, slower: float = 1.0, repeats: int = 3, rates: tuple[float, ...] = (1.0,)) -> Path:
        if not (folder / name).exists():
            steps = {**made_sweep.STEP_S, "vllm": 0.014 * slower}
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(made_sweep, "STEP_S", steps)
                made_sweep.make_sweep(folder / name, repeats=repeats, rates=rates, requests=30, parts=1)
        return folder / name

    return make


def test_a_sweep_does_not_differ_from_itself(sweep: Sweeps, batchyard: Batchyard, tmp_path: Path):
    folder = sweep("a")
    copied = Path(shutil.copytree(folder, tmp_path / "b"))
    result = batchyard(
        "compare", folder, copied, "--fail-if-worse", "1%", "--json", "-o", tmp_path / "c.html"
    )
    assert result.exit_code == 0
    assert "nothing is shown to be worse by more than 1 %" in result.stderr
    document = json.loads(result.stdout)
    changes = [change for cell in document["cells"] for change in cell["changes"].values()]
    assert len(document["cells"]) == 7
    assert {change["ratio"] for change in changes if change["a"] is not None} == {1.0}
    assert {(change["low"], change["high"]) for change in changes if change["pairs"] == 3} == {(1.0, 1.0)}
    told = sum(change["low"] is not None and not change["censored"] for change in changes)
    assert document["no_difference"] == {"shown_in": told, "of_intervals": told}
    assert document["only_a"] == document["only_b"] == document["worse"] == []
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert 'id="sides"' in page
    assert 'id="changes"' in page


def test_folders_of_one_name_are_told_apart_by_what_is_above_them(
    sweep: Sweeps, batchyard: Batchyard, tmp_path: Path
):
    folder = sweep("a")
    copied = Path(shutil.copytree(folder, tmp_path / "again" / "a"))
    result = batchyard("compare", folder, copied)
    assert result.stdout.startswith(f"A: {folder.parent.name}/a   B: again/a\n")


def test_what_is_worse_is_named_and_exits_with_1(sweep: Sweeps, batchyard: Batchyard):
    before, after = sweep("a"), sweep("slow", slower=1.3)
    result = batchyard("compare", before, after, "--fail-if-worse", "5 %")
    assert result.exit_code == 1
    worse = [line for line in result.stderr.splitlines() if line.startswith("worse: ")]
    assert any(
        "TTFT p50 of continuous · 8 on vllm at 1 req/s, by 30.0 % at least (allowed 5 %)" in one
        for one in worse
    )
    assert not any("huggingface" in one for one in worse)
    better = batchyard("compare", after, before, "--fail-if-worse", "5%")
    assert better.exit_code == 0
    assert batchyard("compare", before, after, "--fail-if-worse", "40%").exit_code == 0


def test_percentiles_are_of_the_same_requests_on_both_sides(sweep: Sweeps):
    one, other = Store(sweep("a")), Store(sweep("slow", slower=1.3))
    own = starts(find(one))
    later = {(1.0, 0): own[0] + 1, (1.0, 1): own[1] - 1}
    assert starts(find(one, not_before=later)) == {**own, 0: own[0] + 1}
    first, second = map(starts, find_both(one, other))
    assert first == second == {key: max(start_s, own[key]) for key, start_s in starts(find(other)).items()}


def starts(findings: Findings) -> dict[int, float]:
    """Where steady windows begin, by repeat."""
    return {one.trial.repeat: one.metrics["steady_start_s"] for one in findings.trials}


def test_a_table_for_each_metric_has_values_change_and_interval(sweep: Sweeps, batchyard: Batchyard):
    lines = batchyard("compare", sweep("a"), sweep("slow", slower=1.3)).stdout.splitlines()
    start = lines.index("TTFT p50")
    assert lines[start + 1].split() == ["backend", "setting", "req/s", "A", "B", "change", "pairs"]
    (row,) = (line for line in lines[start:][:9] if line.startswith("vllm") and "continuous" in line)
    assert "+30.0 % [+30.0, +30.0]" in row


def test_it_says_in_how_many_intervals_no_difference_is_shown(sweep: Sweeps, batchyard: Batchyard):
    same = batchyard("compare", sweep("a"), sweep("a")).stdout
    assert (
        "No difference shown in 35 of 35 intervals, 100 %: throughput (tokens/s) 7 of 7, TTFT p50 7 of 7"
        in same
    )
    slower = batchyard("compare", sweep("a"), sweep("slow", slower=1.3), "--json").stdout
    document = json.loads(slower)
    changes = [change for cell in document["cells"] for change in cell["changes"].values()]
    inside = [
        one
        for one in changes
        if one["low"] is not None and not one["censored"] and one["low"] <= 1 <= one["high"]
    ]
    assert (
        0 < len(inside) == document["no_difference"]["shown_in"] < document["no_difference"]["of_intervals"]
    )
    few = batchyard("compare", sweep("a2", repeats=2), sweep("a2", repeats=2)).stdout
    assert "No difference" not in few, "without intervals there is no share of them"


def test_fewer_than_three_repeats_fail_nothing_and_say_that_it_cannot_be_told(
    sweep: Sweeps, batchyard: Batchyard
):
    result = batchyard(
        "compare", sweep("a2", repeats=2), sweep("slow2", slower=1.3, repeats=2), "--fail-if-worse", "5%"
    )
    assert result.exit_code == 0
    assert "cannot be told: " in result.stderr
    assert "have no interval" in result.stderr
    assert "fewer than 3 repeats are paired: no intervals" in result.stdout


def test_what_does_not_match_is_counted_and_named(sweep: Sweeps, batchyard: Batchyard):
    one, other = sweep("a"), sweep("more", repeats=1, rates=(1.0, 9.0))
    result = batchyard("compare", one, other)
    assert result.exit_code == 0
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("Only in more: 7: "))
    assert "naive · 8 on huggingface at 9 req/s" in line
    apart = batchyard("compare", one, sweep("apart", repeats=1, rates=(7.0,)))
    assert (apart.exit_code, apart.stdout) == (2, "")
    assert apart.stderr.startswith("error: no cell of a is in apart: cells match by backend, setting, model")


def test_a_setting_that_is_missing_is_worse(sweep: Sweeps, batchyard: Batchyard, tmp_path: Path):
    """A cell whose every request failed leaves no trial that counts: it must not pass for one that did well."""
    copied = Path(shutil.copytree(sweep("a"), tmp_path / "b"))
    gone = [trial.cell_id for trial in Store(copied).trials() if trial.strategy == "continuous"]
    for cell in gone:
        shutil.rmtree(copied / "cells" / cell)
    result = batchyard("compare", sweep("a"), copied, "--fail-if-worse", "50%")
    assert result.exit_code == 1
    assert "worse: continuous · 8 on vllm at 1 req/s is not there: it failed, or was not run" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--fail-if-worse", "0.05"), "must be a percentage such as 5%, got '0.05'"),
        (("-o", "."), ". is a folder; give a file in it"),
    ],
)
def test_bad_input_is_one_line(sweep: Sweeps, batchyard: Batchyard, arguments: tuple[str, ...], told: str):
    folder = sweep("a")
    result = batchyard("compare", folder, folder, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert told in line
    gone = batchyard("compare", folder, folder / "none")
    assert gone.exit_code == 2
    assert gone.stderr.startswith(f"error: {folder / 'none'}: does not exist; give a sweep's folder")
