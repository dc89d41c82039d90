"""Which engine in virtual time a backend becomes: huggingface the lockstep one, what can be joined the iteration one."""

from dataclasses import replace

from deployments.backends.engine_args import VLLM_BATCHED_TOKENS
from deployments.backends.registry import BACKENDS
from deployments.virtual.engine import EngineSettings
from deployments.virtual.iteration import Iteration, Order
from deployments.virtual.kv_cache import KVCache
from deployments.virtual.lockstep import Lockstep
from experiments.cells import Cell
from experiments.explain.basis import reported
from experiments.simulation.kv_pool import kv_pool
from experiments.simulation.padding import kv_budget
from experiments.simulation.premise import Premise
from experiments.simulation_entry import SimulationEntry


def engine_of(cell: Cell, premise: Premise, entry: SimulationEntry) -> EngineSettings:
    """The engine that runs the cell. ValueError if it could not move."""
    args = BACKENDS[cell.backend].args_type.model_validate(dict(cell.engine))
    if not args.joinable:
        budget = kv_budget(cell, premise, entry)
        return Lockstep(step=premise.step_model, prefill_chunk=entry.prefill_chunk, budget=budget)
    return Iteration(
        step=premise.step_model,
        max_num_seqs=_slots(cell),
        max_num_batched_tokens=_budget_tokens(cell, premise, entry),
        prefill_chunk=entry.prefill_chunk,
        order=_order(cell, entry),
        kv=_kv_cache(cell, premise, entry),
    )


def _budget_tokens(cell: Cell, premise: Premise, entry: SimulationEntry) -> int | None:
    """By the engine's arguments, the config, what the measured engine said, or what vLLM takes; None: no limit."""
    given: int | None = cell.engine.get("max_num_batched_tokens", entry.max_num_batched_tokens)
    if given is None:
        given = reported(premise.engines, cell.engine).max_num_batched_tokens
    if given is not None or cell.backend != "vllm":
        return given
    context_tokens: int | None = cell.engine.get("max_model_len")
    slots = _slots(cell)
    return min(VLLM_BATCHED_TOKENS, slots * context_tokens) if context_tokens else VLLM_BATCHED_TOKENS


def _slots(cell: Cell) -> int:
    slots: int = cell.engine.get("max_num_seqs", cell.knobs["max_batch_size"])
    return slots


def _order(cell: Cell, entry: SimulationEntry) -> Order:
    return "prefill-first" if cell.engine.get("scheduler") == "prefill_first" else entry.order


def _kv_cache(cell: Cell, premise: Premise, entry: SimulationEntry) -> KVCache | None:
    """None: no limit is known."""
    pool = kv_pool(cell, premise, entry)
    if pool is None:
        return None
    known = KVCache(
        blocks=pool.blocks,
        block_tokens=pool.block_tokens,
        admission=entry.admission,
        preemption=entry.preemption,
    )
    return replace(
        known,
        bytes_per_token=premise.kv_bytes_per_token or known.bytes_per_token,
        swap_bytes_per_s=premise.swap_bytes_per_s or known.swap_bytes_per_s,
    )
