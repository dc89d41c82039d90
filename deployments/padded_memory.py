"""Who gives a dispatcher its KV budget: the config in bytes, or a GPU's data sheet in virtual time.

    budget = memory of the GPU − weights − reserve

The reserve is for what is neither weights nor cache: activations, logits, the CUDA context, fragments. Where a
real engine pads there is a budget if the config gives one, and none otherwise: `auto`, what a measured reserve
leaves of the memory that is free, is not measured yet.
"""

from typing import Literal

from deployments.errors import BackendError, ModelError
from deployments.virtual.hardware import GIB, Hardware
from deployments.virtual.model_shape import ModelShape
from strategies.kv_budget import KVBudget


def given(budget_bytes: int | Literal["auto"] | None, bytes_per_token: int | None) -> KVBudget | None:
    """The budget of a loaded engine, from its argument and what its model says; None: there is no limit.

    BackendError where it cannot be had.
    """
    if budget_bytes is None:
        return None
    if budget_bytes == "auto":
        raise BackendError("kv_budget_bytes: auto is not measured yet: give it in bytes")
    if bytes_per_token is None:
        raise BackendError("kv_budget_bytes needs a model whose config says what a token of cache takes")
    return KVBudget(budget_bytes=budget_bytes, bytes_per_token=bytes_per_token)


def left_by(hardware: Hardware, shape: ModelShape, reserve_bytes: float) -> KVBudget:
    """What the weights and the reserve leave of a GPU. ModelError if that is nothing."""
    left_bytes = hardware.memory_bytes - shape.weight_bytes - reserve_bytes
    if left_bytes <= 0:
        need = f"{shape.weight_bytes / GIB:.3g} GiB of weights and {reserve_bytes / GIB:.3g} GiB of reserve"
        raise ModelError(
            f"{shape.name} does not fit {hardware.title} ({hardware.memory_bytes / GIB:.3g} GiB): {need}"
        )
    return KVBudget(budget_bytes=int(left_bytes), bytes_per_token=shape.kv_bytes_per_token)
