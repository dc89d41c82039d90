"""What a config may say about the engines of `batchyard simulate` beyond their own arguments."""

from typing import Annotated, Literal

from pydantic import Field

from workloads.strict import Strict

Count = Annotated[int, Field(ge=1)]


class SimulationEntry(Strict):
    """For virtual time alone: it is no part of a measured sweep, nor of its identity."""

    max_num_batched_tokens: Count | None = None
    """The most tokens of one step of a joinable engine, where its arguments leave it open; if left out what that engine takes."""
    prefill_chunk: Count | None = None
    """The most prompt tokens of one sequence in one step; the whole prompt if left out."""
    order: Literal["decode-first", "prefill-first"] = "decode-first"
    """What gets the tokens of a step first: sequences that generate, or prompts."""
    kv_blocks: Count | None = None
    """Blocks of the KV cache; if left out what the hardware's memory holds, and no limit where that is not known."""
    kv_block_tokens: Count | None = None
    """Size of a block of the KV cache, in tokens; the engine's own, or 16, if left out."""
    kv_reserve_gib: Annotated[float, Field(ge=0)] = 1.5
    """What a padded batch leaves of the memory beside the weights, in GiB: activations, the CUDA context, fragments."""
    admission: Literal["optimistic", "reserve"] = "optimistic"
    """Whether a request is admitted when its prompt fits, or only when its declared limit does."""
    preemption: Literal["recompute", "swap"] = "recompute"
    """What becomes of a sequence that is put off: computed again, or moved to the host and back."""
