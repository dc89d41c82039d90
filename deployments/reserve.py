"""The reserve: what a padded batch takes beside its keys and values, measured on two small batches.

Activations, logits, workspaces and copies of a growing cache. Equal rows of P prompt tokens and n new ones make a
batch of T = B · (P + n) tokens, and the peak above the resting state is taken to be

    peak = fixed + (c_kv + beside) · T        bytes

with c_kv from the model's config. Two batches give `fixed` and `beside`, neither below 0; a margin is put on
both. Of `free` bytes a budget for keys and values is then what is left when the batch that fills it has what it
takes beside them:

    tokens = (free − fixed) ÷ (c_kv + beside)        budget = tokens · c_kv        reserve = free − budget

On a GPU peaks are PyTorch's own, to the byte; on a CPU they are of the process's resident size, some MiB vague.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deployments.errors import BackendError, OutOfMemory
from strategies.kv_budget import KVBudget

MARGIN = 1.25
MOST_ROWS, MOST_PROMPT_TOKENS = 4, 512  # of the larger of the two batches
NEW_TOKENS = 2  # the second lets the cache grow

TakePeak = Callable[[int, int, int], Awaitable[int]]  # (rows, prompt tokens, new tokens) → peak, bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """One small batch of equal rows, and what it took above the resting state."""

    rows: int
    prompt_tokens: int
    new_tokens: int
    peak_bytes: int

    @property
    def tokens(self) -> int:
        """T, padding and new tokens with it."""
        return self.rows * (self.prompt_tokens + self.new_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """What a batch takes beside its keys and values, the margin included, and from which peaks that is."""

    fixed_bytes: int
    beside_bytes_per_token: int
    kv_bytes_per_token: int  # c_kv
    peaks: tuple[Peak, ...]

    def budget(self, free_bytes: int) -> KVBudget:
        """The largest whose batches fit `free_bytes` with what they take beside; of nothing if none do."""
        each = self.kv_bytes_per_token + self.beside_bytes_per_token
        tokens = max(0, free_bytes - self.fixed_bytes) // each
        return KVBudget(
            budget_bytes=tokens * self.kv_bytes_per_token, bytes_per_token=self.kv_bytes_per_token
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` is the inverse."""
        return {**asdict(self), "peaks": [asdict(peak) for peak in self.peaks], "margin": MARGIN}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Reserve":
        """The inverse of `to_dict`. KeyError, TypeError or ValueError if that is not what it is."""
        return cls(
            fixed_bytes=int(values["fixed_bytes"]),
            beside_bytes_per_token=int(values["beside_bytes_per_token"]),
            kv_bytes_per_token=int(values["kv_bytes_per_token"]),
            peaks=tuple(Peak(**peak) for peak in values["peaks"]),
        )


def fit(small: Peak, large: Peak, kv_bytes_per_token: int) -> Reserve:
    """The line through two peaks, never below either, with the margin. ValueError unless they differ in size."""
    if small.tokens >= large.tokens:
        raise ValueError(f"two sizes are needed, got {small.tokens} and {large.tokens} tokens")
    slope = (large.peak_bytes - small.peak_bytes) / (large.tokens - small.tokens)
    beside = max(0.0, slope - kv_bytes_per_token)
    fixed = max(
        0.0, *(peak.peak_bytes - (kv_bytes_per_token + beside) * peak.tokens for peak in (small, large))
    )
    return Reserve(
        fixed_bytes=round(MARGIN * fixed),
        beside_bytes_per_token=round(MARGIN * beside),
        kv_bytes_per_token=kv_bytes_per_token,
        peaks=(small, large),
    )


async def measure(take_peak: TakePeak, prompt_tokens: int, kv_bytes_per_token: int) -> Reserve:
    """Run two small batches. `take_peak` raises OutOfMemory for one that does not fit: half of it is tried then.

    BackendError if not even two rows of one token fit.
    """
    rows, prompt_tokens = MOST_ROWS, min(prompt_tokens, MOST_PROMPT_TOKENS)
    while True:
        try:
            peaks = [await _peak(take_peak, count, prompt_tokens) for count in (rows // 2, rows)]
            return fit(peaks[0], peaks[1], kv_bytes_per_token)
        except OutOfMemory as error:
            if rows > 2:
                rows //= 2
            elif prompt_tokens > 1:
                prompt_tokens //= 2
            else:
                raise BackendError(f"not even two rows of one token fit: {error}") from error


async def _peak(take_peak: TakePeak, rows: int, prompt_tokens: int) -> Peak:
    peak_bytes = await take_peak(rows, prompt_tokens, NEW_TOKENS)
    return Peak(rows=rows, prompt_tokens=prompt_tokens, new_tokens=NEW_TOKENS, peak_bytes=peak_bytes)
