"""How transformers' continuous batching is set up: its cache, its limits, and what came of them.

Everything here blocks and belongs in a thread. The KV cache is reserved at once, in blocks; a request
holds as many as its tokens need, and more as it grows. On a CPU its attention is PyTorch's, over the keys
of the whole batch under one mask; that mask is reserved too, max_num_batched_tokens × the cache's tokens.
"""

import time
from typing import Any

import torch
from transformers import ContinuousBatchingConfig
from transformers.generation.continuous_batching.model_runner import infer_max_single_request_tokens
from transformers.generation.continuous_batching.utils import find_head_dim, find_num_key_value_heads

from deployments.backends.backend import Limits
from deployments.backends.engine_args import DEFAULT_MAX_NUM_SEQS, HuggingFaceContinuousArgs
from deployments.backends.loaded_model import LoadedModel, is_out_of_memory
from deployments.backends.paged_manager import Listener, PagedManager
from deployments.backends.paged_passes import PassRecorder
from deployments.errors import ModelError, OutOfMemory
from deployments.models import ModelSpec
from results.errors import one_line

_GIB = 2**30


class PagedEngine:
    """A loaded model with a cache. ModelError for what no retry can mend; OutOfMemory may be tried again."""

    def __init__(
        self, spec: ModelSpec, args: HuggingFaceContinuousArgs, passes: PassRecorder, listener: Listener
    ) -> None:
        begun_s = time.monotonic()
        slots = args.max_num_seqs or DEFAULT_MAX_NUM_SEQS
        if args.max_num_batched_tokens < slots:
            text = f"must be at least max_num_seqs {slots}, got {args.max_num_batched_tokens}"
            raise ModelError(f"max_num_batched_tokens {text}")
        self._loaded = LoadedModel(spec, args.threads)
        config = _config(self._loaded, args, slots)
        try:
            self.manager: Any = PagedManager(
                self._loaded.model, config, threads=self._loaded.threads, passes=passes, listener=listener
            )
            if args.use_cuda_graph:
                self.manager.warmup()  # else each is captured in the middle of what is measured
        except Exception as exc:
            if is_out_of_memory(exc):
                raise OutOfMemory(f"the KV cache does not fit: {one_line(exc)}") from exc
            raise ModelError(f"model {spec.name} cannot be batched continuously: {one_line(exc)}") from exc
        cache = self.manager.batch_processor.cache
        self.kv_cache_bytes: int = cache.num_sectors * cache.bytes_per_sector
        self.limits = Limits(
            vocabulary=self._loaded.limits.vocabulary,
            context_tokens=min(self._loaded.limits.context_tokens, infer_max_single_request_tokens(cache)),
        )
        self.setup = self._loaded.setup | self._effective(args, load_s=time.monotonic() - begun_s)

    def synchronise(self) -> None:
        """Wait for the device; raises what a broken one raises."""
        self._loaded.synchronise()

    def end(self) -> None:
        """Stop the loop at its next step, wait for its thread, and give the memory back."""
        if self.manager.is_running():
            self.manager.stop(block=True, hard_stop=True)
        self.manager.destroy()
        self.manager = None
        self._loaded.unload()

    def _effective(self, args: HuggingFaceContinuousArgs, *, load_s: float) -> dict[str, Any]:
        manager = self.manager
        config, cache = manager.continuous_batching_config, manager.batch_processor.cache
        return {
            "attention": self._loaded.model.config._attn_implementation,
            "context_tokens": self.limits.context_tokens,
            "engine_args": {
                "max_num_seqs": config.max_requests_per_batch,
                "max_num_batched_tokens": config.max_batch_tokens,
                "scheduler": config.scheduler_type,
                "safety_margin": manager.batch_processor.scheduler.safety_margin,
                "allow_block_sharing": config.allow_block_sharing,
                "use_async_batching": config.use_async_batching,
                "use_cuda_graph": any(config.cuda_graph_booleans),
                "gpu_free_memory_share": config.max_memory_percent if self._loaded.device == "cuda" else None,
            },
            "kv_blocks": cache.num_blocks,
            "kv_block_tokens": args.kv_block_tokens,
            "kv_cache_bytes": self.kv_cache_bytes,
            "load_s": round(load_s, 3),
        }


def _config(loaded: LoadedModel, args: HuggingFaceContinuousArgs, slots: int) -> ContinuousBatchingConfig:
    return ContinuousBatchingConfig(
        page_size=args.kv_block_tokens,
        num_blocks=_blocks(loaded, args, slots),
        max_batch_tokens=args.max_num_batched_tokens,
        max_requests_per_batch=slots,
        max_memory_percent=args.gpu_free_memory_share if loaded.device == "cuda" else None,
        scheduler_type=args.scheduler,
        allow_block_sharing=False,  # prefix caching
        use_async_batching=False,  # it would compute rows that have ended, and know a step's tokens a step late
        use_cuda_graph=args.use_cuda_graph,
        # Flash attention where it is installed: it has no kernel for a CPU nor for float32.
        auto_switch_to_flash=loaded.device == "cuda" and loaded.model.dtype != torch.float32,
    )


def _blocks(loaded: LoadedModel, args: HuggingFaceContinuousArgs, slots: int) -> int | None:
    """As asked; else what all slots can fill at most, within the cache's size. None: what the GPU has free."""
    if args.kv_blocks is not None:
        return args.kv_blocks
    most = slots * -(-loaded.limits.context_tokens // args.kv_block_tokens)
    config = loaded.model.config.get_text_config()
    values: int = config.num_hidden_layers * find_num_key_value_heads(config) * find_head_dim(config)
    block_bytes: int = 2 * values * loaded.model.dtype.itemsize * args.kv_block_tokens  # keys and values
    if loaded.device == "cpu":
        return max(1, min(most, args.cpu_kv_cache_gib * _GIB // block_bytes))
    free_bytes, _ = torch.cuda.mem_get_info()
    mask_bytes = args.max_num_batched_tokens * args.kv_block_tokens * loaded.model.dtype.itemsize
    fits = most * (block_bytes + mask_bytes) < free_bytes * args.gpu_free_memory_share / 2
    return most if fits else None
