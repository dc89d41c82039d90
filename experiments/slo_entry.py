"""What a config may say of the service level that is wanted (results/goodput.py counts what met it)."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from results.goodput import LIMITS
from workloads.strict import Strict

Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SloEntry(Strict):
    """A service level objective: all its limits must hold for a request. One at least."""

    ttft_ms: Milliseconds | None = None
    """Longest time to first token in milliseconds, from the planned arrival."""
    tpot_ms: Milliseconds | None = None
    """Longest time per output token after the first in milliseconds; says nothing of an answer of one token."""
    itl_ms: Milliseconds | None = None
    """Largest p99 of a request's gaps between tokens in milliseconds; likewise."""
    e2e_ms: Milliseconds | None = None
    """Longest time to the last token in milliseconds, from the planned arrival."""

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if all(getattr(self, name) is None for name in LIMITS):
            raise ValueError("ttft_ms must be given, or tpot_ms, itl_ms or e2e_ms, got none")
        return self
