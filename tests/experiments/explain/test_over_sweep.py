"""Lines over the page of a sweep: from what it measured, and never at the price of the page."""

from dataclasses import replace

import pytest

from deployments.virtual.step_model import Linear
from experiments.calibration.calibration import Calibrated, Calibration
from experiments.calibration.fit import Fit
from experiments.explain.basis import bases
from experiments.explain.explanation import explain
from experiments.explain.guide_lines import guides
from experiments.explain.over_sweep import guides_of, with_guides
from experiments.simulation.simulation import Simulation
from results.store import Store
from results.summary import find

STEP_TIMES = {"fixed_s": 0.05, "per_sequence_s": 0.001, "prefill_s_per_token": 1e-4}


@pytest.fixture
def sweep(made_config, begun_sweep, tmp_path):
    folder = begun_sweep(made_config(), tmp_path)
    return Store(folder).read_sweep()


def test_only_backends_that_were_timed_have_lines(sweep):
    assert guides_of(sweep) == ()
    found = guides_of({**sweep, "measured": {"vllm": {"step_times": STEP_TIMES}}})
    assert {guide.backend for guide in found} == {"vllm"}
    assert {guide.setting for guide in found} >= {"naive · 4", "continuous · 4"}
    assert found[0].lines["throughput_tokens_per_s"][0][0] == 1.0


def test_a_sweep_of_another_version_has_a_page_without_lines(sweep, tmp_path):
    findings = find(Store(tmp_path / "empty"))
    timed = {**sweep, "measured": {"vllm": {"step_times": STEP_TIMES}}}
    assert with_guides(replace(findings, sweep=timed), tmp_path).guides
    for damage in ({"config": {"unknown": 1}}, {"config": "text"}, {"resolved": {}}, {"resolved": None}):
        assert with_guides(replace(findings, sweep=timed | damage), tmp_path).guides == ()


LONG = {
    "prompts": {"tokens": {"distribution": "uniform", "low": 1_000, "high": 4_000}},
    "output_tokens": {"distribution": "lognormal", "median": 100, "sigma": 0.8, "maximum": 400},
}
WIDE = [
    {"strategy": "naive", "backends": ["huggingface", "vllm"], "max_batch_size": 256},
    {"strategy": "continuous", "backends": "vllm", "max_batch_size": 256},
]


@pytest.mark.parametrize("block", [{}, {"kv_blocks": 4_000, "admission": "reserve"}])
def test_the_page_of_a_simulated_sweep_has_the_lines_of_explain(made_config, block):
    """The cache of the hardware bounds all three: what a sweep.json holds of it must be enough."""
    config = made_config(model="mistral-7b", workload=LONG, strategies=WIDE, simulation=block)
    found = bases(config, hardware="rtx-4090")
    explanation = explain(config, found)
    assert all(one.kv_limit < 256 for one in explanation.theories)
    drawn = guides_of(Simulation.of(config, found).info())
    expected = guides(explanation)
    assert [one.capacity for one in drawn] == [one.capacity for one in expected]
    assert [one.lines for one in drawn] == [one.lines for one in expected]


def calibration(sweep, backends=("huggingface", "vllm"), **changes) -> Calibration:
    costs = Linear(fixed_s=0.07, per_sequence_s=0.001)
    numbers = dict.fromkeys(
        ("residual_p50", "residual_p90", "within_p50", "slowest", "fastest", "total"), 1.0
    )
    found = Fit(
        costs=costs,
        errors={},
        left_out={},
        shares={},
        rows=100,
        rows_left_out=0,
        trials=4,
        r_squared=1,
        **numbers,
    )
    one = Calibrated(
        fit=found,
        arrival_lag_s=0,
        model="smollm2-135m",
        dtype=None,
        device="cpu",
        threads=None,
        versions={},
        engines=(),
    )
    known = {"config_hash": sweep["config_hash"], "config": sweep["config"], **changes}
    return Calibration(
        sweep="made", rates=(1, 4), git_commit=None, backends=dict.fromkeys(backends, one), **known
    )


def test_a_calibration_in_the_folder_is_what_the_lines_rest_on(sweep, tmp_path):
    findings = replace(find(Store(tmp_path / "empty")), sweep=sweep)
    assert with_guides(findings, tmp_path).guides == ()
    calibration(sweep).write(tmp_path / "calibration.json")
    found = with_guides(findings, tmp_path).guides
    assert {guide.backend for guide in found} == {"huggingface", "vllm"}
    assert {guide.basis for guide in found} == {
        "calibration of made: 70 + 1·B ms a step, 60 µs a prompt token"
    }


def test_a_calibration_that_does_not_hold_leaves_what_was_timed(sweep, tmp_path):
    timed = {**sweep, "measured": {"vllm": {"step_times": STEP_TIMES}}}
    findings = replace(find(Store(tmp_path / "empty")), sweep=timed)
    for wrong in (
        calibration(sweep, config_hash="another"),
        calibration(sweep, backends=("huggingface",)),
    ):
        wrong.write(tmp_path / "calibration.json")
        found = with_guides(findings, tmp_path).guides
        assert {guide.basis for guide in found} == {
            "measured by the sweep made: 50 + 1·B ms a step, 100 µs a prompt token"
        }
    (tmp_path / "calibration.json").write_text("{")
    assert with_guides(findings, tmp_path).guides
