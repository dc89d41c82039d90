"""The KV cache of a paged engine: a pool of blocks, of which each sequence holds whole ones.

A decoding sequence writes one token a step, so it needs one more block every `block_tokens` steps, always
at the same residue of the decode clock. Counting sequences by that residue gives the blocks that any
number of steps will take, without looking at the sequences.
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


class BlockGrowth:
    """Decoding sequences by the residue of the clock at which they need their next block."""

    def __init__(self, block_tokens: int) -> None:
        self._period = block_tokens
        self.due = [0] * (2 * block_tokens)  # blocks by residue; twice over, so that any period is one slice
        self._sequences = 0

    def add(self, residue: int) -> None:
        """A sequence begins to decode."""
        self.due[residue] += 1
        self.due[residue + self._period] += 1
        self._sequences += 1

    def remove(self, residue: int) -> None:
        """A sequence stops decoding."""
        self.due[residue] -= 1
        self.due[residue + self._period] -= 1
        self._sequences -= 1

    def over(self, clock: int, steps: int) -> int:
        """Blocks that so many steps from this clock on take."""
        rounds, rest = divmod(steps, self._period)
        first = clock % self._period
        return rounds * self._sequences + sum(self.due[first : first + rest])

    def steps_with(self, free: int, clock: int, steps: int) -> int:
        """How many of so many steps from this clock on can be taken with that many free blocks."""
        if free >= self._sequences * (steps // self._period + 1) or self.over(clock, steps) <= free:
            return steps
        rounds, left = divmod(free, self._sequences)
        first = clock % self._period
        taken = rounds * self._period
        for blocks in self.due[first : first + self._period]:
            left -= blocks
            if left < 0:
                break
            taken += 1
        return taken
