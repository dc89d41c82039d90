"""Pretended greedy tokens: a function of the prompt and the position alone, whatever the batch."""

import zlib
from array import array
from collections.abc import Sequence


def tokens(prompt_ids: Sequence[int], count: int, vocabulary: int) -> tuple[int, ...]:
    """The first `count` output ids of this prompt, each in [0, vocabulary)."""
    state = zlib.crc32(array("q", prompt_ids).tobytes())
    ids = []
    for _ in range(count):
        state = (state * 1_664_525 + 1_013_904_223) % 2**32  # the LCG of Numerical Recipes
        ids.append((state >> 8) % vocabulary)  # its low bits have short periods
    return tuple(ids)
