"""What PyTorch is asked to give to the host: on a GPU each is a copy, and a wait for all that was queued before.

Counted by what is called, so that it is seen on a CPU too, where nothing has to move.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

TO_HOST = {
    getattr(torch.Tensor, name)
    for name in (
        *("cpu", "numpy", "tolist", "item", "__array__", "__iter__"),
        *("__bool__", "__int__", "__float__", "__index__", "__contains__"),
        *("nonzero", "is_nonzero", "equal"),
    )
} | {torch.equal, torch.nonzero, torch.is_nonzero}


class HostCopies(TorchFunctionMode):  # type: ignore[misc]
    """As a context: `bytes` has the size of each tensor that was read, in order, in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: list[int] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = [*args[1:], *(kwargs or {}).values()]
        to_cpu = func is torch.Tensor.to and any(
            isinstance(device, str | torch.device) and torch.device(device) != args[0].device
            for device in given
        )
        if func in TO_HOST or to_cpu:
            self.bytes.append(args[0].nbytes)
        return func(*args, **(kwargs or {}))
