"""The KV budget of a padded batch in virtual time: as the config says, or what the hardware's memory leaves."""

from typing import Any

from deployments.backends.engine_args import SIMULATED_KV_BYTES_PER_TOKEN
from deployments.errors import ModelError
from deployments.virtual.hardware import GIB
from deployments.virtual.model_shape import model_shape
from experiments.cells import Cell
from experiments.grid import Setting
from experiments.simulation.premise import Premise
from experiments.simulation_entry import SimulationEntry
from strategies.kv_budget import KVBudget

AUTO = "auto"


def kv_budget(cell: Cell, premise: Premise, entry: SimulationEntry) -> KVBudget | None:
    """None where no limit is known, or where no batch of this workload could reach it.

    ModelError if the memory leaves nothing, or bytes are given and those of a token are not known.
    """
    budget = padded_budget(cell, premise, entry)
    if budget is None:
        return None
    holds = budget.rows(cell.workload.prompt_law().maximum, cell.workload.limit_tokens)
    return None if holds >= cell.knobs["max_batch_size"] else budget


def padded_budget(cell: Cell | Setting, premise: Premise, entry: SimulationEntry) -> KVBudget | None:
    """None where no limit is known. ModelError as `kv_budget`."""
    given: Any = cell.engine.get("kv_budget_bytes", AUTO)
    if given != AUTO:
        return KVBudget(budget_bytes=given, bytes_per_token=_bytes_per_token(cell, premise))
    if premise.kv_tokens is None or premise.kv_bytes_per_token is None:
        return None
    left_bytes = int(premise.kv_tokens * premise.kv_bytes_per_token - entry.kv_reserve_gib * GIB)
    if left_bytes < 1:
        raise ModelError(
            f"simulation.kv_reserve_gib {entry.kv_reserve_gib:g} leaves no memory for a padded batch"
        )
    return KVBudget(budget_bytes=left_bytes, bytes_per_token=premise.kv_bytes_per_token)


def _bytes_per_token(cell: Cell | Setting, premise: Premise) -> int:
    if premise.kv_bytes_per_token is not None:
        return premise.kv_bytes_per_token
    if cell.model is not None:
        return model_shape(cell.model).kv_bytes_per_token
    told: int = cell.engine.get("kv_bytes_per_token", SIMULATED_KV_BYTES_PER_TOKEN)
    return told
