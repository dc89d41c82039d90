"""The KV cache of a paged engine: how many blocks of which size, for virtual time and for theory alike."""

from dataclasses import dataclass

from experiments.cells import Cell
from experiments.explain.basis import reported
from experiments.grid import Setting
from experiments.simulation.premise import Premise
from experiments.simulation_entry import SimulationEntry

BLOCK_TOKENS = 16  # vLLM's on a GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class KVPool:
    """Whole blocks."""

    blocks: int
    block_tokens: int

    @property
    def tokens(self) -> int:
        """All that it holds."""
        return self.blocks * self.block_tokens


def kv_pool(asked: Cell | Setting, premise: Premise, entry: SimulationEntry) -> KVPool | None:
    """By the config, the engine's arguments, what the measured engine said, or the memory of the hardware.

    None: no limit is known.
    """
    told = reported(premise.engines, asked.engine)
    block_tokens = (
        entry.kv_block_tokens or asked.engine.get("kv_block_tokens") or told.kv_block_tokens or BLOCK_TOKENS
    )
    blocks = entry.kv_blocks or asked.engine.get("kv_blocks") or told.kv_blocks
    if blocks is None:
        if premise.kv_tokens is None:
            return None
        blocks = max(1, premise.kv_tokens // block_tokens)
    return KVPool(blocks=blocks, block_tokens=block_tokens)
