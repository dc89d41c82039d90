"""Warm-up goes on until a batch's steps take as long as those of the batch before."""

from collections.abc import Sequence

import pytest

from deployments.backends.backend import Output
from deployments.warming import WarmUp, warm_up


class Engine:
    """Batches whose steps take as long as they are told, the last time for ever; time passes only in them."""

    def __init__(self, *steps_s: float, tokens: int = 3) -> None:
        self.now_s, self._steps_s, self._tokens = 0.0, steps_s, tokens
        self.numbers: list[int] = []

    async def run(self, number: int) -> Sequence[Output]:
        self.numbers.append(number)
        step_s = self._steps_s[min(number, len(self._steps_s) - 1)]
        stamps = tuple(self.now_s + step_s * (token + 1) for token in range(self._tokens))
        self.now_s += step_s * self._tokens
        return [Output(request_id="any", status="finished", token_s=stamps)]

    async def warm(self, limit_s: float = 1_000.0) -> WarmUp:
        return await warm_up(self.run, limit_s=limit_s, clock=lambda: self.now_s)


@pytest.mark.parametrize("tokens", [1, 3])
async def test_two_batches_in_a_row_must_agree_within_5_per_cent(tokens: int):
    engine = Engine(9.0, 2.0, 1.0, 1.04, tokens=tokens)
    found = await engine.warm()
    assert (found.batches, found.settled) == (4, True)
    assert found.step_s == pytest.approx(1.04)
    assert found.took_s == pytest.approx(13.04 * tokens)
    assert engine.numbers == [0, 1, 2, 3]


async def test_at_least_two_batches_are_run():
    assert (await Engine(1.0).warm()).batches == 2


async def test_what_does_not_settle_ends_at_the_limit_and_is_said():
    found = await Engine(*(2.0**-k for k in range(40))).warm(limit_s=4.0)
    assert not found.settled
    assert found.batches == 2  # 3 s and 1.5 s: the next would begin after the limit
