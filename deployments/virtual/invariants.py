"""What must hold of every run in virtual time; cheap enough to be checked in each."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from deployments.virtual.outcomes import FINISHED, UNFINISHED
from deployments.virtual.run import Run

Floats = npt.NDArray[np.float64]


def check_columns(run: Run) -> None:
    """No stamp before its cause, and every request in the state that its columns say."""
    arrived_s = run.requests.planned_s
    stamps = [arrived_s, run.scheduled_s, run.first_token_s, run.last_token_s, run.returned_s]
    for earlier, later in pairwise(stamps):
        assert not (later < earlier).any(), (
            f"a stamp lies before its cause: {np.flatnonzero(later < earlier)}"
        )
    finished = run.status == FINISHED
    whole = run.output_tokens == run.requests.output_tokens
    assert whole[finished].all(), "a finished request has all its tokens"
    assert not np.isnan(np.stack(stamps)[:, finished]).any(), "a finished request has all its stamps"
    made = run.output_tokens > 0
    assert (np.isnan(run.first_token_s) == ~made).all(), "a token has a stamp"
    assert (np.isnan(run.last_token_s) == ~made).all(), "a token has a stamp"
    span = run.last_step - run.first_step + made
    silent = np.zeros(len(run.requests), dtype=np.int64)
    np.add.at(silent, run.silences["index"], run.silences["to_step"] - run.silences["from_step"])
    assert (run.output_tokens == span - silent).all(), "tokens are steps less silences"
    blocks, pool = run.runs["blocks"], getattr(getattr(run.settings, "kv", None), "blocks", 0)
    assert ((blocks >= 0) & (blocks <= pool)).all(), f"at most the {pool} blocks of the pool are in use"
    ended = np.diff(run.runs["end_s"])
    assert (ended >= 0).all(), "steps are in order of time"
    if not run.cut_off:
        assert (run.status != UNFINISHED).all(), "nothing is left over"


def request_seconds(arrived_s: Floats, left_s: Floats, end_s: float) -> float:
    """∫N dt, with N counted from event to event; those that have not left stay to the end."""
    stay = np.full(len(arrived_s) - len(left_s), end_s)
    times = np.concatenate([arrived_s, left_s, stay])
    order = np.argsort(times, kind="stable")  # at one moment arrivals come first, or N could fall below 0
    inside = np.cumsum(np.where(order < len(arrived_s), 1, -1))
    assert (inside >= 0).all(), "more requests left than had come"
    return float((inside[:-1] * np.diff(times[order])).sum())


def check_little(run: Run, request_seconds: float) -> None:
    """∫N dt = Σ sojourns, with N counted from what came and left, and the sojourns from the stamps."""
    left_s = np.where(np.isnan(run.returned_s), run.ended_s, run.returned_s)
    sojourns_s = float((left_s - run.requests.planned_s).sum())
    assert abs(request_seconds - sojourns_s) <= 1e-9 * max(1.0, sojourns_s), (
        f"∫N dt is {request_seconds} and the sojourns add up to {sojourns_s}"
    )
