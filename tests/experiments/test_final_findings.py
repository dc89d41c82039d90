"""What a sweep found, as one document for a script: on standard output alone, whatever else is told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from rich.console import Console

import experiments.console
import experiments.sweep
from experiments.config import SweepConfig
from experiments.console import show_prose
from experiments.final_findings import table_lines
from experiments.sweep import Outcome
from results.store import Store
from results.summary import find
from tests.results import made_sweep


def test_report_gives_one_document(batchyard: Callable[..., Result], tmp_path: Path):
    store: Store = made_sweep.make_sweep(tmp_path / "sweep", repeats=1)
    result = batchyard("report", store.root, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    findings = find(store)
    assert (tmp_path / "sweep" / "report.html").is_file()
    assert document["page"] == str(tmp_path / "sweep" / "report.html")
    assert (document["name"], document["complete"]) == ("made", True)
    assert document["planned_cells"] == document["done_cells"] == 21
    assert [sentence["text"] for sentence in document["sentences"]] == [
        one.text for one in findings.sentences
    ]
    assert [failure["cause"] for failure in document["failed_attempts"]] == ["EngineDead"]
    assert [(one["name"], one["verdict"]) for one in document["expectations"]] == [
        (one.name, one.verdict) for one in findings.expectations
    ]
    assert [one["text"] for one in document["expectations"][0]["evidence"]] == [
        one.text for one in findings.expectations[0].evidence
    ]
    assert len(document["cells"]) == len(findings.cells)
    for shown, cell in zip(document["cells"], findings.cells, strict=True):
        assert (shown["backend"], shown["setting"], shown["rate"]) == (cell.backend, cell.setting, cell.rate)
        assert shown["ttft_s_p50"] == cell.mean("ttft_s_p50")
        assert shown["verdicts"] == sorted({v.name for trial in cell.trials for v in trial.verdicts})


def test_into_a_pipe_no_line_of_the_table_is_broken_or_cut(batchyard: Callable[..., Result], tmp_path: Path):
    store: Store = made_sweep.make_sweep(tmp_path / "sweep", repeats=1, requests=60)
    shown = batchyard("report", store.root).stdout.splitlines()
    cells = find(store).cells
    for cell, line in zip(cells, shown[3:], strict=False):
        assert line.startswith(cell.backend)
        assert f" {cell.setting} " in line
        assert line.endswith(", ".join(sorted({v.name for trial in cell.trials for v in trial.verdicts})))
    sentences = [line for line in shown if line.startswith("- ")]
    assert len(sentences) == sum(one.kind == "policy" for one in find(store).sentences)
    assert sum("gated, not lockstep" in line for line in shown) == 1
    assert any("H1 not shown" in line and "H5 not tested" in line for line in shown)  # one repeat


def test_on_a_terminal_the_table_fits_and_cuts_no_word(tmp_path: Path):
    cells = find(made_sweep.make_sweep(tmp_path, repeats=1, requests=60)).cells
    lines = table_lines(cells, 80)
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    words = {word for line in lines[2:] for word in line.split()}
    assert {"overloaded", "too-short", "huggingface"} <= words


def test_prose_is_broken_at_words_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    text = "- Continuous batching (8) reduced p50 E2E latency by 81 % at λ = 1.8 req/s. ¹"
    for terminal, expected in ((True, 2), (False, 1)):
        monkeypatch.setattr(experiments.console, "out", Console(force_terminal=terminal, width=50))
        show_prose(text)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == expected
        assert " ".join(line.strip() for line in lines) == text


def test_what_could_not_be_read_is_in_it(batchyard: Callable[..., Result], tmp_path: Path):
    store: Store = made_sweep.make_sweep(tmp_path, repeats=1, requests=4)
    next(iter(sorted(tmp_path.rglob("requests-00001.parquet")))).unlink()
    result = batchyard("report", store.root, "--json")
    document = json.loads(result.stdout)
    assert (document["complete"], document["done_cells"]) == (False, 20)
    (problem,) = document["problems"]
    assert problem in result.stderr


@pytest.mark.parametrize(("done", "code"), [(4, 0), (3, 1)])
def test_a_sweep_gives_one_document_whether_it_is_complete_or_not(
    tmp_path: Path,
    batchyard: Callable[..., Result],
    config_values: Callable[..., dict[str, Any]],
    made_config: Callable[..., SweepConfig],
    begun_sweep: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    done: int,
    code: int,
):
    changes: dict[str, Any] = {"arrival_rate": [1, 4], "strategies": [ONE], "repeats": 2}
    root = begun_sweep(made_config(**changes), tmp_path, done=done, failed=4 - done)
    found = find(Store(root))
    ended = Outcome(
        root=str(root), page="page.html", planned=4, done=done, ran=0, findings=found, problems=()
    )
    monkeypatch.setattr(experiments.sweep, "run_sweep", lambda *_, **__: ended)
    path = tmp_path / "made.yaml"
    path.write_text(yaml.safe_dump(config_values(**changes)))
    result = batchyard("sweep", path, "--results", tmp_path, "--json")
    assert result.exit_code == code, result.output
    document = json.loads(result.stdout)
    assert (document["complete"], document["done_cells"]) == (code == 0, done)
    told = "This sweep is complete" if code == 0 else "1 of 4 cells failed"
    assert told in result.stderr


ONE = {"strategy": "naive", "backends": "huggingface", "max_batch_size": 4}
