"""Prompts of exact token length, as token ids.

A source answers for any position in the workload: the same seed gives the same prompt at the same position,
however many others are asked for. Positions are dealt from a seeded permutation of all possible
starts, so prompts begin differently until every start was used once; negative positions count from
the permutation's far end, where warm-up finds prompts that the measured requests do not reach.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from workloads.errors import WorkloadError
from workloads.sharegpt import read_user_turns

Encode: TypeAlias = Callable[[str], Sequence[int]]  # text to ids, without special tokens

PASSAGES = Path(__file__).with_name("passages.txt")
RANDOM_IDS = 1 << 16  # random prompts are cut from one ring of that many ids
SEPARATOR = "\n\n"


class PromptSource(Protocol):
    """Cuts prompts. Invariants: exactly `tokens` ids, all below the vocabulary; the answer depends on
    the source's seed and the arguments alone.
    """

    def prompt(self, position: int, tokens: int) -> tuple[int, ...]:
        """The prompt at `position` (any whole number), `tokens` ≥ 1 long."""
        ...


class Ring:
    """Prompts cut from one closed ring of ids, each from a start of its own."""

    def __init__(self, ids: Sequence[int], rng: np.random.Generator) -> None:
        self._ids = tuple(ids)
        self._starts = rng.permutation(len(self._ids))

    def prompt(self, position: int, tokens: int) -> tuple[int, ...]:
        """The ids from this position's start on, round the ring as often as needed."""
        size = len(self._ids)
        start = int(self._starts[position % size])
        if start + tokens <= size:
            return self._ids[start : start + tokens]
        rounds, rest = divmod(start + tokens, size)
        return self._ids[start:] + self._ids * (rounds - 1) + self._ids[:rest]


class Turns:
    """Prompts that begin where a chat turn begins, continued with the turns after it.

    A chat file holds far more than a trial needs, so a turn is encoded when first used, and once.
    """

    def __init__(
        self, turns: Sequence[str], encode: Encode, vocabulary: int, rng: np.random.Generator
    ) -> None:
        self._turns = turns
        self._encode = encode
        self._vocabulary = vocabulary
        self._starts = rng.permutation(len(turns))
        self._encoded: dict[int, tuple[int, ...]] = {}

    def prompt(self, position: int, tokens: int) -> tuple[int, ...]:
        """The turn at this position's start, and those after it, cut to length."""
        turn = int(self._starts[position % len(self._turns)])
        ids: list[int] = []
        while len(ids) < tokens:
            ids.extend(self._ids(turn))
            turn = (turn + 1) % len(self._turns)
        return tuple(ids[:tokens])

    def _ids(self, turn: int) -> tuple[int, ...]:
        if turn not in self._encoded:
            self._encoded[turn] = encode_checked(self._turns[turn], self._encode, self._vocabulary)
        return self._encoded[turn]


def encode_checked(text: str, encode: Encode, vocabulary: int) -> tuple[int, ...]:
    """The ids of `text` and a paragraph's end; WorkloadError unless there are any, all in [0, vocabulary)."""
    ids = tuple(encode(text + SEPARATOR))
    if not ids:
        raise WorkloadError(f"the tokenizer must give at least 1 id for a text, got none for {text[:40]!r}")
    low, high = min(ids), max(ids)
    if low < 0 or high >= vocabulary:
        wrong = low if low < 0 else high
        raise WorkloadError(f"the tokenizer's ids must be in 0..{vocabulary - 1}, got {wrong}")
    return ids


def english(encode: Encode, vocabulary: int, rng: np.random.Generator) -> Ring:
    """Prompts from the English passages that come with the project, beginning at any token of them."""
    passages = PASSAGES.read_text(encoding="utf-8").strip().split(SEPARATOR)
    return Ring([i for text in passages for i in encode_checked(text, encode, vocabulary)], rng)


def sharegpt(path: str, encode: Encode, vocabulary: int, rng: np.random.Generator) -> Turns:
    """Prompts from what people wrote in the chat file at `path`; WorkloadError if it holds nothing."""
    return Turns(read_user_turns(path), encode, vocabulary, rng)


def random_ids(vocabulary: int, rng: np.random.Generator) -> Ring:
    """Prompts of random ids in [0, vocabulary): no tokenizer, for models whose weights are random too."""
    return Ring(rng.integers(0, vocabulary, RANDOM_IDS).tolist(), rng)
