"""What a person writes about a workload: arrivals × prompts × output lengths, checked strictly.

The numbers of a law are checked by the law itself (arrivals, lengths), so that a config and a call from a
notebook are refused in the same words.
"""

from abc import abstractmethod
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from workloads import lengths
from workloads.errors import WorkloadError
from workloads.lengths import LONGEST_TOKENS, LengthLaw
from workloads.strict import Strict

STEADIEST_CV, BURSTIEST_CV = (
    0.01,
    100.0,
)  # beyond them a trial holds one pattern, or one burst and nothing else


class ArrivalSpec(Strict):
    """When requests come. `cv` is the burstiness of gamma arrivals: 1 is Poisson, above it bursts."""

    process: Literal["poisson", "gamma", "constant"] = "poisson"
    """Independent arrivals, arrivals of a chosen burstiness, or equal gaps."""
    cv: float | None = None
    """Coefficient of variation of the gaps, for gamma: 1 is Poisson, above it bursts."""

    @model_validator(mode="after")
    def _check_cv(self) -> Self:
        if self.process != "gamma" and self.cv is not None:
            raise WorkloadError(f"cv must be left out for {self.process} arrivals, got {self.cv}")
        if self.process == "gamma" and (self.cv is None or not 0 < self.cv < float("inf")):
            raise WorkloadError(f"cv must be above 0 and finite for gamma arrivals, got {self.cv}")
        if self.cv is not None and not STEADIEST_CV <= self.cv <= BURSTIEST_CV:
            raise WorkloadError(f"cv must be in {STEADIEST_CV:g}..{BURSTIEST_CV:g}, got {self.cv:g}")
        return self


class Lengths(Strict):
    """A length distribution as written."""

    @abstractmethod
    def law(self) -> LengthLaw:
        """The law over whole tokens that it names; WorkloadError if there is none."""

    @model_validator(mode="after")
    def _check_law(self) -> Self:
        self.law()
        return self


class FixedLengths(Lengths):
    """Always `tokens`."""

    distribution: Literal["fixed"]
    """All of one length."""
    tokens: int
    """The length, in tokens."""

    def law(self) -> LengthLaw:
        """All on one value."""
        return lengths.fixed(tokens=self.tokens)


class UniformLengths(Lengths):
    """`low` to `high`, both included."""

    distribution: Literal["uniform"]
    """Each length in a range equally often."""
    low: int
    """The shortest, in tokens."""
    high: int
    """The longest, in tokens."""

    def law(self) -> LengthLaw:
        """Each whole number equally often."""
        return lengths.uniform(low=self.low, high=self.high)


class LognormalLengths(Lengths):
    """A long tail, clipped to `minimum`..`maximum`."""

    distribution: Literal["lognormal"]
    """Many short ones and a long tail."""
    median: float
    """Half are shorter, in tokens."""
    sigma: float
    """Standard deviation of the logarithm: 0.5 is narrow, 1.5 a long tail."""
    minimum: int = 1
    """Shorter ones are made this long, in tokens."""
    maximum: int
    """Longer ones are cut to this, in tokens."""

    def law(self) -> LengthLaw:
        """Rounded to whole tokens, then clipped; WorkloadError if that would clip most of it."""
        law = lengths.lognormal(
            median=self.median, sigma=self.sigma, minimum=self.minimum, maximum=self.maximum
        )
        if not self.minimum <= self.median <= self.maximum:
            raise WorkloadError(
                f"median must be in minimum..maximum, {self.minimum}..{self.maximum}, got {self.median:g}"
            )
        return law


class EmpiricalLengths(Lengths):
    """Measured lengths, with a weight each if they are not equally frequent."""

    distribution: Literal["empirical"]
    """Lengths that were measured."""
    values: tuple[int, ...] = Field(strict=False)  # YAML has lists; what is in them stays strict
    """The lengths, in tokens."""
    weights: tuple[float, ...] | None = Field(default=None, strict=False)
    """How frequent each is; equally if left out."""

    def law(self) -> LengthLaw:
        """The frequencies as given."""
        return lengths.empirical(values=self.values, weights=self.weights)


LengthSpec: TypeAlias = Annotated[
    FixedLengths | UniformLengths | LognormalLengths | EmpiricalLengths,
    Field(discriminator="distribution"),
]


class PromptSpec(Strict):
    """Where prompts come from, and how long they are. `path` is the chat file of `sharegpt`."""

    source: Literal["english", "random", "sharegpt"] = "english"
    """English text that comes with batchyard, random token ids, or the prompts of a chat file."""
    path: str | None = None
    """The chat file of sharegpt."""
    tokens: LengthSpec
    """Prompt lengths, in tokens."""

    @model_validator(mode="after")
    def _check_path(self) -> Self:
        if self.source == "sharegpt" and not self.path:
            raise WorkloadError(f"path must name a chat file for source sharegpt, got {self.path!r}")
        if self.source != "sharegpt" and self.path is not None:
            raise WorkloadError(f"path must be left out for source {self.source}, got {self.path!r}")
        return self


class WorkloadSpec(Strict):
    """The recipe. `max_new_tokens` is the limit that strategies and memory budgets see."""

    arrivals: ArrivalSpec = ArrivalSpec()
    """When requests come, around the arrival rate."""
    prompts: PromptSpec
    """What they ask."""
    output_tokens: LengthSpec
    """Output lengths, in tokens; every engine makes exactly so many."""
    max_new_tokens: int | None = None
    """The limit that strategies and memory budgets see, in tokens; the top of output_tokens if left out."""

    @model_validator(mode="after")
    def _check_limit(self) -> Self:
        top = self.output_tokens.law().maximum
        if self.limit_tokens < top:
            raise WorkloadError(
                f"max_new_tokens must be at least the top of output_tokens, {top}, got {self.max_new_tokens}"
            )
        if self.limit_tokens > LONGEST_TOKENS:
            raise WorkloadError(f"max_new_tokens must be at most {LONGEST_TOKENS}, got {self.max_new_tokens}")
        return self

    @property
    def limit_tokens(self) -> int:
        """The declared limit of every request, in tokens."""
        return self.output_tokens.law().maximum if self.max_new_tokens is None else self.max_new_tokens
