"""How long a forward pass takes: a line fitted to an engine, or a roofline from data sheets.

    linear     fixed + per_sequence·B + per_context_token·Σcontext
               + per_prefill_token·prefill + per_prefill_token_sq·Σprompt²
    roofline   max((weights + Σcontext·c_kv) ÷ bandwidth, 2·parameters·tokens ÷ FLOP/s)

The fixed part is reading the weights, which is why a batch is cheap. A roofline is the least time that
the hardware allows (Williams et al., "Roofline", 2009): kernels, sampling, scheduling and the writing of
the cache come on top. A run of decode steps is summed in closed form, so that virtual time can jump
over it.

Each formula is one function that names nothing outside of it, so that it runs as it stands, and compiled in the
engines of virtual time (step_times.py).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol


class StepModel(Protocol):
    """Seconds of forward passes.

    `context_tokens` are the KV entries that the decoding sequences read at the first of these steps,
    summed over them. A model is a pure function: equal arguments, equal seconds, and never negative.
    """

    def step_s(
        self,
        sequences: float,
        context_tokens: float = 0,
        prefill_tokens: float = 0,
        prefill_squares: float = 0,
    ) -> float:
        """One step. `sequences`: all in the batch, prefilling ones too.

        `prefill_tokens`: prompt tokens computed in this step (padded ones in lockstep). `prefill_squares`:
        their attention, summed over the prefilling sequences: prompt² for whole prompts. Tokens are whole
        in a real step; theory gives means.
        """

    def decode_s(self, sequences: int, context_tokens: int, steps: int) -> float:
        """`steps` decode steps in a row, summed; each adds `sequences` tokens to the context."""


def linear_step_s(
    fixed_s: float,
    per_sequence_s: float,
    per_context_token_s: float,
    per_prefill_token_s: float,
    per_prefill_token_sq_s: float,
    sequences: float,
    context_tokens: float,
    prefill_tokens: float,
    prefill_squares: float,
) -> float:
    """The line, term by term."""
    return (
        fixed_s
        + per_sequence_s * sequences
        + per_context_token_s * context_tokens
        + per_prefill_token_s * prefill_tokens
        + per_prefill_token_sq_s * prefill_squares
    )


def linear_decode_s(
    fixed_s: float,
    per_sequence_s: float,
    per_context_token_s: float,
    sequences: int,
    context_tokens: int,
    steps: int,
) -> float:
    """The context that the steps read, summed, is an arithmetic series."""
    read_tokens = steps * context_tokens + sequences * (steps * (steps - 1) // 2)
    return steps * (fixed_s + per_sequence_s * sequences) + per_context_token_s * read_tokens


def roofline_step_s(
    weight_bytes: float,
    kv_bytes_per_token: float,
    bandwidth_bytes_per_s: float,
    flop_per_s: float,
    parameters: float,
    sequences: float,
    context_tokens: float,
    prefill_tokens: float,
) -> float:
    """Memory or compute, whichever takes longer."""
    memory_s = (weight_bytes + context_tokens * kv_bytes_per_token) / bandwidth_bytes_per_s
    return max(memory_s, 2 * parameters * (sequences + prefill_tokens) / flop_per_s)


def roofline_decode_s(
    weight_bytes: float,
    kv_bytes_per_token: float,
    bandwidth_bytes_per_s: float,
    flop_per_s: float,
    parameters: float,
    sequences: int,
    context_tokens: int,
    steps: int,
) -> float:
    """The first steps may be bound by compute, and later ones by the growing cache: `turn` steps are before that."""
    compute_s = 2 * parameters * sequences / flop_per_s
    turn_tokens = (compute_s * bandwidth_bytes_per_s - weight_bytes) / kv_bytes_per_token - context_tokens
    turn = 0
    if sequences > 0 and turn_tokens > 0:
        turn = math.ceil(min(turn_tokens / sequences, float(steps)))
    rest = steps - turn
    read_tokens = rest * (context_tokens + turn * sequences) + sequences * (rest * (rest - 1) // 2)
    moved_bytes = rest * weight_bytes + read_tokens * kv_bytes_per_token
    return turn * compute_s + moved_bytes / bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """The costs of the linear model, in seconds. The defaults are those of the simulated backend."""

    fixed_s: float = 0.022
    per_sequence_s: float = 0.00035
    per_context_token_s: float = 0.0
    per_prefill_token_s: float = 60e-6
    per_prefill_token_sq_s: float = 0.0

    def __post_init__(self) -> None:
        """ValueError for a negative cost. All may be 0: an engine that is free, to time what surrounds it."""
        for field in fields(self):
            cost_s = getattr(self, field.name)
            if not 0 <= cost_s < math.inf:
                raise ValueError(f"{field.name} must be at least 0 and finite, got {cost_s}")

    @property
    def costs(self) -> tuple[float, float, float, float, float]:
        """In the order of the formulas."""
        return (
            self.fixed_s,
            self.per_sequence_s,
            self.per_context_token_s,
            self.per_prefill_token_s,
            self.per_prefill_token_sq_s,
        )

    def step_s(
        self,
        sequences: float,
        context_tokens: float = 0,
        prefill_tokens: float = 0,
        prefill_squares: float = 0,
    ) -> float:
        """See the protocol."""
        return linear_step_s(*self.costs, sequences, context_tokens, prefill_tokens, prefill_squares)

    def decode_s(self, sequences: int, context_tokens: int, steps: int) -> float:
        """See the protocol."""
        return linear_decode_s(*self.costs[:3], sequences, context_tokens, steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The larger of the time to read weights and cache, and the time to compute the tokens.

    A token costs two operations per parameter; attention's own operations are left out. A prefilling
    sequence is charged its chunk and one token more, because `sequences` does not tell it apart.
    """

    weight_bytes: float
    kv_bytes_per_token: float
    bandwidth_bytes_per_s: float
    flop_per_s: float
    parameters: float

    def __post_init__(self) -> None:
        """ValueError for what is not a size or a speed."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < math.inf:
                raise ValueError(f"{field.name} must be above 0 and finite, got {value}")

    @property
    def costs(self) -> tuple[float, float, float, float, float]:
        """In the order of the formulas."""
        return (
            self.weight_bytes,
            self.kv_bytes_per_token,
            self.bandwidth_bytes_per_s,
            self.flop_per_s,
            self.parameters,
        )

    def step_s(
        self,
        sequences: float,
        context_tokens: float = 0,
        prefill_tokens: float = 0,
        prefill_squares: float = 0,
    ) -> float:
        """See the protocol."""
        return roofline_step_s(*self.costs, sequences, context_tokens, prefill_tokens)

    def decode_s(self, sequences: int, context_tokens: int, steps: int) -> float:
        """See the protocol."""
        return roofline_decode_s(*self.costs, sequences, context_tokens, steps)


def record(model: StepModel) -> dict[str, Any]:
    """A linear model or a roofline as plain JSON values; `recorded` is the inverse."""
    (name,) = (name for name, kind in _KINDS.items() if isinstance(model, kind))
    return {"model": name, **{field.name: getattr(model, field.name) for field in fields(_KINDS[name])}}


def recorded(values: Mapping[str, Any]) -> Linear | Roofline:
    """KeyError, TypeError or ValueError if that is not what it is."""
    costs = dict(values)
    return _KINDS[costs.pop("model")](**costs)


_KINDS: Mapping[str, type[Linear] | type[Roofline]] = {"linear": Linear, "roofline": Roofline}
