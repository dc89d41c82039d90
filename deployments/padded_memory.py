"""Who gives a dispatcher its KV budget: the config in bytes, or a GPU's data sheet in virtual time.

    budget = memory of the GPU − weights − reserve

The reserve is for what is neither weights nor cache: activations, logits, the CUDA context, fragments. A real
engine that pads has the budget that the config gives in bytes, or what a measured reserve (deployments/reserve.py)
leaves of the memory that is free once the model is loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deployments.backends.backend import Room
from deployments.errors import BackendError, ModelError
from deployments.reserve import Reserve
from deployments.virtual.hardware import GIB, Hardware
from deployments.virtual.model_shape import ModelShape
from strategies.kv_budget import KVBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedBudget:
    """What a loaded engine's batches may take, and what that was derived from: nothing, if it was given."""

    kv: KVBudget
    room: Room | None = None
    reserve: Reserve | None = None

    def to_dict(self) -> dict[str, Any]:
        """For the set-up of a trial, as plain JSON values."""
        found: Mapping[str, Any] = {"kv_budget_bytes": self.kv.budget_bytes}
        if self.room is None or self.reserve is None:
            return {**found}
        reserve_bytes = self.room.free_bytes - self.kv.budget_bytes
        return {**found, "free_bytes": self.room.free_bytes, "reserve_bytes": reserve_bytes}

    def limit(self, max_batch_size: int, row_tokens: int | None) -> KVBudget | None:
        """What a strategy must keep to; None where a full batch of rows of so many tokens fits."""
        if row_tokens is None or self.kv.rows(row_tokens, 0) < max_batch_size:
            return self.kv
        return None


def given(budget_bytes: int | Literal["auto"] | None, bytes_per_token: int | None) -> PaddedBudget | None:
    """The budget of a loaded engine that its config gives in bytes; None: it does not.

    BackendError where its model does not say what a token takes.
    """
    if budget_bytes is None or budget_bytes == "auto":
        return None
    if bytes_per_token is None:
        raise BackendError("kv_budget_bytes needs a model whose config says what a token of cache takes")
    return PaddedBudget(kv=KVBudget(budget_bytes=budget_bytes, bytes_per_token=bytes_per_token))


def left_free(room: Room, reserve: Reserve) -> PaddedBudget:
    """What a measured reserve leaves of the memory that is free now."""
    return PaddedBudget(kv=reserve.budget(room.free_bytes), room=room, reserve=reserve)


def left_by(hardware: Hardware, shape: ModelShape, reserve_bytes: float) -> KVBudget:
    """What the weights and the reserve leave of a GPU. ModelError if that is nothing."""
    left_bytes = hardware.memory_bytes - shape.weight_bytes - reserve_bytes
    if left_bytes <= 0:
        need = f"{shape.weight_bytes / GIB:.3g} GiB of weights and {reserve_bytes / GIB:.3g} GiB of reserve"
        raise ModelError(
            f"{shape.name} does not fit {hardware.title} ({hardware.memory_bytes / GIB:.3g} GiB): {need}"
        )
    return KVBudget(budget_bytes=int(left_bytes), bytes_per_token=shape.kv_bytes_per_token)
