"""The verdict `drifted`: a step-time probe more than 5 % off its lane's median."""

from dataclasses import replace
from typing import Any

import pytest

from results.drift import with_drift
from results.findings import TrialSummary
from results.store import Store
from results.summary import find


@pytest.fixture(scope="module")
def one(made_store: Store) -> TrialSummary:
    return find(made_store).trials[0]


def probed(one: TrialSummary, *probes_s: float | None, **given: Any) -> list[TrialSummary]:
    return [
        replace(one, trial=one.trial.model_copy(update={"step_probe_s": probe_s, **given}))
        for probe_s in probes_s
    ]


def drifted(summaries: list[TrialSummary]) -> list[bool]:
    return [summary.has("drifted") for summary in with_drift(summaries)]


def test_more_than_five_per_cent_off_the_median_either_way(one: TrialSummary) -> None:
    found = with_drift(probed(one, 0.100, 0.100, 0.1049, 0.0951, 0.106, 0.094, None))
    assert [summary.has("drifted") for summary in found] == [False] * 4 + [True, True, False]
    assert found[4].verdicts[-1].detail == (
        "a step took 106.0 ms just before, +6 % off the lane's median of 100.0 ms"
    )
    assert "−6 %" in found[5].verdicts[-1].detail


def test_each_lane_has_its_own_median(one: TrialSummary) -> None:
    for other in ({"lane": "lane-9"}, {"backend": "vllm"}, {"engine": {"max_num_seqs": 4}}):
        assert drifted([*probed(one, 0.1, 0.1, 0.1), *probed(one, 0.2, 0.2, 0.2, **other)]) == [False] * 6


def test_two_probes_have_no_median_to_be_off_from(one: TrialSummary) -> None:
    assert drifted(probed(one, 0.1, 0.2)) == [False, False]
