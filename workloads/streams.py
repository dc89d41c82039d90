"""Randomness of a workload: one independent stream for each thing that is drawn."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from workloads.errors import WorkloadError


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Independent generators, one a thing that is drawn. A new one goes last, or all others change."""

    arrivals: np.random.Generator
    prompt_tokens: np.random.Generator
    prompts: np.random.Generator
    output_tokens: np.random.Generator
    warmup: np.random.Generator
    classes: np.random.Generator

    @classmethod
    def of(cls, seed: int, repeat: int) -> Self:
        """The streams of one repeat of a seed; both must be at least 0."""
        for name, value in (("seed", seed), ("repeat", repeat)):
            if value < 0:
                raise WorkloadError(f"{name} must be at least 0, got {value}")
        children = np.random.SeedSequence([seed, repeat]).spawn(6)
        arrivals, prompt_tokens, prompts, output_tokens, warmup, classes = map(
            np.random.default_rng, children
        )
        return cls(
            arrivals=arrivals,
            prompt_tokens=prompt_tokens,
            prompts=prompts,
            output_tokens=output_tokens,
            warmup=warmup,
            classes=classes,
        )
