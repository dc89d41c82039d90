"""What a person writes about a recorded trace: the file, how fast, which rows, how long at most."""

from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from workloads import replay
from workloads.errors import WorkloadError
from workloads.lengths import LONGEST_TOKENS, LengthLaw
from workloads.strict import Strict
from workloads.trace import Trace, read_trace

Tokens = Annotated[int, Field(ge=1, le=LONGEST_TOKENS)]
Scale = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class TraceSpec(Strict):
    """A trace: arrivals, prompt lengths and output lengths of the same requests.

    Without `time_scale` the arrival rate says how fast: time is stretched until the mean rate is the asked one.
    With it, a request recorded t seconds after the first comes at t ÷ time_scale, and the arrival rate
    is the recorded one times time_scale.
    """

    path: Annotated[str, Field(min_length=1)]
    """CSV file with the columns TIMESTAMP, ContextTokens, GeneratedTokens, in order of time."""
    time_scale: Annotated[tuple[Scale, ...], Field(min_length=1)] | None = Field(default=None, strict=False)
    """Speed, one or a list: 1 as recorded, 2 twice as fast; arrival_rate is left out then."""
    max_prompt_tokens: Tokens | None = None
    """Longer prompts are cut to this, in tokens."""
    max_output_tokens: Tokens | None = None
    """Longer outputs are cut to this, in tokens."""
    skip_rows: Annotated[int, Field(ge=0)] = 0
    """How many rows at the beginning are passed over."""
    rows: Annotated[int, Field(ge=2)] | None = None
    """How many of the rows after them are used at most; all if left out."""

    @field_validator("time_scale", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, list | tuple) else [value]

    @model_validator(mode="after")
    def _check_file(self) -> Self:
        scales = self.time_scale or ()
        if twice := [scale for scale in scales if scales.count(scale) > 1]:
            raise WorkloadError(f"time_scale must hold each value once, got {twice[0]:g} twice")
        try:
            trace = self.trace()
        except WorkloadError as exc:
            raise WorkloadError(f"path {exc}") from exc
        distinct = len(trace) - trace.same_times
        if distinct < 2:
            among = " among the chosen rows" if self.skip_rows or self.rows else ""
            left_out = (
                f" ({trace.empty_rows} rows have no prompt or no output tokens)" if trace.empty_rows else ""
            )
            raise WorkloadError(
                f"path {self.path}: must hold requests at 2 different times{among}, got {distinct}{left_out}"
            )
        return self

    def trace(self) -> Trace:
        """The chosen rows, their lengths cut. WorkloadError if the file is not a trace (any more)."""
        trace = read_trace(self.path, skip_rows=self.skip_rows, rows=self.rows)
        return replay.capped(trace, self.max_prompt_tokens, self.max_output_tokens)

    def laws(self) -> tuple[LengthLaw, LengthLaw]:
        """The laws of the prompt and of the output lengths."""
        return replay.laws(self.trace())

    def rates(self) -> tuple[float, ...] | None:
        """Requests/s at each time scale; None where the arrival rate says how fast."""
        if self.time_scale is None:
            return None
        recorded = replay.recorded_rate(self.trace())
        return tuple(scale * recorded for scale in self.time_scale)

    def notes(self) -> list[str]:
        """What was done to the rows, and what is unusual about them: one line each."""
        whole, trace = read_trace(self.path, skip_rows=self.skip_rows, rows=self.rows), self.trace()
        found = []
        if whole.empty_rows:
            found.append(
                f"{whole.empty_rows} rows without prompt or output tokens are left out, "
                f"the first on line {whole.first_empty_line}"
            )
        for name, before, after in (
            ("prompts", whole.prompt_tokens, trace.prompt_tokens),
            ("outputs", whole.output_tokens, trace.output_tokens),
        ):
            if cut := int((before != after).sum()):
                left = after.sum() / before.sum()
                found.append(
                    f"{cut} of {len(trace)} {name} are cut to {after.max()} tokens; {left:.0%} of their tokens are left"
                )
        if whole.same_times:
            found.append(f"{whole.same_times} of {len(trace)} requests come at the time of the one before")
        return found
