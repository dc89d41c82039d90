"""The schema for editors says what `load` says: it accepts what is accepted, and refuses what can be seen."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import Field

from deployments.backends.registry import BACKENDS
from experiments.config import SweepConfig, load, parse
from experiments.config_page import config_page
from experiments.config_schema import config_schema
from experiments.errors import ConfigError
from strategies.knobs import Knobs
from strategies.naive import Naive
from strategies.registry import STRATEGIES, Entry

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "experiments" / "configs"
SHIPPED = [CONFIGS / f"{name}.yaml" for name in ("full", "local", "smoke")]  # a user's own lie beside them
VALIDATOR = Draft202012Validator(config_schema())
NAIVE = {"strategy": "naive", "backends": "vllm", "max_batch_size": 4}
DYNAMIC = NAIVE | {"strategy": "dynamic", "max_wait_ms": 50}
RANDOM = {"source": "random", "tokens": {"distribution": "fixed", "tokens": 8}}
FIXED = {"distribution": "fixed", "tokens": 8}


def said(values: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(values)]


def workload(**changes: Any) -> dict[str, Any]:
    return {"workload": {"prompts": RANDOM, "output_tokens": FIXED} | changes}


def test_it_is_a_schema():
    Draft202012Validator.check_schema(config_schema())


class Plain(Knobs):
    """How many must wait."""

    least: int = Field(ge=1)


class Silent(Knobs):
    least: int


@pytest.mark.parametrize(("knobs", "said"), [(Plain, "How many must wait."), (Silent, None)])
def test_a_knob_without_a_description_is_described_by_its_class_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, knobs: type[Knobs], said: str | None
):
    monkeypatch.setitem(STRATEGIES, "mine", Entry(strategy=Naive, knobs=knobs, needs_joinable=False))
    schema = config_schema()
    Draft202012Validator.check_schema(schema)
    described = dict(members(schema))
    assert described[".strategies.least"].get("description") == said
    assert described[".strategies.max_batch_size"]["description"].startswith("The most requests at once")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_configs_that_come_with_batchyard_fit_and_name_it(path: Path):
    load(path)
    assert said(yaml.safe_load(path.read_text())) == []
    assert "# yaml-language-server: $schema=sweep.schema.json\n" in path.read_text()


def test_the_file_that_they_name_is_up_to_date():
    written = json.loads((CONFIGS / "sweep.schema.json").read_text())
    assert written == config_schema(), "batchyard schema > experiments/configs/sweep.schema.json"


def test_the_page_of_keys_is_up_to_date_and_has_every_key():
    page = config_page()
    assert page == (ROOT / "docs" / "CONFIG.md").read_text(), "batchyard schema --keys > docs/CONFIG.md"
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.*?) ?\| (.+) \|$", page, flags=re.MULTILINE)
    assert {path.rpartition(".")[2] for path, _ in members(config_schema())} - {*BACKENDS} == {
        key for key, *_ in rows
    }
    meanings = {key: (allowed, default, meaning) for key, allowed, default, meaning in rows}
    assert meanings["isolate"][:2] == ("`true`, `false`", "`false`")
    assert meanings["max_failures"][:2] == ("a whole number at least 0", "`3`")
    assert meanings["skew"][:2] == ("a number from 0 to 1", "")
    assert meanings["gpus"][:2] == ("`auto`, a whole number at least 1", "`auto`")
    assert '"conversations"' in page


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model": {"name": "smollm2-135m", "dtype": "float32", "revision": None}},
        {"model": ..., "strategies": [NAIVE | {"backends": "simulated"}], **workload()},
        {"arrival_rate": "auto", "duration_s": "auto", "minimum_duration_s": 5},
        {"arrival_rate": 2.5},
        {"arrival_rate": ..., "duration_s": ...},
        {"gpus": "auto"},
        {"gpus": 2},
        {"strategies": [DYNAMIC | {"max_wait_ms": [0, 50.5], "timer": ["arrival", "idle"]}]},
        {
            "strategies": [
                DYNAMIC | {"order": ["length", "priority"]},
                DYNAMIC | {"order": "length", "max_skips": 0},
            ]
        },
        {"strategies": [DYNAMIC | {"order": "deadline", "on_expired": ["serve", "reject"]}]},
        {"strategies": [NAIVE | {"backends": ["vllm", "huggingface"], "max_batch_size": [2, 4]}]},
        {"strategies": [NAIVE | {"strategy": "continuous", "backends": "huggingface-continuous"}]},
        {"backends": {"vllm": None}},
        {"backends": {"vllm": {"max_model_len": 512, "enforce_eager": True}, "huggingface": {"threads": 1}}},
        {"drain_limit_s": None, "isolate": True, "seed": 7, "max_failures": 0, "warmup_requests": 0},
        workload(arrivals={"process": "gamma", "cv": 2.5}),
        workload(arrivals={}, max_new_tokens=64),
        workload(output_tokens={"distribution": "empirical", "values": [1, 2], "weights": [0.5, 1]}),
        workload(priority=[0.9, 0.1], ttft_target_ms=[200, 1000.5]),
        workload(priority=None, ttft_target_ms=250),
    ],
)
def test_what_is_accepted_fits(config_values: Callable[..., dict[str, Any]], changes: dict[str, Any]):
    values = config_values(**changes)
    parse(values)
    assert said(values) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"repeat": 3},
        {"name": ...},
        {"name": "Upper Case"},
        {"workload": ...},
        {"strategies": ...},
        {"strategies": []},
        {"model": {"dtype": "float32"}},
        {"model": {"name": "smollm2-135m", "dtype": "float8"}},
        {"model": ["smollm2-135m"]},
        {"arrival_rate": 0},
        {"arrival_rate": [1, -1]},
        {"arrival_rate": []},
        {"arrival_rate": [1, 1]},
        {"arrival_rate": "fast"},
        {"arrival_rate": None},
        {"duration_s": "20s"},
        {"duration_s": 0},
        {"duration_s": 20, "minimum_duration_s": 5},
        {"gpus": 0},
        {"repeats": 0},
        {"repeats": 2.5},
        {"seed": -1},
        {"isolate": "yes"},
        {"drain_limit_s": 0},
        {"strategies": [NAIVE | {"strategy": "nave"}]},
        {"strategies": [NAIVE | {"max_wait_ms": 50}]},
        {"strategies": [NAIVE | {"max_batch_size": 0}]},
        {"strategies": [NAIVE | {"max_batch_size": []}]},
        {"strategies": [NAIVE | {"max_batch_size": [2, 2]}]},
        {"strategies": [NAIVE | {"backends": "vlm"}]},
        {"strategies": [NAIVE | {"backends": []}]},
        {"strategies": [DYNAMIC | {"max_wait_ms": -1}]},
        {"strategies": [DYNAMIC | {"timer": "now"}]},
        {"strategies": [{"strategy": "dynamic", "backends": "vllm", "max_batch_size": 4}]},
        {"strategies": [NAIVE | {"strategy": "continuous", "backends": "huggingface"}]},
        {"backends": {"vlm": {}}},
        {"backends": {"vllm": {"max_num_seq": 4}}},
        {"backends": {"vllm": {"gpu_memory_utilization": 1.5}}},
        {"backends": {"huggingface": {"threads": 0}}},
        {"backends": {"simulated": {"engine": "both"}}},
        workload(arrivals={"process": "poison"}),
        workload(arrivals={"process": "gamma"}),
        workload(arrivals={"process": "gamma", "cv": 0}),
        workload(arrivals={"process": "constant", "cv": 2}),
        workload(prompts={"source": "sharegpt", "tokens": FIXED}),
        workload(prompts={"source": "random", "path": "chats.json", "tokens": FIXED}),
        workload(prompts={"source": "random"}),
        workload(output_tokens={"distribution": "fixed", "tokens": 0}),
        workload(output_tokens={"distribution": "fixed", "low": 1, "high": 2}),
        workload(output_tokens={"distribution": "lognormal", "median": 4, "sigma": 0, "maximum": 9}),
        workload(output_tokens={"distribution": "empirical", "values": []}),
        workload(output_tokens={"distribution": "zipf"}),
        workload(priority=[]),
        workload(priority=[1, -1]),
        workload(ttft_target_ms=[0]),
        {"strategies": [DYNAMIC | {"order": "shortest"}]},
        {"strategies": [DYNAMIC | {"order": "length", "max_skips": -1}]},
    ],
)
def test_what_is_refused_does_not_fit(config_values: Callable[..., dict[str, Any]], changes: dict[str, Any]):
    values = config_values(**changes)
    with pytest.raises(ConfigError):
        parse(values)
    assert said(values)


def members(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key that the schema names, and what it says of it."""
    if isinstance(schema, list):
        for item in schema:
            yield from members(item, path)
    elif isinstance(schema, dict):
        for name, member in schema.get("properties", {}).items():
            yield f"{path}.{name}", member
            yield from members(member, f"{path}.{name}")
        for key, item in schema.items():
            if key not in ("properties", "if", "then", "else"):
                yield from members(item, path)


def test_every_key_says_what_it_means_and_its_unit():
    found = dict(members(config_schema()))
    assert len(found) > 60
    for path, member in found.items():
        text = member.get("description", "")
        assert text, path
        if path.endswith("_s"):
            assert "second" in text, path
        if path.endswith("_ms"):
            assert "milliseconds" in text, path
        if path.endswith("_gib"):
            assert "GiB" in text, path


def test_every_strategy_knob_and_engine_argument_is_in_it():
    paths = set(dict(members(config_schema())))
    for entry in STRATEGIES.values():
        assert {f".strategies.{knob}" for knob in entry.knobs.model_fields} <= paths
    for name, backend in BACKENDS.items():
        assert {f".backends.{name}.{key}" for key in backend.args_type.model_fields} <= paths
    assert {f".{key}" for key in SweepConfig.model_fields} <= paths
