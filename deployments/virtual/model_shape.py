"""The shape of a model: how many bytes a pass reads for its weights, and for each token of context.

    c_kv = 2 · layers · kv_heads · head_dim · bytes                 keys and values of one token
    parameters = 2·V·H (V·H if tied) + layers · (2·H·heads·d + 2·H·kv_heads·d + 3·H·I + 2·H) + H

with vocabulary V, hidden size H, heads of d = head_dim, intermediate size I: a decoder with gated MLP and
RMS norms (Llama and what copies it). With fewer key-value heads than heads (grouped or multi-query attention)
the cache shrinks by as much. Where weights lie in the folder, they are counted instead.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployments import packaged_model
from deployments.errors import ModelError
from deployments.models import ModelSpec, resolve
from deployments.virtual.published_models import PUBLISHED
from deployments.weights import count_parameters

BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
GATED = ("llama", "mistral", "qwen2", "qwen3")  # architectures whose parameters follow from the config
PACKAGED = "HuggingFaceTB/SmolLM2-135M-Instruct"  # what the packaged preset is on the hub
FOREIGN_KEYS: Mapping[str, tuple[str, ...]] = {  # how older architectures spell them
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads", "attention_heads"),
    "hidden_size": ("n_embd", "d_model"),
}
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
LATENT = "kv_lora_rank"
REPEATED = "new_decoder_architecture"  # of Falcon, whose keys and values are kept once for each query head
NOT_MODELLED: Mapping[str, str] = {
    "num_local_experts": "a mixture of experts reads other weights in each pass",
    "num_experts": "a mixture of experts reads other weights in each pass",
    "n_routed_experts": "a mixture of experts reads other weights in each pass",
    LATENT: "latent attention keeps no keys and values",
    "quantization_config": "quantised weights are not as many bytes as their dtype says",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What a forward pass of one model moves and computes. The KV cache has the dtype of the weights."""

    name: str
    parameters: int
    layers: int
    kv_heads: int
    head_dim: int
    dtype: str
    sliding_window: int | None = None  # tokens; longer contexts cost less than said here
    context_tokens: int | None = None  # the longest prompt + output; None: the config does not say

    @property
    def weight_bytes(self) -> int:
        """Of all parameters; each is read once in a pass."""
        return self.parameters * BYTES[self.dtype]

    @property
    def kv_bytes_per_token(self) -> int:
        """c_kv. With a sliding window an upper bound, because tokens behind it are dropped."""
        return 2 * self.layers * self.kv_heads * self.head_dim * BYTES[self.dtype]


def model_shape(spec: ModelSpec) -> ModelShape:
    """The shape of a preset, a published model or a folder; `auto` counts as bfloat16, as on any GPU since 2020.

    No hub is asked: a hub id must be one of `PUBLISHED`. ModelError, in one line, otherwise.
    """
    spec = resolve(spec)
    dtype = "bfloat16" if spec.dtype == "auto" else spec.dtype
    published = PACKAGED if spec.name == packaged_model.NAME else spec.name
    if published in PUBLISHED:
        return read_shape(PUBLISHED[published], name=spec.name, dtype=dtype)
    folder = Path(spec.name).expanduser()
    if not folder.is_dir():
        known = ", ".join(PUBLISHED)
        raise ModelError(
            f"the shape of model {spec.name} is not known here, and no hub is asked: name a folder with its "
            f"config.json, or one of {known}"
        )
    return read_shape(
        _config(folder, spec.name), name=spec.name, dtype=dtype, counted=_count(folder, spec.name)
    )


def read_shape(config: Mapping[str, Any], *, name: str, dtype: str, counted: int | None = None) -> ModelShape:
    """The shape from a Hugging Face config. `counted`: parameters, where the weights themselves were counted.

    ModelError if the config does not say it, or is of an architecture that the formulas do not hold for.
    """
    config = config.get("text_config") or config  # of a model that also sees or hears
    for key, why in NOT_MODELLED.items():
        if config.get(key):
            raise ModelError(f"model {name} has {key}: {why}, which is not modelled")
    heads = _size(config, "num_attention_heads", name)
    layers, kv_heads, head_dim = _cache(config, name)
    parameters = counted or _parameters(config, name, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    slides = config.get("use_sliding_window", True)
    return ModelShape(
        name=name,
        parameters=parameters,
        layers=layers,
        kv_heads=kv_heads,
        head_dim=head_dim,
        dtype=dtype,
        sliding_window=config.get("sliding_window") if slides else None,
        context_tokens=next((config[key] for key in CONTEXT_KEYS if config.get(key)), None),
    )


def kv_bytes_per_token(config: Mapping[str, Any], *, name: str, dtype: str) -> int:
    """c_kv of any Hugging Face config, also of one whose parameters are not counted here.

    ModelError where a token has no keys and values, or the config does not say how many.
    """
    config = config.get("text_config") or config
    if config.get(LATENT):
        raise ModelError(f"model {name} has {LATENT}: {NOT_MODELLED[LATENT]}, which is not modelled")
    layers, kv_heads, head_dim = _cache(config, name)
    return 2 * layers * kv_heads * head_dim * BYTES[dtype]


def _cache(config: Mapping[str, Any], name: str) -> tuple[int, int, int]:
    """Layers, key-value heads, and the width of a head: given, or the hidden size shared among the heads."""
    heads = _size(config, "num_attention_heads", name)
    head_dim = config.get("head_dim") or _size(config, "hidden_size", name) // heads
    kv_heads = config.get("num_key_value_heads") or (1 if config.get("multi_query") else heads)
    if config.get(REPEATED):
        kv_heads = heads
    return _size(config, "num_hidden_layers", name), kv_heads, head_dim


def _parameters(config: Mapping[str, Any], name: str, *, heads: int, kv_heads: int, head_dim: int) -> int:
    kind = config.get("model_type")
    if kind not in GATED:
        raise ModelError(
            f"model {name} is of type {kind}, whose parameters are not counted from a config "
            f"({', '.join(GATED)} are): name a folder with its safetensors"
        )
    hidden = _size(config, "hidden_size", name)
    attention = 2 * hidden * head_dim * (heads + kv_heads)
    if kind == "qwen2":  # biases of queries, keys and values
        attention += head_dim * (heads + 2 * kv_heads)
    if kind == "qwen3":  # norms of queries and keys
        attention += 2 * head_dim
    mlp = 3 * hidden * _size(config, "intermediate_size", name)
    layer = attention + mlp + 2 * hidden
    tables = 1 if config.get("tie_word_embeddings", False) else 2
    embeddings = tables * _size(config, "vocab_size", name) * hidden
    return embeddings + _size(config, "num_hidden_layers", name) * layer + hidden


def _size(config: Mapping[str, Any], key: str, name: str) -> int:
    for spelling in (key, *FOREIGN_KEYS.get(key, ())):
        value = config.get(spelling)
        if isinstance(value, int) and value > 0:
            return value
    raise ModelError(f"model {name}: its config.json has no {key}")


def _config(folder: Path, name: str) -> Mapping[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"model {name} has no readable config.json") from error
    if not isinstance(config, dict):
        raise ModelError(f"model {name} has no readable config.json")
    return config


def _count(folder: Path, name: str) -> int | None:
    """The parameters in the folder's safetensors, from their headers alone; None if there are none.

    Some repositories hold the same weights twice, once more as `consolidated*.safetensors`.
    """
    files = sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("*.safetensors"))
    return sum(count_parameters(file, name) for file in files) if files else None
