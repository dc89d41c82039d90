"""Tokens are compared with the CPU's, and only a near tie may go the other way."""

import os
from pathlib import Path

import pytest

from tests.gpu.agreement import NEAR, agreement, compute_in_full_float32, shortfalls
from tests.gpu.outcome import Failed
from tests.tiny_model import VOCABULARY, greedy_on_cpu

PROMPTS, COUNTS = [[5, 6, 7], [400, 3]], [6, 4]


@pytest.mark.model
def test_the_cpus_own_tokens_are_not_short_and_any_other_is_short_where_it_stands(tiny_model: Path) -> None:
    answers = greedy_on_cpu(tiny_model, PROMPTS, COUNTS)
    assert shortfalls(tiny_model, PROMPTS, answers) == [[0.0] * 6, [0.0] * 4]
    other = [*answers[1]]
    other[2] = (other[2] + 1) % VOCABULARY
    same, changed = shortfalls(tiny_model, PROMPTS, [answers[0], other])
    assert same == [0.0] * 6
    assert changed[:2] == [0.0, 0.0]
    assert changed[2] > NEAR
    with pytest.raises(Failed, match=r"^b: token 3 is .* σ of the logits below the CPU's$"):
        agreement(["a", "b"], [same, changed])


@pytest.mark.model
def test_products_that_are_rounded_like_tf32_differ_by_near_ties_only(tiny_model: Path) -> None:
    """And those that are rounded like bfloat16, which float32 must not be, by more."""
    import torch
    from transformers import LlamaForCausalLM

    ids = torch.randint(0, VOCABULARY, (16, 80), generator=torch.Generator().manual_seed(0))
    exact = LlamaForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)

    def furthest(bits: int) -> float:
        rounded = LlamaForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)

        def cut(values: torch.Tensor) -> torch.Tensor:
            dropped = 23 - bits
            kept = (values.contiguous().view(torch.int32) + (1 << dropped - 1)) >> dropped << dropped
            return kept.view(torch.float32)

        for layer in rounded.modules():
            if isinstance(layer, torch.nn.Linear):
                layer.weight.data = cut(layer.weight.data)
                layer.register_forward_pre_hook(lambda _, given: (cut(given[0]),))
        with torch.inference_mode():
            best, chosen = exact(ids).logits, rounded(ids).logits.argmax(-1, keepdim=True)
        return float(((best.max(-1).values - best.gather(-1, chosen)[..., 0]) / best.std(-1)).max())

    assert 0 < furthest(10) < NEAR < furthest(7)


def test_a_near_tie_is_told_with_its_place() -> None:
    assert agreement(["a", "b"], [[0.0, 0.0], [0.0]]) == "3 tokens"
    assert agreement(["a", "b"], [[0.0, 0.004, 0.0], [0.001]]) == (
        "4 tokens, 2 another of a near tie, first a: token 2, 0.004 σ of the logits below the CPU's"
    )


def test_float32_is_float32_in_this_process_and_in_vllms(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    for name in ("NVIDIA_TF32_OVERRIDE", "VLLM_FLOAT32_MATMUL_PRECISION"):
        monkeypatch.setenv(name, "")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        compute_in_full_float32()
        assert torch.get_float32_matmul_precision() == "highest"
        assert os.environ["NVIDIA_TF32_OVERRIDE"] == "0"
        assert os.environ["VLLM_FLOAT32_MATMUL_PRECISION"] == "highest"
    finally:
        torch.set_float32_matmul_precision(before)
