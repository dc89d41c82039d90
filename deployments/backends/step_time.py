"""The linear model of a forward pass: fixed + per_sequence·B + per_1000_prefill_tokens·prefill/1000.

The fixed part is reading the weights, which is why a batch is cheap; the second is each sequence's
attention and sampling; the third is the compute of the prompts.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """The three costs, in seconds."""

    fixed_s: float
    per_sequence_s: float
    per_prefill_token_s: float

    def __call__(self, sequences: int, prefill_tokens: int = 0) -> float:
        """Seconds of a step with `sequences` in the batch, and `prefill_tokens` of prompts in it."""
        return self.fixed_s + self.per_sequence_s * sequences + self.per_prefill_token_s * prefill_tokens
