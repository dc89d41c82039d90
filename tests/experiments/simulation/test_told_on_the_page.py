"""What a simulated sweep counted of its KV cache and did to its trace is on its page, in its record and at its end."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from results.findings import Occupancy
from results.read import read
from results.report import occupancy
from results.store import Store
from results.summary import find
from tests.workloads.written_trace import write_trace

NOTE = "1 rows without prompt or output tokens are left out, the first on line 5"


@pytest.fixture(scope="module")
def pressed(
    tmp_path_factory: pytest.TempPathFactory, batchyard: Callable[..., Any], written: Callable[..., Path]
) -> tuple[Path, Any]:
    """A sweep whose cache holds 160 tokens, of a trace with an empty row, and what the command gave."""
    folder = tmp_path_factory.mktemp("pressed")
    rows = [(index * 500_000, 20 + index % 30, 0 if index == 3 else 30) for index in range(120)]
    write_trace(folder / "trace.csv", rows)
    config = written(
        folder,
        workload={"trace": {"path": str(folder / "trace.csv")}, "prompts": {"source": "random"}},
        arrival_rate=[40],
        duration_s=2,
        strategies=[
            {"strategy": "naive", "backends": "huggingface", "max_batch_size": 4},
            {"strategy": "continuous", "backends": "vllm", "max_batch_size": 4},
        ],
        simulation={"kv_blocks": 10, "kv_block_tokens": 16},
    )
    result = batchyard("simulate", config, "--results", folder / "r", "--repeats", 1)
    (sweep,) = (folder / "r").iterdir()
    return sweep, result


def test_the_cache_is_told_of_where_there_is_one(pressed: tuple[Path, Any]):
    found = find(Store(pressed[0]))
    of = {one.trial.strategy: one for one in found.trials}
    counted, metrics = of["continuous"].trial.counters, of["continuous"].metrics
    assert all(type(count) is int for count in counted.values())
    assert counted["preemptions"] > 0
    assert metrics["kv_preemptions"] == counted["preemptions"]
    assert metrics["kv_use_peak"] == counted["peak_blocks"] / 10
    assert 0 < metrics["kv_use_mean"] < metrics["kv_use_peak"] <= 1
    assert of["naive"].metrics["kv_use_mean"] is None
    rows = read(pressed[0]).requests
    assert sum(filter(None, rows["preemptions"].to_pylist())) == counted["preemptions"]
    page = (pressed[0] / "report.html").read_text(encoding="utf-8")
    assert "KV cache, peak" in page
    assert "recomputed tokens" in page
    assert f"{counted['recomputed_tokens']:,}" in page


def test_a_sweep_without_a_limited_cache_has_no_such_columns(
    batchyard: Callable[..., Any], written: Callable[..., Path], tmp_path: Path
):
    config = written(tmp_path, arrival_rate=[60], duration_s=5)
    assert batchyard("simulate", config, "--results", tmp_path / "r", "--repeats", 1).exit_code == 0
    (page,) = (tmp_path / "r").glob("*/report.html")
    assert "KV cache, peak" not in page.read_text(encoding="utf-8")


def test_what_became_of_the_trace_is_kept_and_said(pressed: tuple[Path, Any]):
    folder, result = pressed
    assert NOTE in json.loads((folder / "sweep.json").read_text())["trace_notes"]
    assert f"<li>{NOTE}</li>" in (folder / "report.html").read_text(encoding="utf-8")
    assert NOTE in " ".join(result.stdout.split())


def test_the_share_of_a_run_that_was_cut_is_not_of_the_whole_trial(pressed: tuple[Path, Any]):
    made = Occupancy(
        backend="vllm",
        setting="naive · 4",
        rate=5.0,
        repeat=0,
        slots=4,
        steps=0,
        utilisation=0.5,
        requests=10,
        planned=10,
        stretches=(),
    )
    findings = find(Store(pressed[0]))

    other = replace(made, backend="huggingface")
    heading = occupancy.panel(replace(findings, occupancy=(made, other))).first.heading
    assert heading.endswith("is on vllm 50 % with naive · 4; on huggingface 50 % with naive · 4")

    def notes(one: Occupancy) -> str:
        return " ".join(occupancy.panel(replace(findings, occupancy=(one,))).notes)

    assert "over the whole trial; a prefill" in notes(made)
    assert "at 5 req/s over its first 10 requests alone" in notes(replace(made, planned=11))
