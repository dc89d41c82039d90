"""Whether a model is a causal language model: the only kind that writes on from a prompt.

The names are transformers' own. A config without `architectures` is judged by its type; encoders that can be
made decoders (BERT) count only if their config says that they were.
"""

from typing import Any

from deployments.errors import ModelError


def check_causal(name: str, config: Any) -> None:
    """ModelError, in one line, unless transformers' `config` is of a causal language model.

    Custom code is taken at its word, and so are models that also see or hear: vLLM runs them on text.
    """
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind, named = config.model_type, getattr(config, "architectures", None) or []
    if "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {}):
        return
    if getattr(config, "is_encoder_decoder", False):
        raise _refusal(name, f"{kind} has an encoder and a decoder")
    causal = {one for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values() for one in _each(names)}
    if named and not any(one in causal or one.endswith("ForConditionalGeneration") for one in named):
        raise _refusal(name, f"its config.json says {', '.join(named)}")
    if named:
        return
    encodes = kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if encodes or kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise _refusal(name, f"its config.json says model_type {kind}")


def _each(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _refusal(name: str, why: str) -> ModelError:
    return ModelError(f"model {name} must be a causal language model: {why}")
