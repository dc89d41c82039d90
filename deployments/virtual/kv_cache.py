"""The KV cache of a paged engine: a pool of blocks, of which each sequence holds whole ones.

A decoding sequence writes one token a step, so it needs one more block every `block_tokens` steps, always
at the same residue of the decode clock. Counting sequences by that residue gives the blocks that any
number of steps will take, without looking at the sequences (block_growth.py).
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Admission: TypeAlias = Literal["optimistic", "reserve"]
Preemption: TypeAlias = Literal["recompute", "swap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KVCache:
    """Settings of the pool.

    `optimistic` admits a request when there is room for the tokens it has; when blocks run out, the most
    recent arrival is preempted. `reserve` admits it when there is room for its declared limit, so that
    nothing is ever preempted. A preempted sequence is computed again, or swapped to the host and back.
    """

    blocks: int
    block_tokens: int = 16
    admission: Admission = "optimistic"
    preemption: Preemption = "recompute"
    bytes_per_token: int = 131_072  # Llama-3-8B in bf16; 2 × layers × KV heads × head size × bytes
    swap_bytes_per_s: float = 25e9  # PCIe 4.0 ×16 in practice

    def __post_init__(self) -> None:
        """ValueError for what cannot hold a token."""
        for name in ("blocks", "block_tokens", "bytes_per_token", "swap_bytes_per_s"):
            if (value := getattr(self, name)) <= 0:
                raise ValueError(f"{name} must be above 0, got {value}")

    def blocks_for(self, tokens: int) -> int:
        """How many blocks hold so many tokens."""
        return -(-tokens // self.block_tokens)
