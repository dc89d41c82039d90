"""Whether an engine's tokens are those of the CPU in float32, where two that are nearly as likely count as equal.

A GPU adds in another order, and kernels for attention may round float32 products to TF32's 10 bits whatever is
asked of the rest, so that one of two nearly equal logits wins here and the other there; from then on the two
texts differ for good. Therefore each token is judged after the engine's own tokens before it: by how far its
logit is below the CPU's best, in standard deviations of the logits at that place.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.outcome import require

# At 1,280 places of the tiny model the inputs of all products rounded to 10 bits chose tokens that were at most
# 0.008 short, rounded to bfloat16's 7 bits at most 0.12 (`pytest tests/gpu/test_agreement.py -k tf32` holds it).
NEAR = 0.05


def compute_in_full_float32() -> None:
    """No TF32 in the products of this process and of the engines that it starts; before torch is used."""
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    os.environ["VLLM_FLOAT32_MATMUL_PRECISION"] = "highest"
    import torch

    torch.set_float32_matmul_precision("highest")


def shortfalls(
    folder: Path, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> list[list[float]]:
    """How far each token of each answer is below the CPU's best one; 0 is the CPU's own choice."""
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = []
    with torch.inference_mode():
        for prompt, answer in zip(prompts, answers, strict=True):
            logits = model(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
            chosen = logits.gather(1, torch.tensor(answer)[:, None])[:, 0]
            found.append(((logits.max(1).values - chosen) / logits.std(1)).tolist())
    return found


def agreement(names: Sequence[str], found: Sequence[Sequence[float]]) -> str:
    """In words, with the first token that is another; Failed if one is further off than a near tie."""
    others = [
        (name, place, below)
        for name, row in zip(names, found, strict=True)
        for place, below in enumerate(row, start=1)
        if below > 0
    ]
    for name, place, below in others:
        require(below <= NEAR, f"{name}: token {place} is {below:.2g} σ of the logits below the CPU's")
    count = sum(map(len, found))
    if not others:
        return f"{count} tokens"
    name, place, below = others[0]
    return (
        f"{count} tokens, {len(others)} another of a near tie, first {name}: token {place}, "
        f"{below:.2g} σ of the logits below the CPU's"
    )
