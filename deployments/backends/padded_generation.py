"""Greedy generation of one padded batch with transformers, stamped at every step.

Prompts are padded on the left and the padding is masked, so that each row's tokens are those it would have
alone. The batch runs to its longest row, whatever the others need. EOS neither ends a row nor is it
suppressed: suppressing it would change the tokens. All calls belong to one thread, because the number of
CPU threads is a setting of the calling thread.

Beside the forward passes a step costs one stamp: a wait for the device, which `generate` itself makes at
the end of each step, and a flag that is already there. Ids leave the device once, when the batch has ended.
A row that is done keeps its slot: `generate` computes a padded batch whole, whatever such a row emits.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from deployments.backends.loaded_model import PAD_ID, LoadedModel, free_memory, is_out_of_memory
from deployments.errors import OutOfMemory
from results.errors import one_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """One padded batch: row i has an id for each stamp, also beyond the length that it needs."""

    launched_s: float
    token_s: tuple[float, ...]
    ids: list[list[int]]
    ended_s: float


class PaddedGeneration:
    """Generates batch by batch with a model that it is given."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded

    def generate(self, prompts: Sequence[Sequence[int]], new_tokens: int, cut: threading.Event) -> Generated:
        """Up to `new_tokens` per row, fewer if `cut` is set. OutOfMemory; other errors pass through."""
        launched_s = time.monotonic()
        failure = ""
        try:
            stamps = _Stamps(len(prompts), cut, self.loaded)
            ids = self._generate(prompts, new_tokens, stamps)
            return Generated(
                launched_s=launched_s, token_s=tuple(stamps.token_s), ids=ids, ended_s=time.monotonic()
            )
        except (RuntimeError, MemoryError) as exc:
            if not is_out_of_memory(exc):
                raise
            failure = one_line(exc)
        # Outside the handler, and not `from exc`: its traceback would keep the batch's tensors alive.
        free_memory(self.loaded.device)
        raise OutOfMemory(failure)

    def _generate(
        self, prompts: Sequence[Sequence[int]], new_tokens: int, stamps: "_Stamps"
    ) -> list[list[int]]:
        width = max(len(prompt) for prompt in prompts)
        ids = torch.full((len(prompts), width), PAD_ID, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        device = self.loaded.device
        with torch.inference_mode():
            generated = self.loaded.model.generate(
                ids.to(device),
                attention_mask=mask.to(device),
                max_new_tokens=new_tokens,
                stopping_criteria=StoppingCriteriaList([stamps]),
            )
        rows: list[list[int]] = generated[:, width:].tolist()
        return rows


class _Stamps(StoppingCriteria):  # type: ignore[misc]
    """Called by `generate` after every step: the moment at which the step's tokens exist."""

    def __init__(self, rows: int, cut: threading.Event, loaded: LoadedModel) -> None:
        self.token_s: list[float] = []
        self._cut, self._synchronise = cut, loaded.synchronise
        self._done = torch.zeros(rows, dtype=torch.bool, device=loaded.device)

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        self._synchronise()
        self.token_s.append(time.monotonic())
        if self._cut.is_set():
            self._done.fill_(True)
        return self._done
