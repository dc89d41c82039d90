"""Memory of a padded batch on one GPU: what a token, a row and a batch take, and how many rows fit.

A row takes (prompt + max_new_tokens) · c_kv bytes, whatever it comes to generate, and a batch as much in every
row as its longest prompt needs. What fits is what weights and reserve leave of the memory, or what the config
gives in bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployments.padded_memory import left_by
from deployments.virtual.hardware import GIB, Hardware
from deployments.virtual.model_shape import ModelShape
from experiments.config import SweepConfig
from experiments.explain.basis import Basis
from strategies.kv_budget import KVBudget

PROMPTS = (128, 512, 1024, 2048, 4096)  # tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Rows of one prompt length. `most` is None beyond the model's context."""

    prompt_tokens: int
    row_bytes: int
    most: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedMemory:
    """Of one model on one GPU, for the settings that pad."""

    hardware: Hardware
    shape: ModelShape
    reserve_bytes: float
    budget: KVBudget
    given: bool  # by the config, in bytes
    max_new_tokens: int
    longest_prompt_tokens: int  # of the workload
    batch_sizes: tuple[int, ...]  # max_batch_size of the settings that pad

    @property
    def longest_in_context_tokens(self) -> int | None:
        """The longest prompt that the model reads; None if its config does not say."""
        context = self.shape.context_tokens
        return None if context is None else context - self.max_new_tokens

    @property
    def rows(self) -> tuple[Row, ...]:
        """By prompt length, the longest of the workload among them."""
        return tuple(self.row(tokens) for tokens in sorted({*PROMPTS, self.longest_prompt_tokens}))

    def row(self, prompt_tokens: int) -> Row:
        """What equal rows of this prompt take, and the largest safe batch of them."""
        most = (
            None if self._is_beyond(prompt_tokens) else self.budget.rows(prompt_tokens, self.max_new_tokens)
        )
        each = (prompt_tokens + self.max_new_tokens) * self.budget.bytes_per_token
        return Row(prompt_tokens=prompt_tokens, row_bytes=each, most=most)

    def fires_from(self, batch_size: int) -> int | None:
        """The shortest prompt of which `batch_size` rows do not fit: the memory trigger fires. None: it never does."""
        tokens_each = self.budget.budget_bytes // (self.budget.bytes_per_token * batch_size)
        shortest = max(1, tokens_each - self.max_new_tokens + 1)
        return None if self._is_beyond(shortest) else shortest

    def _is_beyond(self, prompt_tokens: int) -> bool:
        longest = self.longest_in_context_tokens
        return longest is not None and prompt_tokens > longest


def padded_memory(config: SweepConfig, bases: Mapping[str, Basis]) -> PaddedMemory | None:
    """None where nothing pads, or the memory is not known. ModelError if the weights and the reserve do not fit."""
    padded = [setting for setting in config.settings if setting.pads and bases[setting.backend].hardware]
    if not padded:
        return None
    basis, given = bases[padded[0].backend], padded[0].engine.get("kv_budget_bytes", "auto")
    hardware, shape = basis.hardware, basis.shape
    assert hardware is not None, "chosen for it"
    assert shape is not None, "a data sheet needs a model"
    reserve_bytes = config.simulation.kv_reserve_gib * GIB
    budget = (
        left_by(hardware, shape, reserve_bytes)
        if given == "auto"
        else KVBudget(budget_bytes=given, bytes_per_token=shape.kv_bytes_per_token)
    )
    return PaddedMemory(
        hardware=hardware,
        shape=shape,
        reserve_bytes=reserve_bytes,
        budget=budget,
        given=given != "auto",
        max_new_tokens=config.workload.limit_tokens,
        longest_prompt_tokens=config.workload.prompt_law().maximum,
        batch_sizes=tuple(sorted({setting.max_batch_size for setting in padded})),
    )


def to_dict(memory: PaddedMemory) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "kv_bytes_per_token": memory.budget.bytes_per_token,
        "weight_bytes": memory.shape.weight_bytes,
        "memory_bytes": memory.hardware.memory_bytes,
        "reserve_bytes": memory.reserve_bytes,
        "kv_budget_bytes": memory.budget.budget_bytes,
        "kv_budget_is_given": memory.given,
        "max_new_tokens": memory.max_new_tokens,
        "context_tokens": memory.shape.context_tokens,
        "rows": [
            {"prompt_tokens": row.prompt_tokens, "row_bytes": row.row_bytes, "largest_batch": row.most}
            for row in memory.rows
        ],
        "memory_trigger_from_prompt_tokens": {
            str(size): memory.fires_from(size) for size in memory.batch_sizes
        },
    }


def budget_line(memory: PaddedMemory) -> str:
    """Where the budget comes from."""
    token = f"{memory.budget.bytes_per_token:,} bytes a token"
    window = memory.shape.sliding_window
    if window is not None and window < memory.longest_prompt_tokens + memory.max_new_tokens:
        token += f", at most: what lies behind a sliding window of {window:,} tokens may be dropped"
    if memory.given:
        return f"Budget: {memory.budget.budget_bytes / GIB:.4g} GiB, as the config says, {token}."
    parts = (memory.hardware.memory_bytes, memory.shape.weight_bytes, memory.reserve_bytes)
    whole, weights, reserve = (f"{part / GIB:.4g}" for part in parts)
    left = f"{memory.budget.budget_bytes / GIB:.4g}"
    return f"Budget: {left} of {whole} GiB, less {weights} of weights and {reserve} of reserve; {token}."


def trigger_lines(memory: PaddedMemory) -> list[str]:
    """From which prompts on memory, not size, ends a batch: a sentence for each max_batch_size."""
    sizes: dict[str, list[str]] = {}
    for size in memory.batch_sizes:
        sizes.setdefault(_fires(memory, memory.fires_from(size)), []).append(str(size))
    return [
        f"With max_batch_size {', '.join(those)} the memory trigger {text}." for text, those in sizes.items()
    ]


def _fires(memory: PaddedMemory, prompt_tokens: int | None) -> str:
    if prompt_tokens is None:
        longest, context = memory.longest_in_context_tokens, memory.shape.context_tokens
        return f"never fires: prompts are at most {longest:,} tokens in a context of {context:,}"
    here = memory.longest_prompt_tokens
    occurs = "they occur here" if prompt_tokens <= here else f"the longest here has {here:,}"
    return f"fires where all prompts have {prompt_tokens:,} tokens or more; {occurs}"
