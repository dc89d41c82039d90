"""Shapes of models: published figures, transformers' own count, and configs that say too little."""

import json
from pathlib import Path
from typing import Any

import pytest

from deployments.errors import ModelError
from deployments.models import PRESETS, ModelSpec
from deployments.virtual.model_shape import GATED, PACKAGED, kv_bytes_per_token, model_shape, read_shape
from deployments.virtual.published_models import PUBLISHED

TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}


def folder(path: Path, config: Any) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "parameters", "kv_bytes_per_token"),
    [
        ("HuggingFaceTB/SmolLM2-135M-Instruct", 134_515_008, 23_040),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1_100_048_384, 22_528),
        ("mistralai/Mistral-7B-Instruct-v0.3", 7_248_023_552, 131_072),
        ("meta-llama/Llama-2-7b-hf", 6_738_415_616, 524_288),
        ("meta-llama/Llama-2-13b-hf", 13_015_864_320, 819_200),
        ("meta-llama/Meta-Llama-3-8B", 8_030_261_248, 131_072),
    ],
)
def test_published_models_have_their_published_sizes(name, parameters, kv_bytes_per_token):
    shape = model_shape(ModelSpec(name=name))
    assert (shape.parameters, shape.kv_bytes_per_token) == (parameters, kv_bytes_per_token)
    assert shape.weight_bytes == 2 * parameters


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_a_shape(preset):
    assert model_shape(ModelSpec(name=preset)).parameters > 1e8


def test_twice_the_bytes_in_float32():
    half, full = (model_shape(ModelSpec(name="smollm2-135m", dtype=dtype)) for dtype in ("auto", "float32"))
    assert full.weight_bytes == 2 * half.weight_bytes
    assert full.kv_bytes_per_token == 2 * half.kv_bytes_per_token


@pytest.mark.model
@pytest.mark.parametrize("kind", GATED)
@pytest.mark.parametrize("tied", [False, True])
def test_the_count_is_that_of_transformers(kind, tied, tmp_path):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    values = {**TINY, "model_type": kind, "head_dim": 24, "tie_word_embeddings": tied}
    if kind == "qwen2":
        del values["head_dim"]  # its layers do not read it
    model_folder = folder(tmp_path / kind, values)
    config = AutoConfig.from_pretrained(model_folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    shape = model_shape(ModelSpec(name=str(model_folder)))
    assert shape.parameters == model.num_parameters()


def test_saved_weights_are_counted(tmp_path):
    import numpy as np
    from safetensors.numpy import save_file

    odd = folder(tmp_path / "odd", {**TINY, "model_type": "unheard-of"})
    with pytest.raises(ModelError, match="type unheard-of, whose parameters are not counted"):
        model_shape(ModelSpec(name=str(odd)))
    save_file({"a": np.zeros((3, 5), np.float16)}, odd / "model-00001-of-00002.safetensors")
    save_file({"b": np.zeros(7, np.float16)}, odd / "model-00002-of-00002.safetensors")
    save_file({"a": np.zeros((3, 5), np.float16)}, odd / "consolidated.safetensors")
    assert model_shape(ModelSpec(name=str(odd))).parameters == 22


@pytest.mark.parametrize(
    ("written", "kv_heads", "head_dim"),
    [
        ({}, 2, 16),
        ({"head_dim": 32}, 2, 32),
        ({"num_key_value_heads": None}, 4, 16),
        ({"num_key_value_heads": None, "multi_query": True}, 1, 16),
    ],
)
def test_grouped_and_multi_query_attention_shrink_the_cache(written, kv_heads, head_dim):
    shape = read_shape({**TINY, **written}, name="tiny", dtype="bfloat16")
    assert (shape.kv_heads, shape.head_dim) == (kv_heads, head_dim)
    assert shape.kv_bytes_per_token == 2 * 2 * kv_heads * head_dim * 2


def test_old_spellings_and_models_with_eyes_are_read():
    old = {"model_type": "gpt2", "n_layer": 3, "n_head": 4, "n_embd": 64}
    assert read_shape(old, name="old", dtype="float32", counted=1000).kv_bytes_per_token == 2 * 3 * 4 * 16 * 4
    assert read_shape({"text_config": TINY}, name="eyes", dtype="bfloat16").layers == 2


def test_a_sliding_window_is_said_where_it_is_used():
    sliding = {**TINY, "sliding_window": 4096}
    assert read_shape(sliding, name="tiny", dtype="bfloat16").sliding_window == 4096
    off = {**sliding, "use_sliding_window": False}
    assert read_shape(off, name="tiny", dtype="bfloat16").sliding_window is None


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ({"num_local_experts": 8}, "has num_local_experts: a mixture of experts"),
        ({"kv_lora_rank": 512}, "has kv_lora_rank: latent attention"),
        ({"quantization_config": {"bits": 4}}, "has quantization_config: quantised weights"),
        ({"num_hidden_layers": None}, "has no num_hidden_layers"),
        ({"vocab_size": "many"}, "has no vocab_size"),
    ],
)
def test_what_is_not_modelled_is_refused(written, complaint):
    with pytest.raises(ModelError, match=complaint):
        read_shape({**TINY, **written}, name="tiny", dtype="bfloat16")


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_broken_config_is_one_line(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"has no readable config\.json"):
        model_shape(ModelSpec(name=str(tmp_path)))


def test_broken_weights_are_one_line(tmp_path):
    (folder(tmp_path, TINY) / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(ModelError, match=r"model.safetensors is not a whole safetensors file"):
        model_shape(ModelSpec(name=str(tmp_path)))


def test_no_hub_is_asked_for_a_model_that_is_not_known():
    with pytest.raises(ModelError, match="the shape of model nobody/nothing is not known here"):
        model_shape(ModelSpec(name="nobody/nothing"))


def test_published_configs_say_sizes_only():
    assert all(
        isinstance(value, int | str | None) for config in PUBLISHED.values() for value in config.values()
    )


def test_contexts_are_the_published_ones_and_unknown_where_a_config_is_silent():
    contexts = {name: model_shape(ModelSpec(name=name)).context_tokens for name in PUBLISHED}
    assert contexts["TinyLlama/TinyLlama-1.1B-Chat-v1.0"] == 2048
    assert contexts["mistralai/Mistral-7B-Instruct-v0.3"] == 32_768
    assert None not in contexts.values()
    assert read_shape(TINY, name="tiny", dtype="bfloat16").context_tokens is None
    assert read_shape({**TINY, "n_positions": 64}, name="tiny", dtype="bfloat16").context_tokens == 64


def test_the_cache_of_a_token_is_known_where_the_parameters_are_not():
    experts = {**TINY, "model_type": "mixtral", "num_local_experts": 8}
    assert kv_bytes_per_token(experts, name="experts", dtype="float16") == 2 * 2 * 2 * 16 * 2
    with pytest.raises(ModelError, match="has kv_lora_rank: latent attention keeps no keys and values"):
        kv_bytes_per_token({**TINY, "kv_lora_rank": 512}, name="latent", dtype="float16")


@pytest.mark.model
@pytest.mark.parametrize(
    "heads",
    [
        {},
        {"num_key_value_heads": 1},
        {"num_key_value_heads": 4, "head_dim": 24},
        {"model_type": "gemma", "num_key_value_heads": 2},  # its head_dim is not hidden_size ÷ heads
        {"model_type": "falcon", "multi_query": True, "num_key_value_heads": None},
        {
            "model_type": "falcon",
            "new_decoder_architecture": True,
            "num_kv_heads": 2,
            "num_key_value_heads": None,
        },
    ],
)
def test_a_real_cache_takes_what_the_formula_says(heads, tmp_path):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    written = {key: value for key, value in {**TINY, **heads}.items() if value is not None}
    config = AutoConfig.from_pretrained(folder(tmp_path / "tiny", written))
    with torch.inference_mode():
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        cache = model(torch.zeros((3, 7), dtype=torch.long), use_cache=True).past_key_values
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert held == 3 * 7 * kv_bytes_per_token(config.to_dict(), name="tiny", dtype="bfloat16")


@pytest.mark.model
@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        (PACKAGED, 23_040),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 22_528),
        ("mistralai/Mistral-7B-Instruct-v0.3", 131_072),
    ],
)
def test_the_cache_of_published_models_is_as_large_as_said(name, bytes_per_token):
    """Their own code at their own size, on a device that keeps shapes and no numbers."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    published = {key: value for key, value in PUBLISHED[name].items() if value is not None}
    config = AutoConfig.for_model(**published)
    with torch.inference_mode(), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
        cache = model(torch.zeros((3, 7), dtype=torch.long), use_cache=True).past_key_values
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert held == 3 * 7 * bytes_per_token
    assert model_shape(ModelSpec(name=name)).kv_bytes_per_token == bytes_per_token
