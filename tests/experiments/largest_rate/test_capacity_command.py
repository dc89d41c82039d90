"""`batchyard capacity --simulate`: the search as the command runs it, against capacities that are known exactly.

Arrivals at equal gaps and answers of one length leave nothing to chance: below μ nothing queues, above it the
backlog grows from the first batch on. (On real engines it runs cells by `experiments.block.fit`, as a sweep does.)
"""

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from results.store import Store

STEP_S, PROMPT_S = (0.022 + 0.00035 * 8), 60e-6  # the default engine with 8 sequences
PROMPT_TOKENS, OUTPUT_TOKENS = 100, 20
CONFIG: dict[str, Any] = {
    "name": "known",
    "workload": {
        "arrivals": {"process": "constant"},
        "prompts": {"source": "random", "tokens": {"distribution": "fixed", "tokens": PROMPT_TOKENS}},
        "output_tokens": {"distribution": "fixed", "tokens": OUTPUT_TOKENS},
    },
    "duration_s": 30,
    "strategies": [
        {"strategy": "naive", "backends": "simulated", "max_batch_size": 8},
        {"strategy": "dynamic", "backends": "simulated", "max_batch_size": 8, "max_wait_ms": 100},
    ],
}
MU = 8 / (STEP_S + 8 * PROMPT_TOKENS * PROMPT_S + (OUTPUT_TOKENS - 1) * STEP_S)  # 14.7 requests/s
Search = Callable[..., Result]


@pytest.fixture
def search(batchyard: Callable[..., Result], tmp_path: Path) -> Search:
    """`search("--width", "5%", strategies=[…])`: the command over a config that is changed so."""

    def run(*options: object, slo: str = "e2e_p99=1500ms", **changes: Any) -> Result:
        path = tmp_path / "known.yaml"
        path.write_text(yaml.safe_dump(CONFIG | changes))
        results = ("--results", tmp_path / "data")
        return batchyard("capacity", path, "--slo", slo, "--simulate", *results, *options)

    return run


def answers(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)["answers"]
    return found


def folder(tmp_path: Path) -> Path:
    [found] = (tmp_path / "data").iterdir()
    return found


def test_the_bracket_holds_the_capacity_and_is_as_narrow_as_asked(search: Search, tmp_path: Path):
    for answer in answers(search("--width", "5%", "--json")):
        assert answer["within"] <= MU <= answer["beyond"] <= 1.05 * answer["within"], answer
        assert answer["saturation"] == pytest.approx(MU, rel=0.01)
        assert answer["why_beyond"].startswith(("overloaded: ", "p99 E2E ≤ 1.5 s: "))
    page = (folder(tmp_path) / "report.html").read_text()
    assert "Largest rate with p99 E2E ≤ 1.5 s" in page.replace("\u00a0", " ").replace("&nbsp;", " ")
    [heading] = re.findall(r"<h1>(.*)</h1>", page)
    said = " ".join(html.unescape(heading).split())  # at no-break spaces too
    assert re.match(
        r"(Naive|Dynamic) · 8.* on simulated keeps p99 E2E ≤ 1.5 s up to 1[\d.]+ req/s and not at", said
    )


def test_an_engine_that_forms_its_batch_anew_is_searched_too(search: Search):
    engine = {"simulated": {"engine": "iteration"}}
    one = [{"strategy": "continuous", "backends": "simulated", "max_batch_size": 1}]
    [answer] = answers(search("--json", slo="e2e_p99=460ms", strategies=one, backends=engine))
    capacity = 1 / (OUTPUT_TOKENS * (0.022 + 0.00035) + PROMPT_TOKENS * PROMPT_S)
    assert answer["within"] <= capacity <= answer["beyond"] <= 1.1 * answer["within"]


def test_the_same_command_and_resume_run_nothing_again_and_another_level_goes_on(
    search: Search, batchyard: Callable[..., Result], tmp_path: Path
):
    first = search("--strategy", "naive")
    assert "naive · 8" in first.stdout
    assert "dynamic" not in first.stdout
    trials = len(Store(folder(tmp_path)).trials())
    assert search("--strategy", "naive").stdout == first.stdout
    resumed = batchyard("resume", folder(tmp_path))
    assert (resumed.exit_code, resumed.stdout) == (0, first.stdout)
    assert len(Store(folder(tmp_path)).trials()) == trials
    [tighter] = answers(search("--strategy", "naive", "--width", "2%", "--json", slo="e2e_p99=1300ms"))
    assert tighter["beyond"] <= 1.02 * tighter["within"]
    assert len(Store(folder(tmp_path)).trials()) > trials
    said = batchyard("status", folder(tmp_path)).stdout
    assert (
        f"search: 1 of 1 settings have their bracket, {len(Store(folder(tmp_path)).trials())} trials done"
        in said
    )


def test_a_search_that_was_stopped_goes_on_where_it_was(search: Search, tmp_path: Path):
    [whole] = answers(search("--strategy", "naive", "--json"))
    [last] = [
        trial.cell_id
        for trial in Store(folder(tmp_path)).trials()
        if (trial.rate, trial.repeat) == (whole["beyond"], 1)
    ]
    (folder(tmp_path) / "cells" / last / "attempt-1" / "done.json").unlink()
    assert answers(search("--strategy", "naive", "--json")) == [whole]
    attempts = {cell.name: len(list(cell.iterdir())) for cell in folder(tmp_path).glob("cells/*")}
    assert [name for name, count in attempts.items() if count == 2] == [last]


def test_a_level_that_no_rate_keeps_has_no_bracket(search: Search):
    [answer] = answers(search("--strategy", "naive", "--json", slo="e2e_p50=1ms"))
    assert answer["within"] is None
    assert answer["complete"]


def test_a_dry_run_says_where_it_would_begin_and_how_long_it_may_take_and_writes_nothing(
    search: Search, tmp_path: Path
):
    said = search("--dry-run").stdout
    rows = [line.split() for line in said.splitlines() if line.startswith("simulated")]
    assert [row[1] for row in rows] == ["naive", "dynamic"]
    assert "then rates around its edge: usually 6 to 12 trials, 30 at the most." in said
    assert "In virtual time, on one core: about " in said
    assert not (tmp_path / "data").exists()
    plan = json.loads(search("--dry-run", "--max-trials", "20", "--json").stdout)
    assert [one["trial_s"] for one in plan["settings"]] == [30, 30]
    assert plan["settings"][0]["starts_at"] == pytest.approx(0.7 * MU)
    assert plan["time_s"]["low"] < plan["time_s"]["likely"] < plan["time_s"]["high"]
    search("--strategy", "naive")
    assert "complete" in search("--strategy", "naive", "--dry-run").stdout


def test_a_search_that_runs_out_of_trials_says_so_and_a_larger_number_goes_on(search: Search, tmp_path: Path):
    asked = ("--strategy", "naive", "--width", "1%")
    stopped = search(*asked, "--max-trials", "4")
    assert stopped.exit_code == 0
    assert "4, not settled" in stopped.stdout
    assert "A larger --max-trials goes on." in stopped.stdout
    assert "4, not settled" in (folder(tmp_path) / "report.html").read_text()
    [answer] = answers(search(*asked, "--max-trials", "4", "--json"))
    assert (answer["complete"], answer["settled"], answer["trials"]) == (True, False, 4)
    assert answer["within"] is None or answer["within"] <= MU
    assert answer["beyond"] is None or answer["beyond"] > MU
    [whole] = answers(search(*asked, "--json"))
    assert whole["settled"]
    assert whole["trials"] > 4


@pytest.mark.parametrize(
    ("options", "slo", "said"),
    [
        ((), "ttft=5s", "error: --slo must read like ttft_p99=500ms,e2e_p95=5s, got ttft=5s"),
        (
            (),
            "speed_p99=5s",
            "error: --slo must limit one of ttft, tpot, itl, e2e, queue_wait, delivered, got speed",
        ),
        (
            (),
            "ttft_p101=5s",
            "error: --slo must have a percentile in 0..100 and a limit above 0, got ttft_p101=5s",
        ),
        (("--width", "0.1%"), "e2e_p95=5s", "error: --width must be 1% to 100%, got 0.1%"),
        (("--width", "wide"), "e2e_p95=5s", "error: --width must be 1% to 100%, got wide"),
        (
            ("--strategy", "continuous"),
            "e2e_p95=5s",
            "error: --strategy must be one of the config's (naive, dynamic), got continuous",
        ),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_starts_nothing(
    search: Search, tmp_path: Path, options: tuple[str, ...], slo: str, said: str
):
    result = search(*options, slo=slo)
    assert (result.exit_code, result.stderr, result.stdout) == (2, f"{said}\n", "")
    assert not (tmp_path / "data").exists()
