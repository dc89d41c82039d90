"""Classes and TTFT targets of requests: seeded, independent of everything else, and seen by the hash."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from workloads.request import Request
from workloads.spec import WorkloadSpec
from workloads.workload import generate, workload_hash

RECIPE: dict[str, Any] = {
    "prompts": {"source": "random", "tokens": {"distribution": "uniform", "low": 8, "high": 40}},
    "output_tokens": {"distribution": "fixed", "tokens": 4},
}


def spec(**changes: Any) -> WorkloadSpec:
    return WorkloadSpec.model_validate(RECIPE | changes)


def made(rate: float = 20.0, seed: int = 1, **changes: Any) -> tuple[Request, ...]:
    return generate(
        spec(**changes), rate=rate, duration_s=50.0, seed=seed, repeat=0, vocabulary=300, encode=None
    )


def classes_of(requests: tuple[Request, ...]) -> list[int]:
    return [request.priority for request in requests]


def test_classes_are_as_frequent_as_their_weights_say():
    shares = np.bincount(classes_of(made(priority=[3, 0, 1]))) / len(made())
    assert shares == pytest.approx([0.75, 0.0, 0.25], abs=0.05)


def test_a_request_has_its_class_at_every_rate_and_another_at_another_seed():
    few, many = (classes_of(made(rate=rate, priority=[1, 1])) for rate in (10.0, 20.0))
    assert many[: len(few)] == few
    assert classes_of(made(seed=2, priority=[1, 1]))[:100] != many[:100]


def test_classes_and_targets_leave_the_requests_as_they_were():
    plain = made()
    terms = made(priority=[1, 1], ttft_target_ms=[100, 2500.5])
    assert [replace(one, priority=0, ttft_target_s=None) for one in terms] == list(plain)
    assert {one.priority: one.ttft_target_s for one in terms} == {0: 0.1, 1: 2.5005}
    assert {one.ttft_target_s for one in made(ttft_target_ms=300)} == {0.3}
    assert {one.ttft_target_s for one in made(priority=[1, 1], ttft_target_ms=300)} == {0.3}
    assert {(one.priority, one.ttft_target_s) for one in plain} == {(0, None)}


def test_the_hash_sees_them_and_is_what_it_was_without():
    plain = workload_hash(made())
    hashes = [
        workload_hash(made(**terms))
        for terms in ({"priority": [1, 1]}, {"ttft_target_ms": 200}, {"ttft_target_ms": 201})
    ]
    assert len({plain, *hashes}) == 4
    assert workload_hash(made(priority=[1])) == plain


def test_what_was_left_out_is_not_written_so_that_ids_of_cells_stay():
    assert spec().model_dump(mode="json").keys() == {"arrivals", "prompts", "output_tokens", "max_new_tokens"}
    whole = spec(priority=[1, 2], ttft_target_ms=5)
    assert WorkloadSpec.model_validate(whole.model_dump(mode="json")) == whole


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"priority": []}, "priority must be weights, finite, at least 0 and not all 0, got []"),
        ({"priority": [0, 0]}, "priority must be weights, finite, at least 0 and not all 0, got [0.0, 0.0]"),
        (
            {"priority": [1, -1]},
            "priority must be weights, finite, at least 0 and not all 0, got [1.0, -1.0]",
        ),
        ({"ttft_target_ms": 0}, "ttft_target_ms must be above 0 and finite, in milliseconds, got 0"),
        (
            {"ttft_target_ms": float("inf")},
            "ttft_target_ms must be above 0 and finite, in milliseconds, got inf",
        ),
        ({"ttft_target_ms": [1, 2]}, "ttft_target_ms must be one target, got 2"),
        (
            {"ttft_target_ms": [1, 2], "priority": [1, 1, 1]},
            "ttft_target_ms must be one target, or one for each of the 3 classes of priority, got 2",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValidationError) as caught:
        spec(**changes)
    assert message in caught.value.errors()[0]["msg"]
