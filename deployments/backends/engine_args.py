"""What a person may write about an engine, checked strictly; the defaults are the recorded ones."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Milliseconds = Annotated[float, Field(ge=0)]


class EngineArgs(BaseModel):
    """Strict and frozen: an unknown key, and a number that is not finite, is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @property
    def joinable(self) -> bool:
        """Whether an engine with these arguments lets a request join while others run."""
        return False


class HuggingFaceArgs(EngineArgs):
    """transformers' generate: one lockstep batch at a time."""

    threads: Annotated[int, Field(ge=1)] | None = None  # CPU threads; default: cores − 1, at least 1
    start_deadline_s: Annotated[float, Field(gt=0)] = 600.0


class HuggingFaceContinuousArgs(EngineArgs):
    """transformers' continuous batching; each combination is a lane key and costs a load."""

    max_num_seqs: Annotated[int, Field(ge=1)] | None = None  # default: the cell's max_batch_size
    max_num_batched_tokens: Annotated[int, Field(ge=1)] = 2048  # of one pass; longer prompts are cut up
    kv_block_tokens: Annotated[int, Field(ge=4)] = 256
    kv_blocks: Annotated[int, Field(ge=1)] | None = None  # default: from the two below
    cpu_kv_cache_gib: Annotated[int, Field(ge=1)] = 1
    gpu_free_memory_share: Annotated[float, Field(gt=0, le=1)] = 0.9  # of what the loaded model leaves free
    scheduler: Literal["fifo", "prefill_first"] = "fifo"
    use_cuda_graph: bool = False
    threads: Annotated[int, Field(ge=1)] | None = None
    start_deadline_s: Annotated[float, Field(gt=0)] = 600.0

    @property
    def joinable(self) -> bool:
        """Always."""
        return True


class VllmArgs(EngineArgs):
    """vLLM's own knobs; each combination is a lane key and costs a load."""

    max_num_seqs: Annotated[int, Field(ge=1)] | None = None  # default: the cell's max_batch_size
    max_num_batched_tokens: Annotated[int, Field(ge=1)] | None = None
    max_model_len: Annotated[int, Field(ge=2)] | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    cpu_kv_cache_gib: Annotated[int, Field(ge=1)] = 1
    enforce_eager: bool | None = None  # default: true on a CPU, false on a GPU
    threads: Annotated[int, Field(ge=1)] | None = None
    start_deadline_s: Annotated[float, Field(gt=0)] = 900.0

    @property
    def joinable(self) -> bool:
        """Always."""
        return True


class SimulatedArgs(EngineArgs):
    """A linear step-time model that sleeps in real time: fixed + per_sequence·B + prefill."""

    engine: Literal["lockstep", "iteration"] = "lockstep"
    max_num_seqs: Annotated[int, Field(ge=1)] | None = None  # iteration: slots; default max_batch_size
    fixed_ms: Milliseconds = 22.0
    per_sequence_ms: Milliseconds = 0.35
    per_1000_prefill_tokens_ms: Milliseconds = 60.0
    vocabulary: Annotated[int, Field(ge=2)] = 32_000
    context_tokens: Annotated[int, Field(ge=2)] = 4_096
    load_s: Annotated[float, Field(ge=0)] = 0.0
    start_deadline_s: Annotated[float, Field(gt=0)] = 60.0

    @property
    def joinable(self) -> bool:
        """With the iteration engine."""
        return self.engine == "iteration"
