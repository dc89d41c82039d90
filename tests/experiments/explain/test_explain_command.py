"""`batchyard explain`: its tables fit a terminal, its page opens offline, and bad input is one line."""

import json
from pathlib import Path

import pytest
import yaml
from rich.cells import cell_len

from experiments.sweep_record import sweep_root
from results.store import Store

ROOT = Path(__file__).parents[3]


@pytest.fixture
def config(config_values, tmp_path):
    path = tmp_path / "made.yaml"
    path.write_text(
        yaml.safe_dump(config_values(arrival_rate=[1, 2, 4, 8, 16, 32, 64, 128])), encoding="utf-8"
    )
    return path


def test_every_line_fits_80_columns_and_every_topic_is_there(batchyard, config, tmp_path):
    result = batchyard("explain", config, "--results", tmp_path)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(cell_len, lines)) <= 80
    for topic in (
        "Decoding by batch size",
        "Useful share of a lockstep batch's decoding",
        "Capacity μ",
        "Utilisation ρ",
        "Wait in queue of M/M/1",
        "Wait of naive until its batch is full",
        "Batch of dynamic",
        "Requests in flight with continuous",
    ):
        assert any(line.startswith(topic) for line in lines), topic
    assert "no measurement, the simulated engine's defaults: 22 + 0.35·B ms" in result.stdout.replace(
        "\n  ", " "
    )
    fills = next(line.split() for line in lines if "1.5 s 750 ms" in line)
    assert " ".join(fills) == "all naive · 4 1.5 s 750 ms 380 ms 190 ms 94 ms 47 ms"


def test_the_readme_shows_what_is_printed(batchyard):
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Ask theory first\n")[1]
    printed = batchyard("explain", ROOT / "experiments/configs/full.yaml", "--hardware", "H200").stdout
    for table in section.split("```\n")[1].split("\n\n"):
        assert table in printed


def test_hardware_adds_what_the_cache_holds(batchyard, config):
    result = batchyard("explain", config, "--hardware", "RTX 4090")
    assert "KV tokens" in result.stdout
    assert "most at once" in result.stdout
    assert max(map(cell_len, result.stdout.splitlines())) <= 80


def test_json_is_one_document_and_the_page_is_told_beside_it(batchyard, config, tmp_path):
    result = batchyard("explain", config, "--json", "-o", tmp_path / "out" / "theory.html")
    document = json.loads(result.stdout)
    assert document["rates"] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert document["page"].endswith("theory.html")
    assert "page:" in result.stderr
    page = (tmp_path / "out" / "theory.html").read_text(encoding="utf-8")
    assert "Nothing was run." in page
    assert "default-src 'none'" in page


def test_what_a_sweep_of_this_config_measured_is_used(batchyard, config, tmp_path):
    from experiments.config import load

    store = Store(sweep_root(load(config), tmp_path))
    times = {"fixed_s": 0.05, "per_sequence_s": 0.001, "prefill_s_per_token": 1e-4}
    store.write_sweep({"name": "made", "measured": {"vllm": {"step_times": times}}})
    result = batchyard("explain", config, "--results", tmp_path)
    assert "step times of vllm: measured by the sweep made: 50 + 1·B ms a step" in result.stdout
    assert "step times of huggingface: no measurement" in result.stdout


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ("--hardware", "h20"),
            "error: --hardware must be one of a100-40, a100-80, h100, h200, rtx-3090, rtx-4090, l4, got 'h20'",
        ),
        (
            ("--hardware", "h100", "--calibration", "x"),
            "error: explain takes step times from one of --hardware and --calibration, got both",
        ),
        (("--calibration", "nowhere"), "error: nowhere cannot be read"),
    ],
)
def test_bad_input_is_one_line(batchyard, config, options, complaint):
    result = batchyard("explain", config, *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(complaint)
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_model_that_does_not_fit_and_a_page_that_cannot_be_written_are_told(
    batchyard, config_values, config, tmp_path
):
    large = tmp_path / "large.yaml"
    large.write_text(yaml.safe_dump(config_values(model="llama-2-13b")), encoding="utf-8")
    result = batchyard("explain", large, "--hardware", "l4")
    assert result.stderr == (
        "error: meta-llama/Llama-2-13b-hf does not fit NVIDIA L4 24 GB (PCIe): its weights take 26 GB, and there "
        "are 24 GB of memory for it\n"
    )
    (tmp_path / "file").write_text("")
    result = batchyard("explain", config, "-o", tmp_path / "file" / "page.html")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
