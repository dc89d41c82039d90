"""`batchyard sweep --dry-run`: everything is said, nothing is started or written."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from experiments.config import SweepConfig, load, parse
from experiments.plan import make_plan
from results.lock import SweepLock

ROOT = Path(__file__).parents[2]


@pytest.fixture
def dry(tmp_path: Path, batchyard: Callable[..., Result]) -> Callable[..., Result]:
    """`dry(values, "--json")`: a dry run of these values, with results in tmp_path/results."""

    def run(values: dict[str, Any], *more: object) -> Result:
        path = tmp_path / "made.yaml"
        path.write_text(yaml.safe_dump(values))
        return batchyard("sweep", path, "--dry-run", "--results", tmp_path / "results", *more)

    return run


def test_it_says_cells_loads_and_time(dry: Callable[..., Result], config_values: Callable[..., Any]):
    result = dry(config_values(arrival_rate=[1, 4], repeats=2))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("made: 28 cells (not begun), results in ")
    assert "dynamic · 4 · 500 ms" in result.stdout
    assert any(line.split() == ["vllm", "continuous", "·", "4", "1,", "4", "2", "4", "0"] for line in lines)
    assert any(line.startswith("Engine loads: ") for line in lines)
    assert any(line.startswith("Time on one lane: ") and "repeat 2" in line for line in lines)
    assert lines[-1] == "Nothing was started, and nothing was written."


def test_it_says_what_is_likely_where_something_has_timed_its_engines(
    dry: Callable[..., Result],
    config_values: Callable[..., Any],
    begun_sweep: Callable[..., Path],
    tmp_path: Path,
):
    values = config_values(arrival_rate=[1, 4], repeats=1)
    unknown = dry(values).stdout
    assert re.search(r"Time on one lane: \d+ to \d+ min \(repeat 1 ", unknown)
    assert "Which trials have much to drain is not known: nothing in the results folder has timed" in unknown
    earlier = begun_sweep(parse(values | {"seed": 5}), tmp_path / "results", done=14)
    known = dry(values).stdout
    assert re.search(r"Time on one lane: about \d+ min \(repeat 1 about \d+ min\)", known), known
    assert "14 of the cells left have a twin that is done, here or in an earlier run" in known
    info = json.loads((earlier / "sweep.json").read_text())
    step_times = {"fixed_s": 0.1, "per_sequence_s": 0.0, "prefill_s_per_token": 0.0}
    info["measured"] = {name: {"step_times": step_times} for name in ("huggingface", "vllm")}
    (earlier / "sweep.json").write_text(json.dumps(info))
    longer = dry(values | {"duration_s": 30}).stdout
    assert re.search(r"Time on one lane: about \d+ min, \d+ to \d+ in any case \(repeat 1 about \d+", longer)
    assert f"Likely is what each rate leaves behind, by the step times of {earlier.name}." in longer


def test_it_says_what_is_left_will_cost(
    dry: Callable[..., Result],
    config_values: Callable[..., Any],
    begun_sweep: Callable[..., Path],
    tmp_path: Path,
):
    values = config_values(arrival_rate=[1, 4], repeats=2)
    assert "ost of what is left" not in dry(values).stdout
    begun_sweep(parse(values), tmp_path / "results", done=14, failed=1)
    priced = values | {"price_per_gpu_hour": 3600}  # a second costs 1; added later, it is the same sweep
    document = json.loads(dry(priced, "--json").stdout)
    assert document["cost"]["spent"] == 14 * 9.0 + 3.0
    assert document["cost"]["left_at_least"] == pytest.approx(document["whole"]["low_s"])
    assert document["cost"]["left_at_most"] == pytest.approx(document["whole"]["high_s"])
    said = dry(priced).stdout
    assert "Spent so far: $129.00, 0.0358 GPU hours." in said
    assert re.search(r"Cost of what is left: .*\$\d+\.\d\d to \$[\d,.]+ in any case", said), said
    other = values | {"price_per_gpu_hour": {"A10G": 1}}
    assert "`any` names one" in dry(other).stdout


def test_it_says_what_auto_would_measure(dry: Callable[..., Result], config_values: Callable[..., Any]):
    result = dry(config_values(arrival_rate="auto", duration_s="auto"))
    assert result.exit_code == 0, result.output
    (timed,) = [line for line in result.stdout.splitlines() if line.startswith("Measured first: ")]
    assert "huggingface at batch 1, 4" in timed
    assert "vllm at batch 1, 4" in timed
    assert "what padded batches of huggingface take of memory beside keys and values" in timed
    assert "A rate below 2 requests/s" in result.stdout


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({"arrival_rate": "auto", "duration_s": 2}, "naive would only flush what it has (the rates are estimated)"),
        ({"arrival_rate": [1, 4], "duration_s": 4}, "naive would only flush what it has"),
    ],
)  # fmt: skip
def test_batches_that_are_never_filled_are_told(
    dry: Callable[..., Result], config_values: Callable[..., Any], changes: dict[str, Any], end: str
):
    naive = {"strategy": "naive", "backends": "simulated", "max_batch_size": 500}
    prompts = {"source": "random", "tokens": {"distribution": "fixed", "tokens": 8}}
    outputs = {"distribution": "fixed", "tokens": 8}
    values = config_values(
        model=..., strategies=[naive], workload={"prompts": prompts, "output_tokens": outputs}
    )
    result = dry({**values, **changes})
    assert result.exit_code == 0, result.output
    (warning,) = [line for line in result.stderr.splitlines() if "is never filled at" in line]
    assert warning.startswith("warning: ")
    assert "strategies[0].max_batch_size: 500 is never filled at " in warning
    assert warning.endswith(end)


def test_nothing_is_written(tmp_path: Path, dry: Callable[..., Result], config_values: Callable[..., Any]):
    for more in ((), ("--json",), ("--fresh",)):
        assert dry(config_values(), *more).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["made.yaml"]


def test_one_document_for_a_script(dry: Callable[..., Result], config_values: Callable[..., Any]):
    values = config_values(arrival_rate=[0.1], duration_s=20, repeats=1)
    result = dry(values, "--json")
    document = json.loads(result.stdout)
    assert document["planned_cells"] == 7
    assert document["folder"].endswith(f"made-{parse(values).config_hash}")
    assert document["running"] is False
    assert "warning: " in result.stderr, "beside the document"


def test_a_sweep_that_has_begun(
    tmp_path: Path,
    dry: Callable[..., Result],
    config_values: Callable[..., Any],
    made_config: Callable[..., SweepConfig],
    begun_sweep: Callable[..., Path],
):
    root = begun_sweep(made_config(), tmp_path / "results", done=5)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert "made: 28 cells (5 done, 23 left)" in dry(config_values()).stdout
    assert "counted as long as that" in dry(config_values()).stdout
    assert "made: 28 cells (not begun)" in dry(config_values(), "--fresh").stdout
    document = json.loads(dry(config_values(), "--json").stdout)
    assert (document["done_cells"], sum(cell["done"] for cell in document["cells"])) == (5, 5)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    with SweepLock(root):
        assert "It runs already: process " in dry(config_values()).stdout
        assert json.loads(dry(config_values(), "--json").stdout)["running"] is True


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--label", "zone=x"), "--label needs a cluster: give its --address too"),
        (("--on-cpu",), "--on-cpu needs a cluster: give its --address too"),
        (("--address", "http://127.0.0.1:8265"), "--address must be HOST:PORT of a cluster's head, or auto"),
    ],
)
def test_where_no_sweep_can_be_run_none_is_planned(
    dry: Callable[..., Result],
    batchyard: Callable[..., Result],
    config_values: Callable[..., Any],
    tmp_path: Path,
    options: tuple[str, ...],
    why: str,
):
    sweep = dry(config_values(), *options)
    search = batchyard("capacity", tmp_path / "made.yaml", "--slo", "ttft_p99=1s", "--dry-run", *options)
    for result in (sweep, search):
        assert result.exit_code == 2
        assert why in result.stderr


def test_a_complete_sweep(
    tmp_path: Path,
    dry: Callable[..., Result],
    config_values: Callable[..., Any],
    made_config: Callable[..., SweepConfig],
    begun_sweep: Callable[..., Path],
):
    begun_sweep(made_config(), tmp_path / "results", done=28)
    result = dry(config_values())
    assert "This sweep is complete (28 cells); --fresh starts anew." in result.stdout
    assert json.loads(dry(config_values(), "--json").stdout)["whole"] == dict.fromkeys(
        ("low_s", "likely_s", "high_s"), 0.0
    )


def test_a_model_folder_that_is_not_there(
    tmp_path: Path, dry: Callable[..., Result], config_values: Callable[..., Any]
):
    result = dry(config_values(model=str(tmp_path / "none")))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert re.match(r"error: \S+:\d+: model: model folder \S+none does not exist", result.stderr)


@pytest.mark.parametrize("name", ["full", "smoke"])
def test_the_engine_loads_that_a_config_says_are_those_of_its_plan(name: str):
    config = ROOT / "experiments" / "configs" / f"{name}.yaml"
    (said,) = re.findall(r"(\d+)(?: model)? loads", config.read_text())
    assert sum(make_plan(load(config), None, []).loads.values()) == int(said)


@pytest.mark.parametrize(
    ("config", "looks_with"),
    [("local", {"torch", "transformers"}), ("smoke", set()), ("full", set())],
    ids=["local", "smoke", "full"],
)
def test_the_configs_that_come_with_batchyard_import_neither_ray_nor_an_engine(
    config: str, looks_with: set[str], tmp_path: Path
):
    code = (
        "import sys\nfrom experiments.cli import app\n"
        f"arguments = ['sweep', 'experiments/configs/{config}.yaml', '--dry-run', '--results', {str(tmp_path)!r}]\n"
        "app(arguments, standalone_mode=False)\n"
        "print(*sorted({'ray', 'torch', 'transformers', 'vllm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert set(done.stdout.splitlines()[-1].split()) <= looks_with
    assert "Time on one lane: " in done.stdout
    assert list(tmp_path.iterdir()) == []
