"""The memory of a padded batch, against figures worked out by hand for two models on 24 GiB."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.errors import ModelError
from deployments.padded_memory import left_by
from deployments.virtual.hardware import GIB, HARDWARE
from deployments.virtual.model_shape import read_shape
from deployments.virtual.published_models import PUBLISHED
from experiments.config import SweepConfig
from experiments.explain import memory_figures
from experiments.explain.basis import bases
from experiments.explain.explanation import explain, to_dict
from experiments.explain.memory import budget_line
from experiments.explain.page import render
from results.report.panel import Absent, Panel
from tests.results.table_texts import numbers_as_text

MISTRAL, TINYLLAMA = "mistralai/Mistral-7B-Instruct-v0.3", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"
LIMIT, RESERVE_BYTES = 128, 1.5 * GIB
STRATEGIES = [
    {"strategy": "naive", "backends": "huggingface", "max_batch_size": [8, 64]},
    {"strategy": "continuous", "backends": "vllm", "max_batch_size": 8},
]
WORKLOAD = {
    "prompts": {"tokens": {"distribution": "uniform", "low": 16, "high": 1024}},
    "output_tokens": {"distribution": "uniform", "low": 1, "high": LIMIT},
}


def values(model: str) -> dict[str, Any]:
    return {"model": model, "workload": WORKLOAD, "strategies": STRATEGIES}


@pytest.mark.parametrize("gpu", ["rtx-3090", "rtx-4090"])
def test_the_largest_safe_batches_on_24_gib(gpu: str):
    """Mistral as first published has 32,000 words; with the 32,768 of v0.3 the weights take 12 MiB more."""
    first = read_shape({**PUBLISHED[MISTRAL], "vocab_size": 32_000}, name="first", dtype="bfloat16")
    tiny = read_shape(PUBLISHED[TINYLLAMA], name="tiny", dtype="bfloat16")
    prompts = (128, 512, 1024, 2048, 4096)
    most = [left_by(HARDWARE[gpu], first, RESERVE_BYTES).rows(tokens, LIMIT) for tokens in prompts]
    assert most == [288, 115, 64, 33, 17]
    of_tiny = left_by(HARDWARE[gpu], tiny, RESERVE_BYTES)
    assert of_tiny.bytes_per_token == 22_528
    assert [of_tiny.rows(tokens, LIMIT) for tokens in (*prompts[:3], 1920)] == [3807, 1523, 846, 475]


def test_explain_gives_them_for_the_presets(made_config: Callable[..., SweepConfig]):
    said = {}
    for model in ("mistral-7b", "tinyllama-1.1b"):
        config = made_config(**values(model))
        said[model] = to_dict(explain(config, bases(config, hardware="rtx-4090")))["memory"]
    mistral, tiny = said["mistral-7b"], said["tinyllama-1.1b"]
    assert mistral["kv_bytes_per_token"] == 131_072
    assert [(row["row_bytes"], row["largest_batch"]) for row in mistral["rows"]] == [
        (32 * 2**20, 287),
        (80 * 2**20, 115),
        (144 * 2**20, 63),
        (272 * 2**20, 33),
        (528 * 2**20, 17),
    ]
    assert mistral["memory_trigger_from_prompt_tokens"] == {"8": 9088, "64": 1024}
    assert tiny["kv_bytes_per_token"] == 22_528
    assert [row["largest_batch"] for row in tiny["rows"]] == [3807, 1523, 846, None, None]
    assert tiny["context_tokens"] - tiny["max_new_tokens"] == 1920
    assert tiny["memory_trigger_from_prompt_tokens"] == {"8": None, "64": None}


def test_the_trigger_fires_from_exactly_that_prompt_on(made_config: Callable[..., SweepConfig]):
    config = made_config(**values("mistral-7b"))
    memory = explain(config, bases(config, hardware="rtx-3090")).memory
    for size in (8, 16, 64):
        shortest = memory.fires_from(size)
        assert memory.budget.rows(shortest, LIMIT) < size <= memory.budget.rows(shortest - 1, LIMIT)


def test_the_budget_bounds_the_cap_of_what_pads_and_of_nothing_else(made_config: Callable[..., SweepConfig]):
    config = made_config(**values("mistral-7b"))
    theories = explain(config, bases(config, hardware="rtx-3090")).theories
    assert [(one.setting.backend, one.kv_limit) for one in theories[:2]] == [("huggingface", 63)] * 2
    assert [one.cap for one in theories] == [8, 63, 8]
    given = made_config(
        **values("mistral-7b"), backends={"huggingface": {"kv_budget_bytes": 10 * 1152 * 131_072}}
    )
    assert [one.cap for one in explain(given, bases(given, hardware="rtx-3090")).theories] == [8, 10, 8]


def test_where_memory_is_not_known_or_nothing_pads_there_is_none(made_config: Callable[..., SweepConfig]):
    config = made_config(**values("mistral-7b"))
    assert to_dict(explain(config, bases(config)))["memory"] is None
    joined = made_config(**values("mistral-7b") | {"strategies": STRATEGIES[1:]})
    assert explain(joined, bases(joined, hardware="rtx-3090")).memory is None


def test_a_reserve_that_leaves_nothing_is_told(made_config: Callable[..., SweepConfig]):
    config = made_config(**values("mistral-7b"), simulation={"kv_reserve_gib": 12})
    with pytest.raises(
        ModelError, match=r"does not fit NVIDIA GeForce RTX 3090.*13\.5 GiB of weights and 12 GiB"
    ):
        explain(config, bases(config, hardware="rtx-3090"))


def test_a_terminal_shows_it(
    batchyard: Callable[..., Any], config_values: Callable[..., dict[str, Any]], tmp_path: Path
):
    shown = {}
    for model in ("mistral-7b", "tinyllama-1.1b"):
        path = tmp_path / f"{model}.yaml"
        path.write_text(yaml.safe_dump(config_values(**values(model))), encoding="utf-8")
        result = batchyard("explain", path, "--hardware", "RTX 4090")
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= 80
        shown[model] = " ".join(result.stdout.split())
    assert (
        "Largest padded batch by prompt length, 128 new tokens a row prompt a row rows 128 32 MiB 287 "
        in shown["mistral-7b"]
    )
    assert (
        "Budget: 9 of 24 GiB, less 13.5 of weights and 1.5 of reserve; 131,072 bytes a token."
        in shown["mistral-7b"]
    )
    assert (
        "With max_batch_size 64 the memory trigger fires where all prompts have 1,024 tokens or more; they occur here."
        in shown["mistral-7b"]
    )
    assert (
        "With max_batch_size 8, 64 the memory trigger never fires: prompts are at most 1,920 tokens in a context of 2,048."
        in shown["tinyllama-1.1b"]
    )


def test_the_page_draws_the_rows_that_fit_and_says_from_where_on_memory_ends_a_batch(
    made_config: Callable[..., SweepConfig],
):
    found = {}
    for model in ("mistral-7b", "tinyllama-1.1b"):
        config = made_config(**values(model))
        panel = memory_figures.largest_batch(explain(config, bases(config, hardware="rtx-4090")))
        assert isinstance(panel, Panel)
        found[model] = panel
    mistral, tiny = found["mistral-7b"].first, found["tinyllama-1.1b"].first
    assert mistral.heading.endswith(f"memory ends a batch of 64 of {MISTRAL} from prompts of 1,024 tokens on")
    assert tiny.heading.startswith(f"Memory never ends a batch of 64 of {TINYLLAMA}")
    line, *sizes = mistral.charts[0].figure.data
    beyond = [tokens for tokens, most in zip(line.x, line.y, strict=True) if most < 64]
    assert 1_024 <= min(beyond) < 1_300
    assert [trace.y[0] for trace in sizes] == [8, 64]
    assert max(tiny.charts[0].figure.data[0].x) == 2_048 - LIMIT


def test_without_hardware_the_page_has_no_figure_of_memory(made_config: Callable[..., SweepConfig]):
    config = made_config(**values("mistral-7b"))
    explanation = explain(config, bases(config))
    assert isinstance(memory_figures.largest_batch(explanation), Absent)
    assert "What a padded batch takes" not in render(explanation)
    assert numbers_as_text(render(explanation)) == []


def test_a_sliding_window_makes_it_an_upper_bound(made_config: Callable[..., SweepConfig]):
    config = made_config(**values("mistral-7b"))
    memory = explain(config, bases(config, hardware="rtx-4090")).memory
    assert memory is not None
    assert "at most" not in budget_line(memory)
    sliding = replace(memory, shape=replace(memory.shape, sliding_window=512))
    assert "131,072 bytes a token, at most: what lies behind a sliding window of 512 tokens" in budget_line(
        sliding
    )
    wide = replace(memory, shape=replace(memory.shape, sliding_window=4_096))
    assert "at most" not in budget_line(wide), "nothing here reaches it"
