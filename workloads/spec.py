"""What a person writes about a workload: arrivals × prompts × output lengths, or a trace; checked strictly.

The numbers of a law are checked by the law itself (arrivals, lengths), so that a config and a call from a
notebook are refused in the same words.
"""

import math
from abc import abstractmethod
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from workloads import classes, lengths
from workloads.errors import WorkloadError
from workloads.lengths import LONGEST_TOKENS, LengthLaw
from workloads.strict import Strict
from workloads.trace_spec import TraceSpec

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


class LongTailLengths(Lengths):
    """One mean, from all equal to a few that hold most of the tokens."""

    distribution: Literal["long-tail"]
    """One mean, and a tail as long as `skew` says."""
    mean: int
    """The mean, whatever the skew, in tokens."""
    skew: float
    """0 is all equal, 0.6 a chat load, 1 the longest tail."""
    maximum: int
    """Longer ones are cut to this, in tokens."""

    def law(self) -> LengthLaw:
        """A lognormal of σ = 3·skew, clipped, its median such that the mean stays."""
        return lengths.long_tail(mean=self.mean, skew=self.skew, maximum=self.maximum)


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
    FixedLengths | UniformLengths | LognormalLengths | LongTailLengths | EmpiricalLengths,
    Field(discriminator="distribution"),
]


class PromptSpec(Strict):
    """Where prompts come from, and how long they are. `path` is the chat file of `sharegpt`."""

    source: Literal["english", "random", "sharegpt"] = "english"
    """English text that comes with batchyard, random token ids, or the prompts of a chat file."""
    path: str | None = None
    """The chat file of sharegpt, JSON: a list of {"conversations": [{"from": "human", "value": "…"}, …]}."""
    tokens: LengthSpec | None = None
    """Prompt lengths, in tokens; a trace has its own."""

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
    prompts: PromptSpec = PromptSpec()
    """What they ask."""
    output_tokens: LengthSpec | None = None
    """Output lengths, in tokens; every engine makes exactly so many. A trace has its own."""
    trace: TraceSpec | None = None
    """A recorded trace in place of arrivals, prompts.tokens and output_tokens."""
    max_new_tokens: int | None = None
    """The limit that strategies and memory budgets see, in tokens; the longest output if left out."""
    priority: tuple[float, ...] | None = Field(default=None, strict=False)
    """Weights of the classes 0, 1, …, drawn for each request; 0 goes first with `order: priority`. Left out: one class."""
    ttft_target_ms: tuple[float, ...] | None = Field(default=None, strict=False)
    """How soon the first token is wanted, in milliseconds after the arrival, one or a list with one for each class: the deadline of `order: deadline`."""

    @field_validator("ttft_target_ms", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, list | tuple) else [value]

    @model_validator(mode="after")
    def _check_classes(self) -> Self:
        classes.check(self.priority, self.ttft_target_ms)
        return self

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        """Lengths come from laws or from a trace."""
        given = {
            "arrivals": "arrivals" in self.model_fields_set,
            "prompts.tokens": self.prompts.tokens is not None,
            "output_tokens": self.output_tokens is not None,
        }
        for key, is_given in given.items():
            if self.trace is not None and is_given:
                raise WorkloadError(f"{key} must be left out with trace, which has its own")
            if self.trace is None and not is_given and key != "arrivals":
                raise WorkloadError(f"{key} is missing")
        return self

    @model_validator(mode="after")
    def _check_limit(self) -> Self:
        top = self.output_law().maximum
        if self.limit_tokens < top:
            of_what = "the top of output_tokens" if self.trace is None else "the longest output of the trace"
            raise WorkloadError(
                f"max_new_tokens must be at least {of_what}, {top}, got {self.max_new_tokens}"
            )
        if self.limit_tokens > LONGEST_TOKENS:
            raise WorkloadError(f"max_new_tokens must be at most {LONGEST_TOKENS}, got {self.max_new_tokens}")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what must be left out, so that what is written can be read, and ids of cells stay."""
        values: dict[str, Any] = write(self)
        for key in ("arrivals", "output_tokens") if self.trace is not None else ("trace",):
            del values[key]
        for key in ("priority", "ttft_target_ms"):
            if values[key] is None:
                del values[key]
        return values

    def prompt_law(self) -> LengthLaw:
        """The law of the prompt lengths, in tokens; of a trace, how frequent each is in it."""
        return self._law(self.prompts.tokens, 0)

    def output_law(self) -> LengthLaw:
        """The law of the output lengths, likewise."""
        return self._law(self.output_tokens, 1)

    @property
    def limit_tokens(self) -> int:
        """The declared limit of every request, in tokens."""
        return self.output_law().maximum if self.max_new_tokens is None else self.max_new_tokens

    def lasts_s(self, rate: float) -> float:
        """For how many seconds there are requests at `rate` per second: without end, or until a trace is over."""
        return math.inf if self.trace is None else len(self.trace.trace()) / rate

    def _law(self, lengths_of: Lengths | None, place: int) -> LengthLaw:
        if lengths_of is not None:
            return lengths_of.law()
        if self.trace is None:
            raise WorkloadError("lengths must come from a law or a trace, got neither")
        return self.trace.laws()[place]
