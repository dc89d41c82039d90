"""What a person may write about an engine, checked strictly; the defaults are the recorded ones."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from deployments.virtual.step_model import Linear

DEFAULT_MAX_NUM_SEQS = 256  # where neither the config nor a setting says how many slots

# What AsyncLLM, which is how vLLM is run here, takes if it is asked for no budget, on a CPU and on any GPU: its
# tables by device (2,048 to 16,384) are for `vllm serve` and for its class LLM (vllm 0.32, engine/arg_utils.py,
# `get_batch_defaults`; config/scheduler.py). Never more than max_num_seqs × max_model_len.
VLLM_BATCHED_TOKENS = 2_048
SIMULATED_KV_BYTES_PER_TOKEN = 131_072

Milliseconds = Annotated[float, Field(ge=0)]
Deadline = Annotated[float, Field(gt=0)]
Threads = Annotated[int, Field(ge=1)] | None
Bytes = Annotated[int, Field(ge=1)]
Slots = Annotated[int, Field(ge=1)] | None
Gpus = Annotated[int, Field(ge=1)] | None
SIZES = ("tensor_parallel_size", "lane_gpus")  # arguments that say how many GPUs a lane has


def lane_gpus(engine: Mapping[str, Any]) -> int:
    """GPUs of one node that a lane with these arguments has."""
    return next((int(engine[key]) for key in SIZES if engine.get(key)), 1)


class EngineArgs(BaseModel):
    """Strict and frozen: an unknown key, and a number that is not finite, is an error.

    The docstrings of fields go into the schema of the config.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @property
    def joinable(self) -> bool:
        """Whether an engine with these arguments lets a request join while others run."""
        return False


class HuggingFaceArgs(EngineArgs):
    """transformers' generate: one lockstep batch at a time."""

    kv_budget_bytes: Bytes | Literal["auto"] | None = None
    """What keys and values of a padded batch may take, in bytes: a batch ends where one more row would take more. `auto` is what the memory beside the weights leaves when a measured reserve is taken off: on a GPU of all that is free, on a CPU of half of it; simulated sweeps take the reserve from `simulation.kv_reserve_gib`. Left out it is `auto`, and no limit where that cannot be measured."""
    lane_gpus: Gpus = None
    """GPUs of one node that a lane has; 1 if left out. More of them need device_map."""
    device_map: Literal["auto", "balanced", "balanced_low_0", "sequential"] | None = None
    """How transformers spreads the layers over the GPUs of a lane, which compute one after the other. Not run on several GPUs so far."""
    threads: Threads = None
    """CPU threads; cores − 1 (at least 1) if left out."""
    start_deadline_s: Deadline = 600.0
    """How long loading may take, in seconds."""

    @model_validator(mode="after")
    def _check_map(self) -> Self:
        several = (self.lane_gpus or 1) > 1
        if several and self.device_map is None:
            raise ValueError(f"device_map must be given for several GPUs, got lane_gpus {self.lane_gpus}")
        if self.device_map is not None and not several:
            raise ValueError(f"lane_gpus must be at least 2 with device_map, got {self.lane_gpus or 1}")
        return self


class HuggingFaceContinuousArgs(EngineArgs):
    """transformers' continuous batching; each combination is a lane key and costs a load."""

    max_num_seqs: Slots = None
    """Slots; the setting's max_batch_size if left out."""
    max_num_batched_tokens: Annotated[int, Field(ge=1)] = 2048
    """The most tokens of one pass; longer prompts are cut up."""
    kv_block_tokens: Annotated[int, Field(ge=4)] = 256
    """Size of a block of the KV cache, in tokens."""
    kv_blocks: Annotated[int, Field(ge=1)] | None = None
    """Blocks of the KV cache; if left out, what all slots can fill, as far as the memory below holds it."""
    cpu_kv_cache_gib: Annotated[int, Field(ge=1)] = 1
    """The most memory for the KV cache on a CPU, in GiB."""
    gpu_free_memory_share: Annotated[float, Field(gt=0, le=1)] = 0.9
    """The most of what the loaded model leaves free on a GPU that the KV cache and its buffers take, a share."""
    scheduler: Literal["fifo", "prefill_first"] = "fifo"
    """What goes into a pass first: sequences that generate, or prompts that are cut up."""
    use_cuda_graph: bool = False
    """Whether steps are captured in CUDA graphs, on a GPU."""
    threads: Threads = None
    """CPU threads; cores − 1 (at least 1) if left out."""
    start_deadline_s: Deadline = 600.0
    """How long loading may take, in seconds."""

    @property
    def joinable(self) -> bool:
        """Always."""
        return True


class VllmArgs(EngineArgs):
    """vLLM's own knobs; each combination is a lane key and costs a load."""

    max_num_seqs: Slots = None
    """Slots; the setting's max_batch_size if left out."""
    max_num_batched_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens of one step; if left out vLLM's own 2,048, or max_num_seqs × max_model_len where that is less."""
    max_model_len: Annotated[int, Field(ge=2)] | None = None
    """The longest prompt + output, in tokens; the model's context if left out."""
    tensor_parallel_size: Gpus = None
    """GPUs of one node that the model is split over, all of them of one lane; 1 if left out. Not run on several GPUs so far."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of a GPU's memory that vLLM takes."""
    cpu_kv_cache_gib: Annotated[int, Field(ge=1)] = 1
    """Memory for the KV cache on a CPU, in GiB."""
    enforce_eager: bool | None = None
    """Whether steps are neither compiled nor captured; true on a CPU and false on a GPU if left out."""
    threads: Threads = None
    """CPU threads; cores − 1 (at least 1) if left out."""
    start_deadline_s: Deadline = 900.0
    """How long loading may take, in seconds."""

    @property
    def joinable(self) -> bool:
        """Always."""
        return True


class SimulatedArgs(EngineArgs):
    """A linear step-time model that sleeps in real time: fixed + per_sequence·B + prefill."""

    engine: Literal["lockstep", "iteration"] = "lockstep"
    """A batch runs to its longest row, or is re-formed at each step."""
    max_num_seqs: Slots = None
    """Slots of the iteration engine; the setting's max_batch_size if left out."""
    fixed_ms: Milliseconds = 22.0
    """What a step costs whatever is in it, in milliseconds."""
    per_sequence_ms: Milliseconds = 0.35
    """What each sequence adds to a step, in milliseconds."""
    per_1000_prefill_tokens_ms: Milliseconds = 60.0
    """What 1,000 prompt tokens add to a step, in milliseconds."""
    kv_budget_bytes: Bytes | None = None
    """What keys and values of a padded batch may take, in bytes, with the lockstep engine; no limit if left out."""
    kv_bytes_per_token: Bytes | None = None
    """What keys and values of one token take, in bytes; 131072, as of Llama 3 8B, if left out."""
    vocabulary: Annotated[int, Field(ge=2)] = 32_000
    """How many token ids there are."""
    context_tokens: Annotated[int, Field(ge=2)] = 4_096
    """The longest prompt + output, in tokens."""
    lane_gpus: Gpus = None
    """GPUs of one node that a lane on a cluster has, to try what a larger model asks for; 1 if left out."""
    load_s: Annotated[float, Field(ge=0)] = 0.0
    """How long loading takes, in seconds."""
    start_deadline_s: Deadline = 60.0
    """How long loading may take, in seconds."""

    @model_validator(mode="after")
    def _check_budget(self) -> Self:
        if self.kv_budget_bytes is not None and self.joinable:
            raise ValueError("kv_budget_bytes belongs to engine: lockstep, got engine: iteration")
        return self

    @property
    def token_bytes(self) -> int:
        """c_kv."""
        return self.kv_bytes_per_token or SIMULATED_KV_BYTES_PER_TOKEN

    @property
    def joinable(self) -> bool:
        """With the iteration engine."""
        return self.engine == "iteration"

    @property
    def step_model(self) -> Linear:
        """The costs, in seconds."""
        return Linear(
            fixed_s=self.fixed_ms / 1e3,
            per_sequence_s=self.per_sequence_ms / 1e3,
            per_prefill_token_s=self.per_1000_prefill_tokens_ms / 1e6,
        )
