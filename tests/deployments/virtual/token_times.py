"""Which steps made a request's tokens, and when exactly: no token of a run has an entry of its own."""

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


def token_times_s(run: Run, index: int) -> list[float]:
    """The end of each of these steps, in seconds: exact, also where steps grow with their context."""
    ends = np.cumsum(run.runs["steps"])
    return [
        _end_s(run, int(np.searchsorted(ends, step, "right")), step, ends) for step in token_steps(run, index)
    ]


def _end_s(run: Run, place: int, step: int, ends: np.ndarray) -> float:
    """Of one step of the run of steps at this place."""
    steps = run.runs[place]
    done = step + 1 - int(ends[place]) + int(steps["steps"])
    if done == steps["steps"]:
        return float(steps["end_s"])
    decode_s = run.settings.step.decode_s(int(steps["sequences"]), int(steps["context_tokens"]), done)
    return float(steps["start_s"]) + decode_s
