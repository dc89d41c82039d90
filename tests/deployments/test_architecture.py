"""Only causal language models write on from a prompt; what else a config may be of is refused."""

from typing import Any

import pytest

from deployments.architecture import check_causal
from deployments.errors import ModelError

pytestmark = pytest.mark.model


def config(kind: str, **values: Any) -> Any:
    from transformers import AutoConfig

    return AutoConfig.for_model(kind, **values)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("llama", {}),
        ("llama", {"architectures": ["LlamaForCausalLM"]}),
        ("gpt2", {"architectures": ["GPT2LMHeadModel"]}),
        ("gpt_neox", {}),
        ("bert", {"architectures": ["BertLMHeadModel"], "is_decoder": True}),
        ("bert", {"is_decoder": True}),
        ("gemma3", {"architectures": ["Gemma3ForConditionalGeneration"]}),
        ("bert", {"auto_map": {"AutoModelForCausalLM": "own.Model"}}),
    ],
)
def test_causal_language_models_pass(kind: str, values: dict[str, Any]) -> None:
    check_causal("m", config(kind, **values))


@pytest.mark.parametrize(
    ("kind", "values", "why"),
    [
        ("bert", {}, "its config.json says model_type bert"),
        ("bert", {"architectures": ["BertForMaskedLM"]}, "its config.json says BertForMaskedLM"),
        ("llama", {"architectures": ["LlamaForSequenceClassification"]}, "its config.json says LlamaForSequenceClassification"),
        ("t5", {}, "t5 has an encoder and a decoder"),
        ("bart", {"architectures": ["BartForConditionalGeneration"]}, "bart has an encoder and a decoder"),
        ("vit", {}, "its config.json says model_type vit"),
    ],
)  # fmt: skip
def test_other_models_are_refused(kind: str, values: dict[str, Any], why: str) -> None:
    with pytest.raises(ModelError, match=f"^model m must be a causal language model: {why}$"):
        check_causal("m", config(kind, **values))
