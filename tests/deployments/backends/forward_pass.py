"""A hook into a model's forward passes, for what can only happen in the middle of a batch."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def before_pass(model: Any, number: int, act: Callable[[], Any]) -> Iterator[None]:
    """Do something in the engine's thread just before the model's forward pass of that number, from 1."""
    passes = itertools.count(1)

    def hook(module: Any, args: Any, kwargs: Any) -> None:
        if next(passes) == number:
            act()

    handle = model.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
