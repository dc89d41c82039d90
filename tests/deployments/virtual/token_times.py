"""When each token of a run was made, exactly: from the steps of the engine."""

import numpy as np

from deployments.virtual.run import Run
from deployments.virtual.tokens import token_steps


def token_times_s(run: Run, index: int) -> list[float]:
    """The end of each of those steps, in seconds: exact, also where steps grow with their context."""
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
