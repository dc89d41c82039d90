"""Shared by all tests: nothing reaches a hub or reports usage, and Ray finds its settings when imported."""

import os
from pathlib import Path

import pytest

from deployments.local_ray import prepare

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
prepare()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small random Llama in float32, without a tokenizer, for both engines.

    Every id is an end-of-sequence id: an engine that heeds them stops at once, and one that suppresses
    them has no token left to choose. Heads are 32 wide because vLLM's CPU kernels have none for 16; the
    weights are spread wide so that no two logits are close enough for rounding to swap them.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        initializer_range=0.2,
        eos_token_id=list(range(512)),
    )
    with torch.random.fork_rng():
        torch.manual_seed(20)
        model = LlamaForCausalLM(config).to(torch.float32)
    folder = tmp_path_factory.mktemp("tiny-model")
    model.save_pretrained(folder)
    return folder
