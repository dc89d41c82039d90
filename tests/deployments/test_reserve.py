"""The reserve of padded batches: the line through two peaks, what it leaves, and smaller batches where none fit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.errors import BackendError, OutOfMemory
from deployments.reserve import MARGIN, MOST_PROMPT_TOKENS, NEW_TOKENS, Peak, Reserve, fit, measure

C_KV = 1_000


def peak(tokens: int, peak_bytes: int) -> Peak:
    return Peak(rows=1, prompt_tokens=tokens - NEW_TOKENS, new_tokens=NEW_TOKENS, peak_bytes=peak_bytes)


class Engine:
    """Takes `fixed` and so many bytes a token, out of what it has."""

    def __init__(self, *, each: int, fixed: int, has: float = float("inf")) -> None:
        self._each, self._fixed, self._has = each, fixed, has
        self.asked: list[tuple[int, int]] = []

    async def peak(self, rows: int, prompt_tokens: int, new_tokens: int) -> int:
        self.asked.append((rows, prompt_tokens))
        taken = self._fixed + self._each * rows * (prompt_tokens + new_tokens)
        if taken > self._has:
            raise OutOfMemory(f"{taken} bytes")
        return taken


def test_a_line_through_two_peaks_with_a_margin_on_what_is_not_cache():
    found = fit(peak(100, 50_000 + 100 * 1_400), peak(400, 50_000 + 400 * 1_400), C_KV)
    assert (found.fixed_bytes, found.beside_bytes_per_token) == (62_500, 500)  # 1.25 × 50,000 and 400
    assert MARGIN == 1.25


def test_peaks_below_the_cache_that_they_hold_reserve_nothing():
    found = fit(peak(100, 20_000), peak(400, 40_000), C_KV)
    assert (found.fixed_bytes, found.beside_bytes_per_token) == (0, 0)
    assert found.budget(500_999).budget_bytes == 500_000


def test_peaks_of_one_size_have_no_line():
    with pytest.raises(ValueError, match="two sizes"):
        fit(peak(100, 1), peak(100, 2), C_KV)


amounts = st.integers(0, 10**9)


@given(small=amounts, large=amounts, free=amounts, each=st.integers(1, 10**6))
def test_the_batch_that_fills_the_budget_fits_with_what_it_takes_beside(small, large, free, each):
    """And one token more would not: the budget is the largest."""
    found = fit(peak(64, small), peak(256, large), each)
    for one in found.peaks:  # never below what was seen
        taken = found.fixed_bytes + (each + found.beside_bytes_per_token) * one.tokens
        assert taken >= one.peak_bytes - one.tokens  # rounding: a byte a token
    tokens = found.budget(free).budget_bytes // each

    def taken_by(tokens: int) -> int:
        return found.fixed_bytes + tokens * (each + found.beside_bytes_per_token)

    assert tokens == 0 or taken_by(tokens) <= free
    assert taken_by(tokens + 1) > free


async def test_two_small_batches_are_run_and_the_law_of_the_engine_is_found():
    engine = Engine(each=1_800, fixed=10_000)
    found = await measure(engine.peak, 100, C_KV)
    assert engine.asked == [(2, 100), (4, 100)]
    assert (found.fixed_bytes, found.beside_bytes_per_token) == (12_500, 1_000)
    long = Engine(each=1_800, fixed=10_000)
    await measure(long.peak, 100_000, C_KV)
    assert long.asked == [(2, MOST_PROMPT_TOKENS), (4, MOST_PROMPT_TOKENS)]


async def test_what_does_not_fit_is_halved_until_it_does():
    engine = Engine(each=1_000, fixed=0, has=20_000)  # 20 tokens
    found = await measure(engine.peak, 40, C_KV)
    assert engine.asked == [(2, 40), (1, 40), (1, 20), (1, 10), (2, 10), (1, 5), (2, 5)]
    assert [one.rows for one in found.peaks] == [1, 2]


async def test_an_engine_that_holds_nothing_is_told():
    with pytest.raises(BackendError, match="not even two rows of one token fit: "):
        await measure(Engine(each=1_000, fixed=10**9, has=10**6).peak, 40, C_KV)


def test_a_reserve_is_what_its_record_says():
    found = fit(peak(100, 1_000_000), peak(400, 2_000_000), C_KV)
    assert Reserve.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    with pytest.raises((KeyError, TypeError, ValueError)):
        Reserve.from_dict({"failed": "why"})
