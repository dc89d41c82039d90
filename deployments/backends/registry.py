"""The backends by name; heavy members are named lazily, so that reading a config imports no engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from deployments.backends.backend import Backend
from deployments.backends.engine_args import (
    EngineArgs,
    HuggingFaceArgs,
    HuggingFaceContinuousArgs,
    SimulatedArgs,
    VllmArgs,
)
from deployments.models import ModelSpec


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a backend lives and what may be written about it."""

    path: str  # "module:Class", a class called with (model: ModelSpec | None, args: its args_type)
    args_type: type[EngineArgs]
    needs_model: bool = True


BACKENDS: dict[str, Entry] = {
    "huggingface": Entry("deployments.backends.huggingface:HuggingFace", HuggingFaceArgs),
    "huggingface-continuous": Entry(
        "deployments.backends.huggingface_continuous:HuggingFaceContinuous", HuggingFaceContinuousArgs
    ),
    "vllm": Entry("deployments.backends.vllm:Vllm", VllmArgs),
    "simulated": Entry("deployments.backends.simulated:Simulated", SimulatedArgs, needs_model=False),
}


def create(name: str, model: ModelSpec | None, args: Mapping[str, Any]) -> Backend:
    """A backend that is not started yet. KeyError for an unknown name, ValidationError for bad args."""
    entry = BACKENDS[name]
    module, cls = entry.path.split(":")
    backend: Backend = getattr(import_module(module), cls)(model, entry.args_type.model_validate(dict(args)))
    return backend
