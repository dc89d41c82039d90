"""Which steps made a request's tokens, since no token has an entry of its own."""

import numpy as np

from deployments.virtual.run import Run


def token_steps(run: Run, index: int) -> list[int]:
    """The engine's steps that made a token of this request, in order."""
    first, last = int(run.first_step[index]), int(run.last_step[index])
    if first < 0:
        return []
    of_it = slice(*np.searchsorted(run.silences["index"], [index, index + 1]))
    silences = run.silences[of_it][["from_step", "to_step"]].tolist()
    silent = {step for pair in silences for step in range(*pair)}
    return [step for step in range(first, last + 1) if step not in silent]
