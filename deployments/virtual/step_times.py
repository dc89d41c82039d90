"""The formulas of the step models for compiled engines: the very functions of step_model.py, compiled."""

import numpy as np
import numpy.typing as npt

from deployments.virtual import step_model
from deployments.virtual.compiled import compiled
from deployments.virtual.step_model import Linear, Roofline, StepModel

LINEAR, ROOFLINE = 0.0, 1.0
Costs = npt.NDArray[np.float64]

_linear_step_s = compiled(step_model.linear_step_s)
_linear_decode_s = compiled(step_model.linear_decode_s)
_roofline_step_s = compiled(step_model.roofline_step_s)
_roofline_decode_s = compiled(step_model.roofline_decode_s)


def costs_of(model: StepModel) -> Costs:
    """The kind of a model and its five numbers."""
    assert isinstance(model, Linear | Roofline), f"{model} has no compiled formula"
    return np.array([LINEAR if isinstance(model, Linear) else ROOFLINE, *model.costs], dtype=np.float64)


@compiled
def step_s(
    costs: Costs, sequences: int, context_tokens: int, prefill_tokens: int, prefill_squares: int
) -> float:
    """See StepModel."""
    if costs[0] == LINEAR:
        return _linear_step_s(
            costs[1],
            costs[2],
            costs[3],
            costs[4],
            costs[5],
            sequences,
            context_tokens,
            prefill_tokens,
            prefill_squares,
        )
    return _roofline_step_s(
        costs[1], costs[2], costs[3], costs[4], costs[5], sequences, context_tokens, prefill_tokens
    )


@compiled
def decode_s(costs: Costs, sequences: int, context_tokens: int, steps: int) -> float:
    """See StepModel."""
    if costs[0] == LINEAR:
        return _linear_decode_s(costs[1], costs[2], costs[3], sequences, context_tokens, steps)
    return _roofline_decode_s(
        costs[1], costs[2], costs[3], costs[4], costs[5], sequences, context_tokens, steps
    )
