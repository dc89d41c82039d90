"""Greedy generation of one padded batch with transformers, stamped at every step.

Prompts are padded on the left and the padding is masked, so that each row's tokens are those it would have
alone. The batch runs to its longest row, whatever the others need. EOS neither ends a row nor is it
suppressed: suppressing it would change the tokens. All calls belong to one thread, because the number of
CPU threads is a setting of the calling thread.
"""

import gc
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig, StoppingCriteria, StoppingCriteriaList
from transformers.utils import logging as transformers_logging

from deployments.backends import resident_memory
from deployments.backends.backend import Limits, Memory
from deployments.backends.cpu_threads import cpu_threads
from deployments.errors import ModelError, OutOfMemory
from deployments.models import ModelSpec, locate, one_line, pick_dtype, resolve

_PAD_ID = 0  # any id: padding is masked


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """One padded batch: row i has an id for each stamp, also beyond the length that it needs."""

    launched_s: float
    token_s: tuple[float, ...]
    ids: list[list[int]]
    ended_s: float


class PaddedGeneration:
    """A loaded model. `threads`: CPU threads as asked for (see `cpu_threads`)."""

    def __init__(self, spec: ModelSpec, threads: int | None) -> None:
        torch.set_num_threads(cpu_threads(threads))
        transformers_logging.disable_progress_bar()
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        spec, source = resolve(spec), locate(spec)
        dtype = pick_dtype(self._device) if spec.dtype == "auto" else spec.dtype
        self.model: Any = _load(spec, source, dtype, self._device)
        config = self.model.config.get_text_config()
        self.limits = Limits(vocabulary=config.vocab_size, context_tokens=_context_tokens(config))
        self.setup = {
            "model": spec.name,
            "source": source,
            "revision": getattr(self.model.config, "_commit_hash", None) or spec.revision,
            "dtype": dtype,
            "device": torch.cuda.get_device_name() if self._device == "cuda" else "cpu",
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "attention": self.model.config._attn_implementation,
            "context_tokens": self.limits.context_tokens,
            "vocabulary": self.limits.vocabulary,
            "weight_bytes": self.model.get_memory_footprint(),
        }
        self._resident_since_reset = False

    def generate(self, prompts: Sequence[Sequence[int]], new_tokens: int, cut: threading.Event) -> Generated:
        """Up to `new_tokens` per row, fewer if `cut` is set. OutOfMemory; other errors pass through."""
        launched_s = time.monotonic()
        stamps = _Stamps(cut, self._device)
        failure = ""
        try:
            ids = self._generate(prompts, new_tokens, stamps)
            return Generated(
                launched_s=launched_s, token_s=tuple(stamps.token_s), ids=ids, ended_s=time.monotonic()
            )
        except (RuntimeError, MemoryError) as exc:
            if not _is_out_of_memory(exc):
                raise
            failure = one_line(exc)
        # Outside the handler, and not `from exc`: its traceback would keep the batch's tensors alive.
        _free(self._device)
        raise OutOfMemory(failure)

    def synchronise(self) -> None:
        """Wait for the device; raises what a broken one raises."""
        if self._device == "cuda":
            torch.cuda.synchronize()

    def reset_memory(self) -> None:
        """Start a new period for `memory`."""
        if self._device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        else:
            self._resident_since_reset = resident_memory.reset_peak()

    def memory(self) -> Memory:
        """Peak bytes that PyTorch allocated on the GPU; on a CPU the process's peak resident size."""
        if self._device == "cuda":
            return Memory(peak_bytes=torch.cuda.max_memory_allocated(), kind="allocated")
        peak_bytes = resident_memory.peak_bytes() if self._resident_since_reset else None
        return Memory(peak_bytes=peak_bytes, kind="resident", detail={"of": "process"})

    def unload(self) -> None:
        """Give the model's memory back."""
        self.model = None
        _free(self._device)

    def _generate(
        self, prompts: Sequence[Sequence[int]], new_tokens: int, stamps: "_Stamps"
    ) -> list[list[int]]:
        width = max(len(prompt) for prompt in prompts)
        ids = torch.full((len(prompts), width), _PAD_ID, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        with torch.inference_mode():
            generated = self.model.generate(
                ids.to(self._device),
                attention_mask=mask.to(self._device),
                max_new_tokens=new_tokens,
                stopping_criteria=StoppingCriteriaList([stamps]),
            )
        rows: list[list[int]] = generated[:, width:].tolist()
        return rows


class _Stamps(StoppingCriteria):  # type: ignore[misc]
    """Called by `generate` after every step: the moment at which the step's tokens exist."""

    def __init__(self, cut: threading.Event, device: str) -> None:
        self.token_s: list[float] = []
        self._cut, self._device = cut, device

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        if self._device == "cuda":
            torch.cuda.synchronize()
        self.token_s.append(time.monotonic())
        return torch.full((input_ids.shape[0],), self._cut.is_set(), device=input_ids.device)


def _load(spec: ModelSpec, source: str, dtype: str, device: str) -> Any:
    try:
        model = AutoModelForCausalLM.from_pretrained(
            source,
            revision=spec.revision or "main",
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            trust_remote_code=spec.trust_remote_code,
            device_map=device,
        )
    except Exception as exc:
        if _is_out_of_memory(exc):  # may be another process that has not ended yet: not permanent
            raise OutOfMemory(one_line(exc)) from exc
        raise ModelError(f"model {spec.name} cannot be loaded: {one_line(exc)}") from exc
    # Replaced as a whole: `generate` fills every None, EOS too, from the one that came with the model.
    model.generation_config = GenerationConfig(do_sample=False, pad_token_id=_PAD_ID, eos_token_id=None)
    return model.eval()


def _context_tokens(config: Any) -> int:
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    found = [tokens for name in names if (tokens := getattr(config, name, None))]
    if not found:
        raise ModelError(f"the model's config names no context length ({', '.join(names)})")
    return int(found[0])


def _is_out_of_memory(exc: BaseException) -> bool:
    # The CPU allocator raises a plain RuntimeError.
    return isinstance(exc, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(exc)


def _free(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
