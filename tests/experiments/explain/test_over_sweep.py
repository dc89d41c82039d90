"""Lines over the page of a sweep: from what it measured, and never at the price of the page."""

from dataclasses import replace

import pytest

from experiments.explain.over_sweep import guides_of, with_guides
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
    assert with_guides(replace(findings, sweep=timed)).guides
    for damage in ({"config": {"unknown": 1}}, {"config": "text"}, {"resolved": {}}, {"resolved": None}):
        assert with_guides(replace(findings, sweep=timed | damage)).guides == ()
