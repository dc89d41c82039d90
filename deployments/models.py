"""Models: a Hugging Face id, a local folder or a preset, with dtype and revision."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Which weights, in which precision. `auto` is probed when the model loads, and recorded."""

    name: str  # preset, Hugging Face id or folder, as written
    dtype: Dtype = "auto"
    revision: str | None = None
    trust_remote_code: bool = False
