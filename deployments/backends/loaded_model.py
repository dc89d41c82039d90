"""A transformers model on its device, for every engine that computes with one: limits, provenance, memory.

All calls belong to the thread that loads it, unless said otherwise: the number of CPU threads is a setting
of the calling thread.
"""

import gc
import threading
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging as transformers_logging

from deployments.backends import available_memory, resident_memory
from deployments.backends.backend import Limits, Memory, Room
from deployments.backends.cpu_threads import cpu_threads
from deployments.errors import ModelError, OutOfMemory
from deployments.models import ModelSpec, locate, pick_dtype, resolve
from deployments.virtual.hardware import bandwidth_of
from deployments.virtual.model_shape import kv_bytes_per_token
from results.errors import one_line

PAD_ID = 0  # any id: padding is masked
CPU_SHARE = 0.5  # of what is available, for batches

# transformers patches its classes while it loads: of two at once the first to end leaves the patches for good.
_LOADING = threading.Lock()


class LoadedModel:
    """Loads at once. `threads`: CPU threads as asked for (see `cpu_threads`). ModelError; OutOfMemory.

    `device_map`: how transformers spreads the layers over all GPUs of this process; None: all are on the first.
    """

    def __init__(self, spec: ModelSpec, threads: int | None, device_map: str | None = None) -> None:
        self.threads = cpu_threads(threads)
        torch.set_num_threads(self.threads)
        transformers_logging.disable_progress_bar()
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        spec, source = resolve(spec), locate(spec)
        dtype = pick_dtype(self.device) if spec.dtype == "auto" else spec.dtype
        self._gpus = range(torch.cuda.device_count() if device_map else 1)
        self.model: Any = _load(spec, source, dtype, device_map or self.device)
        config = self.model.config.get_text_config()
        self.limits = Limits(vocabulary=config.vocab_size, context_tokens=_context_tokens(config))
        self.setup: dict[str, Any] = {
            "model": spec.name,
            "source": source,
            "revision": getattr(self.model.config, "_commit_hash", None) or spec.revision,
            "dtype": dtype,
            "device": torch.cuda.get_device_name() if self.device == "cuda" else "cpu",
            **({"device_map": device_map, "gpus": len(self._gpus)} if device_map else {}),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "attention": self.model.config._attn_implementation,
            "context_tokens": self.limits.context_tokens,
            "vocabulary": self.limits.vocabulary,
            "weight_bytes": self.model.get_memory_footprint(),
            "bandwidth_bytes_per_s": bandwidth_of(torch.cuda.get_device_name())
            if self.device == "cuda"
            else None,
            "kv_bytes_per_token": _kv_bytes_per_token(config.to_dict(), spec.name, dtype),
        }
        self._resident_since_reset = False

    def synchronise(self) -> None:
        """Wait for the device; raises what a broken one raises. From any thread."""
        if self.device == "cuda":
            for gpu in self._gpus:
                torch.cuda.synchronize(gpu)

    def reset_memory(self) -> None:
        """Start a new period for `memory`. From any thread."""
        if self.device == "cuda":
            for gpu in self._gpus:
                torch.cuda.reset_peak_memory_stats(gpu)
        else:
            self._resident_since_reset = resident_memory.reset_peak()

    def memory(self) -> Memory:
        """Peak bytes that PyTorch allocated on the GPU (of several their peaks' sum); on a CPU the process's peak resident size."""
        if self.device == "cuda":
            peaks = [torch.cuda.max_memory_allocated(gpu) for gpu in self._gpus]
            return Memory(peak_bytes=sum(peaks), kind="allocated")
        peak_bytes = resident_memory.peak_bytes() if self._resident_since_reset else None
        return Memory(peak_bytes=peak_bytes, kind="resident", detail={"of": "process"})

    def room(self) -> Room | None:
        """What is in use and what may be taken: on a GPU what the device and PyTorch's own cache have free, on a
        CPU half of what the machine has, because who takes all of it there is killed without a word.

        Of several GPUs, which hold like parts of a batch, each counts as the one that has the least free.
        """
        if self.device == "cuda":
            used = [torch.cuda.memory_allocated(gpu) for gpu in self._gpus]
            free = [
                torch.cuda.mem_get_info(gpu)[0] + torch.cuda.memory_reserved(gpu) - taken
                for gpu, taken in zip(self._gpus, used, strict=True)
            ]
            return Room(used_bytes=sum(used), free_bytes=min(free) * len(free))
        resident, available = resident_memory.resident_bytes(), available_memory.available_bytes()
        if resident is None or available is None:
            return None
        return Room(used_bytes=resident, free_bytes=int(CPU_SHARE * available))

    def unload(self) -> None:
        """Give the model's memory back."""
        self.model = None
        free_memory(self.device)


def is_out_of_memory(exc: BaseException) -> bool:
    """Whether this is the GPU allocator's error, or the CPU's, which is a plain RuntimeError."""
    return isinstance(exc, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(exc)


def free_memory(device: str) -> None:
    """Collect what nothing refers to any more, and give it back to the device."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def _load(spec: ModelSpec, source: str, dtype: str, device_map: str) -> Any:
    try:
        with _LOADING:
            model = AutoModelForCausalLM.from_pretrained(
                source,
                revision=spec.revision or "main",
                dtype=getattr(torch, dtype),
                use_safetensors=True,
                trust_remote_code=spec.trust_remote_code,
                device_map=device_map,
            )
    except Exception as exc:
        if is_out_of_memory(exc):  # may be another process that has not ended yet: not permanent
            raise OutOfMemory(one_line(exc)) from exc
        raise ModelError(f"model {spec.name} cannot be loaded: {one_line(exc)}") from exc
    # Replaced as a whole: `generate` fills every None, EOS too, from the one that came with the model.
    model.generation_config = GenerationConfig(do_sample=False, pad_token_id=PAD_ID, eos_token_id=None)
    return model.eval()


def _kv_bytes_per_token(config: dict[str, Any], name: str, dtype: str) -> int | None:
    """None where the config does not say it: only a budget needs it."""
    try:
        return kv_bytes_per_token(config, name=name, dtype=dtype)
    except ModelError:
        return None


def _context_tokens(config: Any) -> int:
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    found = [tokens for name in names if (tokens := getattr(config, name, None))]
    if not found:
        raise ModelError(f"the model's config names no context length ({', '.join(names)})")
    return int(found[0])
