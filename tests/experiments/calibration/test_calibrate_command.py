"""`batchyard calibrate`, and what uses its file: known costs are found again, and what does not fit is refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.calibration.calibrate import calibrate
from experiments.calibration.calibration import read
from experiments.calibration.page import render
from experiments.calibration.text import warnings
from experiments.config import SweepConfig
from experiments.errors import ConfigError
from experiments.explain.basis import automatic_rates, bases, reported
from experiments.explain.explanation import explain
from experiments.explain.text import text
from experiments.simulation.engines import engine_of
from experiments.simulation.run import run_simulation
from experiments.simulation.simulation import Simulation
from results.read import read as read_rows
from tests.experiments.calibration.conftest import COSTS, VALUES
from tests.plotly_texts import texts_of_page
from tests.results.table_texts import numbers_as_text

Batchyard = Callable[..., Any]


@pytest.fixture(scope="module")
def made(known: Path, batchyard: Batchyard, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The file of a calibration, and what the command gave."""
    path = tmp_path_factory.mktemp("calibration") / "made.json"
    return path, batchyard("calibrate", known, "-o", path)


@pytest.fixture
def changed(made: tuple[Path, Any], tmp_path: Path) -> Callable[..., Path]:
    """`changed(lambda values: …)`: a copy of the file whose document was changed."""

    def write(change: Callable[[dict[str, Any]], Any]) -> Path:
        values = json.loads(made[0].read_text())
        change(values)
        path = tmp_path / "changed.json"
        path.write_text(json.dumps(values))
        return path

    return write


@pytest.mark.parametrize("backend", list(COSTS))
def test_known_costs_are_found_again(made: tuple[Path, Any], backend: str):
    found = read(made[0]).backends[backend]
    for cost in fields(COSTS[backend]):
        assert getattr(found.costs, cost.name) == pytest.approx(getattr(COSTS[backend], cost.name), rel=1e-3)
    assert found.fit.r_squared > 0.999999
    assert found.fit.left_out == {}


def test_it_says_what_each_cost_explains_and_writes_a_page(made: tuple[Path, Any]):
    path, result = made
    assert (result.exit_code, result.stderr) == (0, "")
    said = result.stdout
    assert "huggingface: smollm2-135m, virtual; " in said
    assert "a sequence in it" in said
    assert " is simulated: nothing of this was measured" in said
    assert "700 " in said
    assert f"calibration: {path}; " in said
    page = path.with_suffix(".html").read_text(encoding="utf-8")
    assert "<strong>Simulated.</strong>" in page
    for panel in ("predicted", "residuals", "terms", "trials"):
        assert f'id="{panel}"' in page
    assert numbers_as_text(page) == []


def test_markup_in_names_is_shown_on_its_page(known: Path):
    evil = '<script>alert("no")</script>'
    found = calibrate(known)
    (backend, costs), *others = found.calibration.backends.items()
    hostile = replace(
        found,
        calibration=replace(
            found.calibration, sweep=evil, backends={evil: replace(costs, model=evil), **dict(others)}
        ),
        observed={evil: found.observed[backend], **{name: found.observed[name] for name, _ in others}},
    )
    html = render(hostile)
    assert html.count(evil) == 0
    drawn = texts_of_page(html)
    assert not any("<script" in text for text in drawn)
    assert any("&lt;script" in text for text in drawn)


@pytest.mark.parametrize(
    ("r_squared", "total", "told"), [(0.9, 1.02, False), (0.2, 1.0, True), (0.9, 0.74, True)]
)
def test_a_poor_fit_is_told(made: tuple[Path, Any], r_squared: float, total: float, told: bool):
    calibration = read(made[0])
    known = calibration.backends["vllm"]
    fit = replace(known.fit, r_squared=r_squared, total=total)
    one = replace(calibration, backends={"vllm": replace(known, fit=fit)})
    said = list(warnings(one))
    assert [f"R² {r_squared:.2f}" in line and f"took {total:.2f}" in line for line in said] == [True] * told


def test_json_is_one_document_and_a_file_of_ones_own_is_not_overwritten(
    known: Path, made: tuple[Path, Any], batchyard: Batchyard, tmp_path: Path
):
    path = tmp_path / "own.json"
    path.write_text("{}")
    refused = batchyard("calibrate", known, "-o", path)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"error: {path} is there already")
    document = json.loads(batchyard("calibrate", known, "-o", path, "--force", "--json").stdout)
    assert document["backends"]["vllm"]["fit"] == json.loads(made[0].read_text())["backends"]["vllm"]["fit"]
    assert document["page"] == str(path.with_suffix(".html"))
    again = batchyard("calibrate", known, "-o", path)
    assert f"replaced: {path} held a calibration of {known.name}" in again.stderr
    path.write_text(json.dumps(document | {"sweep": "another"}))
    refused = batchyard("calibrate", known, "-o", path)
    assert refused.stderr == (
        f"error: {path} is there already and is no calibration of {known.name}; --force overwrites it\n"
    )


def test_it_lies_in_the_sweep_by_default_and_is_made_anew(known: Path, batchyard: Batchyard, tmp_path: Path):
    folder = Path(shutil.copytree(known, tmp_path / "copied"))
    (folder / "calibration.json").write_text("{}")  # its place is always free for it
    assert batchyard("calibrate", folder).exit_code == 0
    assert read(folder / "calibration.json").sweep == "copied"


def test_a_simulation_says_on_what_it_rests_and_repeats_what_was_calibrated(
    known: Path,
    made: tuple[Path, Any],
    batchyard: Batchyard,
    config_values: Callable[..., Any],
    tmp_path: Path,
):
    config = tmp_path / "made.yaml"
    config.write_text(yaml.safe_dump(config_values(**VALUES, simulation={"max_num_batched_tokens": 48})))
    told = batchyard(
        "simulate", config, "--calibration", made[0], "--results", tmp_path / "r", "--repeats", 3, "--json"
    )
    assert told.exit_code == 0, told.stderr
    assert f"simulated vllm: calibration of {known.name}: 18 + 0.4·B ms a step" in told.stderr
    (folder,) = (tmp_path / "r").iterdir()
    assert f"calibration of {known.name}" in (folder / "report.html").read_text()
    assert "--calibration" in json.loads((folder / "sweep.json").read_text())["simulated"]["options"]
    compared = json.loads(batchyard("compare", known, folder, "--json").stdout)
    changes = [change for cell in compared["cells"] for change in cell["changes"].values() if change["ratio"]]
    assert changes
    assert [change["ratio"] for change in changes] == pytest.approx([1] * len(changes), abs=1e-3)


def test_theory_rests_on_it_too(
    made: tuple[Path, Any], batchyard: Batchyard, config_values: Callable[..., Any], tmp_path: Path
):
    config = tmp_path / "made.yaml"
    config.write_text(yaml.safe_dump(config_values(**VALUES)))
    told = batchyard("explain", config, "--calibration", made[0], "--results", tmp_path)
    assert told.exit_code == 0
    assert "calibration of made-simulated-" in told.stdout


def test_automatic_rates_are_those_of_the_calibrated_sweep_where_the_rest_is_alike(
    made: tuple[Path, Any], changed: Callable[..., Path], made_config: Callable[..., SweepConfig]
):
    calibration = read(changed(lambda values: values["config"].update(arrival_rate="auto")))
    alike = made_config(**{**VALUES, "arrival_rate": "auto", "repeats": 7})
    assert automatic_rates(alike, calibration) == (4, 30)
    others = {**VALUES["strategies"][1], "max_batch_size": 3}
    assert (
        automatic_rates(
            made_config(**{**VALUES, "arrival_rate": "auto", "strategies": [others]}), calibration
        )
        == ()
    )
    assert automatic_rates(made_config(**VALUES), calibration) == ()
    assert automatic_rates(alike, read(made[0])) == ()
    simulation = Simulation.of(alike, bases(alike, calibration=calibration), rates=(4, 30))
    assert {cell.rate for cell in simulation.cells()} == {4, 30}
    assert {cell.rate for cell in Simulation.from_info(simulation.info(), "x").cells(simulation.info())} == {
        4,
        30,
    }


def test_the_engine_has_the_limits_that_the_measured_one_told(
    changed: Callable[..., Path], made_config: Callable[..., SweepConfig]
):
    def tell(values: dict[str, Any]) -> None:
        (engine,) = values["backends"]["vllm"]["engines"]
        engine.update(max_num_batched_tokens=1024, kv_blocks=364, kv_block_tokens=128)

    config = made_config(**VALUES)
    found = bases(config, calibration=read(changed(tell)))
    simulation = Simulation.of(config, found)
    cell = next(cell for cell in simulation.cells() if cell.backend == "vllm")
    engine: Any = engine_of(cell, simulation.premises["vllm"], config.simulation)
    assert engine.max_num_batched_tokens == 1024
    assert (engine.kv.blocks, engine.kv.block_tokens) == (364, 128)
    assert reported(found["vllm"].engines, {"max_num_seqs": 99}).kv_blocks == 364
    explanation = explain(config, found)
    (vllm,) = (one for one in explanation.theories if one.setting.strategy == "continuous")
    assert vllm.kv_tokens == 364 * 128
    told = [line.split() for line in text(explanation)]
    assert ["–", "–"] in [line[-2:] for line in told if line[:2] == ["huggingface", "dynamic"]]
    assert "46,592" in [line[-2] for line in told if line[:2] == ["vllm", "continuous"]]


def test_the_way_to_the_replica_is_a_part_of_latency(
    changed: Callable[..., Path], made_config: Callable[..., SweepConfig], tmp_path: Path
):
    def lag(values: dict[str, Any]) -> None:
        for one in values["backends"].values():
            one["arrival_lag_s"] = 0.25

    config = made_config(**{**VALUES, "arrival_rate": [1]})
    ttft, planned = [], []
    for change in (lambda _: None, lag):
        simulation = Simulation.of(config, bases(config, calibration=read(changed(change))), repeats=1)
        root = simulation.root(tmp_path)
        run_simulation(simulation, root, lambda _: None)
        requests = read_rows(root).requests
        planned.append(requests["planned_s"].to_numpy())
        ttft.append(requests["ttft_s"].to_numpy())
    assert planned[1] == pytest.approx(planned[0], abs=1e-9)
    assert ttft[1] == pytest.approx(ttft[0] + 0.25, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda values: values.update(calibration_version=2),
            "calibration_version must be 1, got 2; it was written by a newer",
        ),
        (
            lambda values: values.pop("calibration_version"),
            "calibration_version must be 1, got None; `batchyard calibrate SWEEP`",
        ),
        (lambda values: values.pop("backends"), "changed.json is damaged: has no 'backends'"),
        (
            lambda values: values["backends"]["vllm"]["fit"]["costs"].update(fixed_s=-1),
            "damaged: fixed_s must be at least 0",
        ),
        (
            lambda values: values["backends"].pop("vllm"),
            "strategies: names the backend vllm, and the calibration of",
        ),
        (
            lambda values: values["backends"]["vllm"].update(model="tiny"),
            "model: is smollm2-135m, and the calibration of",
        ),
    ],
)
def test_a_calibration_that_does_not_hold_is_one_line(
    changed: Callable[..., Path],
    batchyard: Batchyard,
    config_values: Callable[..., Any],
    tmp_path: Path,
    change: Callable[[dict[str, Any]], Any],
    told: str,
):
    config = tmp_path / "made.yaml"
    config.write_text(yaml.safe_dump(config_values(**VALUES)))
    result = batchyard("simulate", config, "--calibration", changed(change), "--results", tmp_path / "r")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert told in line
    assert not (tmp_path / "r").exists()


def test_what_is_no_calibration_is_one_line(
    made: tuple[Path, Any], batchyard: Batchyard, config_values: Callable[..., Any], tmp_path: Path
):
    config = tmp_path / "made.yaml"
    config.write_text(yaml.safe_dump(config_values(**VALUES)))
    (tmp_path / "cut.json").write_text(made[0].read_text()[:200])
    for path, why in (
        ("none.json", "cannot be read"),
        ("cut.json", "must be JSON"),
        ("made.yaml", "must be JSON"),
    ):
        result = batchyard("explain", config, "--calibration", tmp_path / path)
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
        assert f"{path} {why}" in result.stderr


def test_another_dtype_or_other_threads_are_refused(
    changed: Callable[..., Path], made_config: Callable[..., SweepConfig]
):
    calibration = read(changed(lambda values: values["backends"]["vllm"].update(dtype="bfloat16", threads=2)))
    bases(made_config(**VALUES), calibration=calibration)
    for changes, told in (
        (
            {"model": {"name": "smollm2-135m", "dtype": "float32"}},
            "dtype: is float32, and the calibration of",
        ),
        ({"backends": {"vllm": {"threads": 4}}}, "threads: is 4, and the calibration of"),
        ({"backends": {"vllm": {"enforce_eager": False}}}, "enforce_eager: is False, and the calibration of"),
    ):
        with pytest.raises(ConfigError, match=told):
            bases(made_config(**VALUES, **changes), calibration=calibration)


def test_a_sweep_without_trials_is_told(
    batchyard: Batchyard,
    begun_sweep: Callable[..., Path],
    made_config: Callable[..., SweepConfig],
    tmp_path: Path,
):
    folder = begun_sweep(made_config(), tmp_path)
    result = batchyard("calibrate", folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {folder} has no trial that is done: nothing to calibrate with\n"
    assert not (folder / "calibration.json").exists()
