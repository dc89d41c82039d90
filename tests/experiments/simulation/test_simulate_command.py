"""`batchyard simulate`: one command from a config to a page that says that nothing was measured."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.read import read

ROOT = Path(__file__).parents[3]

Batchyard = Callable[..., Any]
Written = Callable[..., Path]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, batchyard: Batchyard, written: Written) -> tuple[Path, Any]:
    """The folder of a simulated sweep, and what the command gave."""
    folder = tmp_path_factory.mktemp("simulated")
    config = written(folder)
    results = folder / "results"
    result = batchyard(
        "simulate", config, "--results", results, "--repeats", 3, "--hardware", "h200", "--json"
    )
    (sweep,) = results.iterdir()
    return sweep, result


def test_it_says_what_was_found_and_that_it_is_simulated(ran: tuple[Path, Any]):
    folder, result = ran
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["done_cells"], found["complete"], found["name"]) == (24, True, "made-simulated")
    assert folder.name.startswith("made-simulated-")
    assert {cell["backend"] for cell in found["cells"]} == {"simulated huggingface", "simulated vllm"}
    assert {cell["device"] for cell in found["cells"]} == {"virtual"}
    assert found["sentences"]
    assert all("simulated" in sentence["text"] for sentence in found["sentences"])
    assert "simulated vllm: roofline of NVIDIA H200" in result.stderr


def test_its_document_says_where_the_step_times_come_from(ran: tuple[Path, Any]):
    info = json.loads((ran[0] / "sweep.json").read_text())
    record = info["simulated"]
    assert record["options"] == ["--hardware", "h200", "--repeats", "3"]
    assert record["repeats"] == 3
    for backend in ("huggingface", "vllm"):
        assert record["backends"][backend]["step_model"]["model"] == "roofline"
        assert record["backends"][backend]["kind"] == "data sheet"


def test_the_page_is_labelled_and_shows_knees_slots_and_theory(ran: tuple[Path, Any]):
    page = (ran[0] / "report.html").read_text()
    assert "<strong>Simulated.</strong>" in page
    assert "simulated vllm (no measurement)" in page
    assert "on vllm" not in page.replace("on simulated vllm", "")
    assert 'id="occupancy"' in page
    assert "of slot-steps that make a token" in page
    assert "Thin lines: theory" in page
    assert "batchyard simulate made.yaml --hardware h200 --repeats 3 --fresh" in page


def test_what_reads_a_sweep_reads_this_one(ran: tuple[Path, Any], batchyard: Batchyard, tmp_path: Path):
    folder, _ = ran
    listed = json.loads(batchyard("ls", "--results", folder.parent, "--json").stdout)
    assert [(one["state"], one["simulated"]) for one in listed] == [("complete", True)]
    assert "complete, simulated" in batchyard("ls", "--results", folder.parent).stdout
    status = batchyard("status", folder)
    assert "simulated, not measured: vllm: roofline" in status.stdout
    assert "3/3" in status.stdout
    assert status.stderr == ""
    table = tmp_path / "requests.csv"
    assert batchyard("export", folder, "--csv", table).exit_code == 0
    with table.open() as file:
        exported = list(csv.DictReader(file))
    rows = read(folder).requests
    assert len(exported) == rows.num_rows
    longest = [float(row["itl_max_s"]) for row in exported if row["itl_max_s"]]
    assert longest == pytest.approx([gap for gap in rows["itl_max_s"].to_pylist() if gap is not None])
    drawn = batchyard("report", folder, "-o", tmp_path / "page.html", "--json")
    assert json.loads(drawn.stdout)["sentences"] == json.loads(ran[1].stdout)["sentences"]
    assert 'id="occupancy"' in (tmp_path / "page.html").read_text()


def test_it_is_done_once_and_anew_when_asked(ran: tuple[Path, Any], batchyard: Batchyard):
    folder, _ = ran
    again = batchyard("resume", folder)
    assert again.exit_code == 0
    assert "This sweep is complete (24 cells)" in again.stdout


def test_automatic_rates_stand_on_both_sides_of_the_knees(
    batchyard: Batchyard, written: Written, tmp_path: Path
):
    config = written(tmp_path, arrival_rate="auto")
    result = batchyard("simulate", config, "--results", tmp_path / "r", "--repeats", 1, "--json")
    assert result.exit_code == 0
    cells = json.loads(result.stdout)["cells"]
    rates = sorted({cell["rate"] for cell in cells})
    assert len(rates) == 3
    at = {rate: [cell["verdicts"] for cell in cells if cell["rate"] == rate] for rate in rates}
    assert not any("overloaded" in verdicts for verdicts in at[rates[0]])
    assert all("overloaded" in verdicts for verdicts in at[rates[-1]])


@pytest.mark.parametrize(
    ("changes", "arguments", "told"),
    [
        ({"simulation": {"kv_blocks": 0}}, (), "simulation.kv_blocks: must be at least 1, got 0"),
        (
            {"strategies": [{"strategy": "continuous", "backends": "vllm", "max_batch_size": 0}]},
            (),
            "max_batch_size: must be at least 1, got 0",
        ),
        (
            {"strategies": [{"strategy": "continuous", "backends": "huggingface", "max_batch_size": 4}]},
            (),
            "continuous needs a backend that lets a request join",
        ),
        (
            {"simulation": {"max_num_batched_tokens": 3}},
            (),
            "simulation.max_num_batched_tokens: must be at least 4, the most sequences of a step, got 3",
        ),
        ({"simulation": {"kv_blocks": 1}}, (), "simulation.kv_blocks: must hold "),
        (
            {"simulation": {"kv_reserve_gib": 1000}},
            ("--hardware", "h200"),
            "simulation.kv_reserve_gib 1000 leaves no memory for a padded batch",
        ),
        ({}, ("--hardware", "h201"), "--hardware"),
        (
            {},
            ("--hardware", "h200", "--calibration", "."),
            "from one of --hardware and --calibration, got both",
        ),
        ({"model": "llama-2-13b"}, ("--hardware", "l4"), "does not fit NVIDIA L4"),
        ({}, ("--repeats", "0"), "repeats"),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(
    batchyard: Batchyard,
    written: Written,
    tmp_path: Path,
    changes: dict[str, Any],
    arguments: tuple[str, ...],
    told: str,
):
    result = batchyard(
        "simulate", written(tmp_path, **changes), "--results", tmp_path / "results", *arguments
    )
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert told in line
    assert not (tmp_path / "results").exists()


def test_neither_ray_nor_torch_is_imported(written: Written, tmp_path: Path):
    arguments = ["simulate", str(written(tmp_path)), "--results", str(tmp_path / "r"), "--repeats", "1"]
    code = (
        "import sys, contextlib, io\nfrom experiments.cli import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    app({arguments!r})\n"
        "print(*({'ray', 'torch', 'transformers', 'vllm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == ""
    assert len(list((tmp_path / "r").glob("made-simulated-*/report.html"))) == 1
