"""A small random Llama that every engine loads in no time, and what it must say."""

from collections.abc import Sequence
from pathlib import Path

VOCABULARY = 512


def save_tiny_model(folder: Path, **changes: int) -> Path:
    """Write it into the folder, in float32 and without a tokenizer; always the same one, but for `changes` of its size.

    Every id is an end-of-sequence id: an engine that heeds them stops at once, and one that suppresses
    them has no token left to choose. Heads are 32 wide because vLLM's CPU kernels have none for 16; the
    weights are spread wide so that no two logits are close enough for rounding to swap them.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 2048,
    }
    config = LlamaConfig(**{**sizes, **changes}, initializer_range=0.2, eos_token_id=list(range(VOCABULARY)))
    with torch.random.fork_rng():
        torch.manual_seed(20)
        model = LlamaForCausalLM(config).to(torch.float32)
    model.save_pretrained(folder)
    return folder


def greedy_on_cpu(folder: Path, prompts: Sequence[Sequence[int]], counts: Sequence[int]) -> list[list[int]]:
    """The likeliest token again and again, on the CPU, without cache, padding, batch or `generate`."""
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    answers = []
    with torch.inference_mode():
        for prompt, count in zip(prompts, counts, strict=True):
            ids = list(prompt)
            for _ in range(count):
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
            answers.append(ids[len(prompt) :])
    return answers
