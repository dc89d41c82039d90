"""How a vLLM engine is made: its environment, its arguments, and what came of them.

Everything here blocks, for half a minute or more, and belongs in a thread. vLLM's context and
its EngineCore process follow https://docs.vllm.ai (V1 architecture).
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployments.backends.backend import Limits
from deployments.backends.cpu_threads import cpu_threads
from deployments.backends.engine_args import DEFAULT_MAX_NUM_SEQS, VllmArgs, lane_gpus
from deployments.backends.vllm_steps import StepRecorder
from deployments.errors import BackendError, ModelError
from deployments.models import ModelSpec, locate, pick_dtype, resolve
from deployments.virtual.hardware import bandwidth_of
from deployments.virtual.model_shape import read_shape
from results.errors import one_line

RELEASE_S = 5.0
FIT_TO_MEMORY = -1  # vLLM: the model's context, or as much of it as the KV cache holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A loaded engine and its facts."""

    llm: Any  # vllm.v1.engine.async_llm.AsyncLLM
    limits: Limits
    setup: Mapping[str, Any]
    kv_cache_bytes: int | None  # of all blocks; None where the layout is not plain attention


def build(model: ModelSpec, args: VllmArgs, steps: StepRecorder, given_up: Callable[[], bool]) -> Engine:
    """Load the model. ModelError for what no retry can mend; else the engine's own exception.

    `given_up` is asked before the EngineCore is started: BackendError if it says so.
    """
    begun_s = time.monotonic()
    source, model = locate(model), resolve(model)
    threads = cpu_threads(args.threads)  # vLLM binds one thread to one core
    with _environment(args, threads, local=Path(source).is_dir()):
        llm = _load(source, model, args, steps, given_up)
    return _describe(llm, model, source, threads, load_s=time.monotonic() - begun_s)


@contextmanager
def _environment(args: VllmArgs, threads: int, *, local: bool) -> Iterator[None]:
    """What vLLM reads from the environment while it loads; put back afterwards.

    LD_PRELOAD is vLLM's own doing, meant for its worker: left in place it would follow into every
    later child of this process.
    """
    cores = sorted(os.sched_getaffinity(0))[:threads]
    settings = {
        "VLLM_CPU_KVCACHE_SPACE": str(args.cpu_kv_cache_gib),
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
    }
    if local:
        settings["HF_HUB_OFFLINE"] = "1"
    before = {key: os.environ.get(key) for key in (*settings, "LD_PRELOAD")}
    os.environ.update(settings)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _load(
    source: str, model: ModelSpec, args: VllmArgs, steps: StepRecorder, given_up: Callable[[], bool]
) -> Any:
    try:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.v1.engine.async_llm import AsyncLLM
    except ImportError as exc:
        text = "continuous batching runs on huggingface-continuous where vLLM cannot be installed"
        raise ModelError(f"vLLM cannot be imported ({one_line(exc)}); {text}") from exc
    device = current_platform.device_type
    try:
        config = AsyncEngineArgs(
            model=source,
            revision=model.revision,
            dtype=pick_dtype(device) if model.dtype == "auto" else model.dtype,
            trust_remote_code=model.trust_remote_code,
            load_format="safetensors",
            skip_tokenizer_init=True,  # ids go in and come out
            generation_config="vllm",  # the model's own sampling defaults would not be greedy
            max_model_len=args.max_model_len or FIT_TO_MEMORY,
            max_num_seqs=args.max_num_seqs or DEFAULT_MAX_NUM_SEQS,
            max_num_batched_tokens=args.max_num_batched_tokens,
            gpu_memory_utilization=args.gpu_memory_utilization,
            tensor_parallel_size=lane_gpus(args.model_dump()),
            # Within a Ray actor vLLM would take Ray, and look for a placement group; the GPUs are this process's.
            distributed_executor_backend="mp" if lane_gpus(args.model_dump()) > 1 else None,
            enforce_eager=device == "cpu" if args.enforce_eager is None else args.enforce_eager,
            enable_prefix_caching=False,
            use_tqdm_on_load=False,
            disable_log_stats=False,
            enable_logging_iteration_details=True,  # prefill tokens of each step
        ).create_engine_config()
    except (OSError, ValueError, ImportError) as exc:  # pydantic's ValidationError is a ValueError
        raise ModelError(f"vLLM cannot load {model.name}: {one_line(exc)}") from exc
    if given_up():
        raise BackendError("the load was given up")
    return AsyncLLM.from_vllm_config(config, stat_loggers=[steps.factory])


def _describe(llm: Any, model: ModelSpec, source: str, threads: int, *, load_s: float) -> Engine:
    import torch
    import transformers
    import vllm
    from vllm.platforms import current_platform

    config = llm.vllm_config
    weights, cache, scheduler = config.model_config, config.cache_config, config.scheduler_config
    limits = Limits(vocabulary=weights.get_vocab_size(), context_tokens=weights.max_model_len)
    cpu = current_platform.is_cpu()
    kv_cache_bytes = _kv_cache_bytes(config)
    gpus = config.parallel_config.tensor_parallel_size
    setup = {
        "model": model.name,
        "source": source,
        "revision": model.revision,
        "dtype": str(weights.dtype).removeprefix("torch."),
        "device": "cpu" if cpu else current_platform.get_device_name(),
        "threads": threads if cpu else None,
        # The distribution of the CPU build is named otherwise: package metadata of "vllm" does not exist.
        "versions": {
            "vllm": vllm.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "engine_args": {
            "max_num_seqs": scheduler.max_num_seqs,
            "max_num_batched_tokens": scheduler.max_num_batched_tokens,
            "max_model_len": weights.max_model_len,
            "enable_chunked_prefill": scheduler.enable_chunked_prefill,
            "async_scheduling": bool(scheduler.async_scheduling),
            "enable_prefix_caching": cache.enable_prefix_caching,
            "enforce_eager": weights.enforce_eager,
            "gpu_memory_utilization": None if cpu else cache.gpu_memory_utilization,
            **({"tensor_parallel_size": gpus} if gpus > 1 else {}),
        },
        "vocabulary": limits.vocabulary,
        "context_tokens": limits.context_tokens,
        "kv_blocks": cache.num_gpu_blocks,
        "kv_block_tokens": cache.block_size,
        "kv_cache_bytes": kv_cache_bytes,
        "weight_bytes": _weight_bytes(weights, model.name),
        "bandwidth_bytes_per_s": None if cpu else _bandwidth(current_platform.get_device_name(), gpus),
        "load_s": round(load_s, 3),
    }
    return Engine(llm=llm, limits=limits, setup=setup, kv_cache_bytes=kv_cache_bytes)


async def release(engine: Engine) -> None:
    """After its shutdown: wait for the tasks that it has cancelled, then end its sockets."""
    tasks = [engine.llm.output_handler, engine.llm.engine_core.resources.output_queue_task]
    if begun := [task for task in tasks if task]:
        await asyncio.wait(begun, timeout=RELEASE_S)
    end_sockets(engine)


def end_sockets(engine: Engine) -> None:
    """End ZeroMQ's context and its threads, which vLLM leaves; in the thread that used the sockets."""
    engine.llm.engine_core.resources.ctx.destroy(linger=0)


def _kv_cache_bytes(config: Any) -> int | None:
    """2 (key, value) × layers × kv_heads × head_dim × bytes, for each token of each block, on all GPUs of the lane."""
    model, cache = config.model_config, config.cache_config
    if model.use_mla or model.is_hybrid or cache.cache_dtype != "auto":
        return None
    parallel = config.parallel_config
    values = model.get_num_layers(parallel) * model.get_num_kv_heads(parallel) * model.get_head_size()
    of_one = 2 * values * model.dtype.itemsize * cache.block_size * cache.num_gpu_blocks
    return int(of_one * parallel.tensor_parallel_size)


def _bandwidth(device: str, gpus: int) -> float | None:
    """Of all GPUs of the lane, which read their parts of the weights at the same time."""
    each = bandwidth_of(device)
    return None if each is None else each * gpus


def _weight_bytes(weights: Any, name: str) -> int | None:
    """Of all parameters, counted from the model's config; None where that does not say them."""
    try:
        dtype = str(weights.dtype).removeprefix("torch.")
        return read_shape(weights.hf_config.to_dict(), name=name, dtype=dtype).weight_bytes
    except ModelError:
        return None
