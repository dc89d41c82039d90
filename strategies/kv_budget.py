"""The memory that a padded batch may take for its keys and values, and how many requests fit in it.

A backend that pads keeps room for the longest prompt and the declared limit in every row. A batch of B costs

    B · (P_max + max_new_tokens) · c_kv      bytes

with P_max the longest prompt and max_new_tokens the largest declared limit in the batch, and
c_kv = 2 · layers · kv_heads · head_dim · bytes of one number, the keys and values of one token. One long prompt
is charged to every row. An engine that can be joined keeps a cache of its own, and has no such budget.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from strategies.strategy import Waiting


class Fit(NamedTuple):
    """How far candidates were taken."""

    taken: int  # of them, from the first on; at least 1 if there is one
    full: bool  # the next of them, or one more row as long as these, would break the budget


@dataclass(frozen=True, slots=True, kw_only=True)
class KVBudget:
    """Bytes for keys and values, and what one token takes. ValueError unless both make sense."""

    budget_bytes: int
    bytes_per_token: int  # c_kv

    def __post_init__(self) -> None:
        """A budget of nothing is one: every request runs alone."""
        if self.budget_bytes < 0:
            raise ValueError(f"budget_bytes must be at least 0, got {self.budget_bytes}")
        if self.bytes_per_token < 1:
            raise ValueError(f"bytes_per_token must be at least 1, got {self.bytes_per_token}")

    def cost_bytes(self, batch: Iterable["Waiting"]) -> int:
        """What a batch costs; 0 if it is empty."""
        rows = list(batch)
        longest = max((row.prompt_tokens for row in rows), default=0)
        limit = max((row.max_new_tokens for row in rows), default=0)
        return len(rows) * (longest + limit) * self.bytes_per_token

    def fit(self, candidates: Iterable["Waiting"]) -> Fit:
        """Take candidates in their order until the first that would break the budget.

        One that is too large for it is taken if it is the first: it runs alone.
        """
        tokens = self.budget_bytes // self.bytes_per_token
        taken = longest = limit = 0
        for candidate in candidates:
            longest_with = max(longest, candidate.prompt_tokens)
            limit_with = max(limit, candidate.max_new_tokens)
            if taken and (taken + 1) * (longest_with + limit_with) > tokens:
                return Fit(taken, full=True)
            taken, longest, limit = taken + 1, longest_with, limit_with
        return Fit(taken, full=(taken + 1) * (longest + limit) > tokens)

    def rows(self, prompt_tokens: int, max_new_tokens: int) -> int:
        """The largest batch of equal rows that fits; 0 if not even one does."""
        return self.budget_bytes // ((prompt_tokens + max_new_tokens) * self.bytes_per_token)
