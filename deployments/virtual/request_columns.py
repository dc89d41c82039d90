"""Requests as columns: all that virtual time needs of them, a million at once.

`output_tokens`, the true lengths, are for engines alone: a strategy is shown `Waiting` objects, and they
have no such attribute.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, repeat
from typing import Self

import numpy as np
import numpy.typing as npt

from strategies.strategy import Waiting
from workloads.request import Request

Times = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


AT_ONCE = 4_096
_made = tuple.__new__  # of a named tuple, from all its values: a third of the time of its constructor


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestColumns:
    """Requests in order of arrival. A request that is due at `planned_s` arrives then: nobody is late here.

    Invariants (ValueError): equally long, times finite and in order, at least 1 token each, no output
    longer than the declared limit.
    """

    planned_s: Times
    prompt_tokens: Counts
    output_tokens: Counts
    max_new_tokens: Counts
    priority: Counts | None = None  # None: there are no classes
    ttft_target_s: Times | None = None  # None: there are no targets

    def __post_init__(self) -> None:
        """Check what an engine relies on."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        lengths = {name: len(column) for name, column in columns.items() if column is not None}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns must be equally long, got {lengths}")
        if not np.isfinite(self.planned_s).all() or (np.diff(self.planned_s) < 0).any():
            raise ValueError("planned_s must be finite and in order")
        for name in ("prompt_tokens", "output_tokens"):
            if (least := getattr(self, name).min(initial=1)) < 1:
                raise ValueError(f"{name} must be at least 1, got {least}")
        if (over := np.flatnonzero(self.output_tokens > self.max_new_tokens)).size:
            index = int(over[0])
            raise ValueError(
                f"output_tokens must be at most max_new_tokens, got {self.output_tokens[index]} and "
                f"{self.max_new_tokens[index]} at request {index}"
            )

    @classmethod
    def of(cls, requests: Sequence[Request]) -> Self:
        """The columns of a workload."""
        targets = [request.ttft_target_s for request in requests]
        return cls(
            planned_s=np.array([request.planned_s for request in requests], dtype=np.float64),
            prompt_tokens=np.array([len(request.prompt_ids) for request in requests], dtype=np.int64),
            output_tokens=np.array([request.output_tokens for request in requests], dtype=np.int64),
            max_new_tokens=np.array([request.max_new_tokens for request in requests], dtype=np.int64),
            priority=np.array([request.priority for request in requests], dtype=np.int64),
            ttft_target_s=np.array([np.inf if one is None else one for one in targets], dtype=np.float64),
        )

    def waiting(self, names: Sequence[str]) -> Iterator[Waiting]:
        """The requests as a strategy sees them, under these ids; a few thousand are made when the first is asked for."""
        starts = range(0, len(self), AT_ONCE)
        return chain.from_iterable(self._some(names, slice(start, start + AT_ONCE)) for start in starts)

    def _some(self, names: Sequence[str], some: slice) -> Iterator[Waiting]:
        due_s: Iterable[float] = repeat(math.inf)
        if self.ttft_target_s is not None:
            due_s = (self.planned_s[some] + self.ttft_target_s[some]).tolist()
        classes: Iterable[int] = repeat(0) if self.priority is None else self.priority[some].tolist()
        columns = (self.prompt_tokens, self.max_new_tokens, self.planned_s)
        given = (column[some].tolist() for column in columns)
        return map(_made, repeat(Waiting), zip(names[some], *given, classes, due_s, repeat(0), strict=False))

    def __len__(self) -> int:
        return len(self.planned_s)
