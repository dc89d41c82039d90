import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workloads.errors import WorkloadError
from workloads.request import Request
from workloads.workload import WorkloadSpec, generate, warmup, workload_hash

RECIPE: dict[str, Any] = {
    "arrivals": {"process": "poisson"},
    "prompts": {"source": "random", "tokens": {"distribution": "uniform", "low": 8, "high": 40}},
    "output_tokens": {"distribution": "lognormal", "median": 12, "sigma": 1.0, "maximum": 64},
}
GOLDEN = "16da89f115b710c2a0cf13e76eabf17b6a5819812b9e8c0e79aee09bedc66eeb"


def encode(text: str) -> list[int]:
    return list(text.encode())


def made(recipe: dict[str, Any] = RECIPE, **changes: Any) -> tuple[Request, ...]:
    settings = {"rate": 5.0, "duration_s": 20.0, "seed": 42, "repeat": 0, "vocabulary": 300, "encode": encode}
    return generate(WorkloadSpec.model_validate(recipe), **{**settings, **changes})


def warm(recipe: dict[str, Any] = RECIPE, count: int = 8, **changes: Any) -> tuple[Request, ...]:
    settings = {"seed": 42, "repeat": 0, "vocabulary": 300, "encode": encode}
    return warmup(WorkloadSpec.model_validate(recipe), count, **{**settings, **changes})


def with_(**changes: Any) -> dict[str, Any]:
    return {**RECIPE, **changes}


ENGLISH = with_(prompts={"source": "english", "tokens": {"distribution": "uniform", "low": 8, "high": 40}})


def test_one_workload_has_the_hash_it_has_on_every_machine() -> None:
    assert workload_hash(made()) == GOLDEN


def test_another_process_makes_the_same_requests() -> None:
    code = (
        "import json, sys; from workloads.workload import WorkloadSpec, generate, workload_hash; "
        "spec = WorkloadSpec.model_validate(json.loads(sys.argv[1])); "
        "print(workload_hash(generate(spec, rate=5.0, duration_s=20.0, seed=42, repeat=0, vocabulary=300, "
        "encode=lambda text: list(text.encode()))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(ENGLISH)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == workload_hash(made(ENGLISH))


@pytest.mark.parametrize("change", [{"seed": 43}, {"repeat": 1}, {"rate": 6.0}, {"duration_s": 25.0}])
def test_another_setting_is_another_workload(change: dict[str, Any]) -> None:
    assert workload_hash(made(**change)) != workload_hash(made())


def test_seed_and_repeat_do_not_stand_for_each_other() -> None:
    assert workload_hash(made(seed=1, repeat=0)) != workload_hash(made(seed=0, repeat=1))


@pytest.mark.parametrize(
    "change",
    [
        {"index": 7},
        {"planned_s": 1.000001},
        {"output_tokens": 6},
        {"max_new_tokens": 10},
        {"prompt_ids": (1, 2, 4)},
        {"prompt_ids": (1, 2)},
    ],
)
def test_the_hash_sees_every_part_of_a_request(change: dict[str, Any]) -> None:
    request = Request(index=0, planned_s=1.0, prompt_ids=(1, 2, 3), output_tokens=5, max_new_tokens=9)
    assert workload_hash([replace(request, **change)]) != workload_hash([request])


def test_the_hash_forgives_the_last_bits_of_a_time() -> None:
    request = Request(index=0, planned_s=1.0, prompt_ids=(1,), output_tokens=5, max_new_tokens=9)
    assert workload_hash([replace(request, planned_s=1.0 + 1e-12)]) == workload_hash([request])


@pytest.mark.parametrize("recipe", [RECIPE, ENGLISH], ids=["random", "english"])
def test_requests_are_what_the_recipe_says(recipe: dict[str, Any]) -> None:
    requests = made(recipe)
    assert 60 < len(requests) < 140
    assert [request.index for request in requests] == list(range(len(requests)))
    planned = [request.planned_s for request in requests]
    assert planned == sorted(planned)
    assert planned[0] >= 0
    assert planned[-1] < 20.0
    for request in requests:
        assert 8 <= len(request.prompt_ids) <= 40
        assert 0 <= min(request.prompt_ids) <= max(request.prompt_ids) < 300
        assert 1 <= request.output_tokens <= request.max_new_tokens == 64
        assert type(request.planned_s) is float
        assert all(type(i) is int for i in request.prompt_ids)
    assert len({request.prompt_ids for request in requests}) == len(requests)


@pytest.mark.parametrize("recipe", [RECIPE, ENGLISH], ids=["random", "english"])
@pytest.mark.parametrize("rate", [2.0, 37.0])
def test_at_every_rate_the_same_requests_come_in_the_same_pattern(
    recipe: dict[str, Any], rate: float
) -> None:
    base, other = made(recipe), made(recipe, rate=rate)
    assert len(other) != len(base)
    for one, two in zip(base, other, strict=False):
        assert (one.prompt_ids, one.output_tokens) == (two.prompt_ids, two.output_tokens)
        assert two.planned_s * rate == pytest.approx(one.planned_s * 5.0)


def test_other_arrivals_leave_prompts_and_lengths_alone() -> None:
    bursty = made(with_(arrivals={"process": "gamma", "cv": 3.0}))
    for one, two in zip(made(), bursty, strict=False):
        assert one.planned_s != two.planned_s
        assert (one.prompt_ids, one.output_tokens) == (two.prompt_ids, two.output_tokens)


def test_other_output_lengths_leave_arrivals_and_prompts_alone() -> None:
    other = made(with_(output_tokens={"distribution": "fixed", "tokens": 99}))
    for one, two in zip(made(), other, strict=True):
        assert two.output_tokens == 99
        assert (one.planned_s, one.prompt_ids) == (two.planned_s, two.prompt_ids)


def test_other_prompt_lengths_leave_arrivals_outputs_and_beginnings_alone() -> None:
    longer = {"source": "random", "tokens": {"distribution": "fixed", "tokens": 77}}
    for one, two in zip(made(), made(with_(prompts=longer)), strict=True):
        assert (one.planned_s, one.output_tokens) == (two.planned_s, two.output_tokens)
        assert two.prompt_ids[: len(one.prompt_ids)] == one.prompt_ids


def test_another_prompt_source_leaves_arrivals_and_lengths_alone() -> None:
    for one, two in zip(made(), made(ENGLISH), strict=True):
        assert one.prompt_ids != two.prompt_ids
        assert len(one.prompt_ids) == len(two.prompt_ids)
        assert (one.planned_s, one.output_tokens) == (two.planned_s, two.output_tokens)


@pytest.mark.parametrize("recipe", [RECIPE, ENGLISH], ids=["random", "english"])
def test_warm_up_requests_are_none_of_the_measured(recipe: dict[str, Any]) -> None:
    measured = {request.prompt_ids[:8] for request in made(recipe)}
    extra = warm(recipe)
    assert len(extra) == 8
    assert not measured & {request.prompt_ids[:8] for request in extra}
    for request in extra:
        assert request.planned_s == 0.0
        assert 8 <= len(request.prompt_ids) <= 40
        assert 1 <= request.output_tokens <= request.max_new_tokens == 64
    assert warm(recipe) == extra


def test_a_chat_file_gives_the_prompts(tmp_path: Path) -> None:
    path = tmp_path / "chats.json"
    path.write_text(json.dumps([{"conversations": [{"from": "human", "value": "Where do swifts sleep?"}]}]))
    prompts = {"source": "sharegpt", "path": str(path), "tokens": {"distribution": "fixed", "tokens": 30}}
    requests = made(with_(prompts=prompts))
    assert {bytes(request.prompt_ids) for request in requests} == {b"Where do swifts sleep?\n\nWhere "}


def test_random_ids_need_no_tokenizer() -> None:
    assert made(encode=None) == made()


def test_a_period_without_arrivals_has_no_requests() -> None:
    assert made(rate=1e-6) == ()


@pytest.mark.parametrize(
    ("recipe", "changes", "message"),
    [
        (ENGLISH, {"encode": None}, "source must be random for a model without a tokenizer, got english"),
        (ENGLISH, {"vocabulary": 100}, "the tokenizer's ids must be in 0..99, got"),
        (RECIPE, {"vocabulary": 0}, "vocabulary must be at least 1, got 0"),
        (RECIPE, {"rate": -1.0}, "rate must be above 0 and finite, got -1.0"),
        (RECIPE, {"duration_s": 0.0}, "duration_s must be above 0 and finite, got 0.0"),
        (RECIPE, {"seed": -3}, "seed must be at least 0, got -3"),
        (RECIPE, {"repeat": -1}, "repeat must be at least 0, got -1"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused(
    recipe: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorkloadError) as caught:
        made(recipe, **changes)
    assert str(caught.value).startswith(message)
