from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from workloads.spec import WorkloadSpec

GOOD = """
arrivals: {process: gamma, cv: 2}
prompts: {source: random, tokens: {distribution: uniform, low: 16, high: 64}}
output_tokens: {distribution: lognormal, median: 20, sigma: 1.2, maximum: 128}
"""


def spec(**changes: Any) -> WorkloadSpec:
    return WorkloadSpec.model_validate({**yaml.safe_load(GOOD), **changes})


def test_the_limit_is_the_top_of_the_output_lengths_unless_given() -> None:
    assert spec().limit_tokens == 128
    assert spec(max_new_tokens=200).limit_tokens == 200


def test_arrivals_are_poisson_and_prompts_english_unless_given() -> None:
    plain = WorkloadSpec.model_validate(
        {
            "prompts": {"tokens": {"distribution": "fixed", "tokens": 8}},
            "output_tokens": {"distribution": "fixed", "tokens": 4},
        }
    )
    assert (plain.arrivals.process, plain.prompts.source) == ("poisson", "english")


def test_lists_as_yaml_has_them_are_empirical_lengths() -> None:
    law = spec(output_tokens={"distribution": "empirical", "values": [4, 9], "weights": [1, 3.0]})
    assert law.output_tokens.law().mean() == pytest.approx((4 + 27) / 4)
    assert hash(law) == hash(law.model_copy())


def test_a_spec_survives_being_written_and_read() -> None:
    before = spec(output_tokens={"distribution": "empirical", "values": [4, 9]})
    assert WorkloadSpec.model_validate(before.model_dump(mode="json")) == before


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"output": 3}, ("output",), "Extra inputs are not permitted"),
        ({"max_new_tokens": 100}, (), "max_new_tokens must be at least the top of output_tokens, 128, got 100"),
        ({"max_new_tokens": "200"}, ("max_new_tokens",), "Input should be a valid integer"),
        ({"arrivals": {"process": "gamma"}}, ("arrivals",), "cv must be above 0 and finite for gamma arrivals, got None"),
        ({"arrivals": {"process": "gamma", "cv": -1}}, ("arrivals",), "cv must be above 0 and finite for gamma arrivals, got -1.0"),
        ({"arrivals": {"process": "poisson", "cv": 2}}, ("arrivals",), "cv must be left out for poisson arrivals, got 2.0"),
        ({"arrivals": {"process": "uniform"}}, ("arrivals", "process"), "Input should be 'poisson', 'gamma' or 'constant'"),
        ({"output_tokens": {"distribution": "fixed", "tokens": 0}}, ("output_tokens", "fixed"), "tokens must be at least 1, got 0"),
        ({"output_tokens": {"distribution": "fixed", "tokens": 2.5}}, ("output_tokens", "fixed", "tokens"), "Input should be a valid integer"),
        ({"output_tokens": {"distribution": "fixed", "tokens": True}}, ("output_tokens", "fixed", "tokens"), "Input should be a valid integer"),
        ({"output_tokens": {"distribution": "zipf"}}, ("output_tokens",), "'zipf' found using 'distribution' does not match any of the expected tags"),
        ({"output_tokens": {"distribution": "empirical", "values": [4, "9"]}}, ("output_tokens", "empirical", "values", 1), "Input should be a valid integer"),
        ({"prompts": {"source": "sharegpt", "tokens": {"distribution": "fixed", "tokens": 4}}}, ("prompts",), "path must name a chat file for source sharegpt, got None"),
        ({"prompts": {"source": "english", "path": "a.json", "tokens": {"distribution": "fixed", "tokens": 4}}}, ("prompts",), "path must be left out for source english, got 'a.json'"),
    ],
)  # fmt: skip
def test_a_wrong_recipe_says_where_and_what_must_hold(
    changes: dict[str, Any], place: tuple[str | int, ...], message: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        spec(**changes)
    (error,) = caught.value.errors()
    assert error["loc"] == place
    assert message in error["msg"]
