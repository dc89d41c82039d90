"""Which steps made a request's tokens, since no token has an entry of its own."""

from collections.abc import Iterator

from deployments.virtual.run import Run


def token_steps(run: Run, index: int) -> list[int]:
    """The engine's steps that made a token of this request, in order."""
    first, last = int(run.first_step[index]), int(run.last_step[index])
    if first < 0:
        return []
    silent = {step for pair in _pairs(run.silences.get(index, [])) for step in range(*pair)}
    return [step for step in range(first, last + 1) if step not in silent]


def _pairs(flat: list[int]) -> Iterator[tuple[int, int]]:
    return zip(flat[::2], flat[1::2], strict=True)
